"""The settings of a one-machine cluster: URLs that lead to its gateway, also after it moved."""
import msgspec

from serveplane.api.inferenceservice.types import InferenceService
from serveplane.api.model import read
from serveplane.cli.cluster.objects import moved_settings, settings
from serveplane.objects import Json
from serveplane.render.hosts import component_url, external_url
from serveplane.settings import settings_from
from serveplane.settings.sections import Ingress


def service(**labels: str) -> InferenceService:
    return read(InferenceService, {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "spec": {"predictor": {}},
                                   "metadata": {"name": "iris", "namespace": "ml", "labels": labels}})


def ingress(config_map: Json) -> Ingress:
    parsed = settings_from(config_map)
    assert not parsed.problems
    return parsed.ingress


def test_urls_lead_to_the_gateway() -> None:
    section = ingress(settings(8123))
    assert external_url(service(), section) == "http://127.0.0.1:8123/serving/ml/iris"
    assert component_url("iris-predictor", service(), section) == "http://127.0.0.1:8123/serving/ml/iris-predictor"
    hidden = service(**{"networking.kserve.io/visibility": "cluster-local"})
    assert external_url(hidden, section) == "http://iris-ml.localhost", "what has no route keeps its host"


def test_a_template_may_use_scheme_and_host() -> None:
    section = Ingress(url_scheme="https", url_template="{{ .Scheme }}://{{ .Host }}:30443/")
    assert external_url(service(), section) == "https://iris-ml.example.com:30443/"
    assert external_url(service(), Ingress()) == "http://iris-ml.example.com"


def test_settings_follow_the_gateway_unless_they_are_the_users() -> None:
    live = settings(8080)
    assert moved_settings(live, 8080) is None
    moved = moved_settings(live, 9090)
    assert moved is not None
    after = ingress({**live, "data": {**live["data"], **moved["data"]}})
    assert after.url_template == "http://127.0.0.1:9090/serving/{{ .Namespace }}/{{ .Name }}"
    own = msgspec.json.decode(live["data"]["ingress"]) | {"urlTemplate": "http://my.host/{{ .Name }}"}
    assert moved_settings({**live, "data": {"ingress": msgspec.json.encode(own).decode()}}, 9090) is None
    assert moved_settings({**live, "data": {"ingress": "not json"}}, 9090) is None
