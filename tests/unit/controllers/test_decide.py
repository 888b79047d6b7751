"""What is planned for a service in a given world, and what its status says afterwards."""

import datetime
from typing import Any

import pytest

from serveplane.api.model import read
from serveplane.api.servingruntime import ServingRuntime
from serveplane.controllers.inferenceservice.decide import decide
from serveplane.controllers.inferenceservice.outcome import outcome
from serveplane.controllers.inferenceservice.world import DEPLOYMENT, HTTP_ROUTE, SCALED_OBJECT, SERVICE, Plan, World
from serveplane.kube.kind import ObjectRef, ref_of
from serveplane.objects.conditions import condition
from serveplane.render.facts import Facts
from serveplane.settings import parse
from serveplane.status.downloads import Download
from serveplane.status.service import RETOLD_SECONDS, STEP_SECONDS, may_wait

Json = dict[str, Any]
NOW = datetime.datetime(2026, 1, 1, 12, 0, 0, tzinfo=datetime.UTC)
SETTINGS = parse(
    {
        "deploy": '{"defaultDeploymentMode": "Standard"}',
        "ingress": '{"enableGatewayApi": true, "kserveIngressGateway": "kserve/gateway", "ingressGateway": "a/b"}',
    }
)
RUNTIME = read(
    ServingRuntime,
    {
        "metadata": {"name": "sk"},
        "spec": {
            "supportedModelFormats": [{"name": "sklearn", "autoSelect": True}],
            "containers": [{"name": "kserve-container", "image": "sk:1"}],
        },
    },
)
FACTS = Facts(settings=SETTINGS, cluster_runtimes=[RUNTIME])


def iris(status: Json | None = None, generation: int = 1, canary: list[Json] | None = None, **annotations: str) -> Json:
    predictor = {"model": {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://a/b"}}
    named = {f"serving.kserve.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "status": status or {},
        "metadata": {"name": "iris", "namespace": "ml", "uid": "u", "generation": generation, "annotations": named},
        "spec": {"predictor": predictor, **({"canary": canary} if canary else {})},
    }


def world(raw: Json, **more: Any) -> World:
    return World(raw=raw, facts=more.pop("facts", FACTS), now=NOW, **more)


def names(plan: Plan) -> list[str]:
    return [f"{child['kind']} {child['metadata']['name']}" for child in plan.children]


def served(child: Json, *, generation: int = 1, observed: int = 1, updated: int = 1) -> Json:
    """A child as it is once all is well."""
    conditions = [
        {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "done"},
    ]
    status = {
        "observedGeneration": observed,
        "replicas": 1,
        "updatedReplicas": updated,
        "availableReplicas": 1,
        "conditions": conditions,
        "parents": [{"conditions": [{"type": "Accepted", "status": "True"}]}],
    }
    return {**child, "metadata": {**child["metadata"], "generation": generation}, "status": status}


def live(plan: Plan, **how: Any) -> dict[ObjectRef, Json]:
    return {ref_of(child): served(child, **how) for child in plan.children}


def status_of(seen: World, children: dict[ObjectRef, Json] | None = None, error: str = "") -> Json:
    plan = decide(seen)
    return outcome(seen, plan, live(plan) if children is None else children, error).status


def told(status: Json, kind: str) -> Json:
    return condition(status["conditions"], kind) or {}


def test_the_five_children_of_a_plain_service() -> None:
    assert names(decide(world(iris()))) == [
        "Service iris-predictor",
        "Deployment iris-predictor",
        "HorizontalPodAutoscaler iris-predictor",
        "HTTPRoute iris-predictor",
        "HTTPRoute iris",
    ]


def test_ready_says_where_and_which_generation() -> None:
    status = status_of(world(iris(generation=4)))
    assert told(status, "Ready")["status"] == "True"
    assert status["url"] == "http://iris-ml.example.com"
    assert status["address"] == {"url": "http://iris-predictor.ml.svc.cluster.local"}
    assert (status["observedGeneration"], status["clusterServingRuntimeName"]) == (4, "sk")


def test_nothing_changed_is_the_same_status() -> None:
    first = status_of(world(iris()))
    later = World(raw=iris(first), facts=FACTS, now=NOW + datetime.timedelta(hours=1))
    assert status_of(later) == first


def test_a_roll_keeps_ready_and_the_old_generation() -> None:
    first = status_of(world(iris()))
    seen = world(iris(first, generation=2))
    status = status_of(seen, live(decide(seen), generation=2, observed=1))
    assert told(status, "Ready")["status"] == "True"
    assert told(status, "RollingOut")["reason"] == "ReplicasUpdating"
    assert status["observedGeneration"] == 1
    assert "RollingOut" not in [
        item["type"] for item in status_of(seen, live(decide(seen), generation=2, observed=2))["conditions"]
    ]


@pytest.mark.parametrize("spelling", ["true", "True", "TRUE"])
def test_stopping_wants_nothing_at_all(spelling: str) -> None:
    seen = world(iris(stop=spelling))
    assert decide(seen).children == ()
    status = status_of(seen, {})
    assert (told(status, "Ready")["reason"], told(status, "Stopped")["status"]) == ("Stopped", "True")
    assert "url" not in status


def test_a_component_may_be_stopped_alone() -> None:
    raw = iris()
    raw["spec"]["predictor"]["annotations"] = {"serving.kserve.io/stop": "true"}
    raw["spec"]["transformer"] = {"containers": [{"name": "kserve-container", "image": "pre:1"}]}
    seen = world(raw)
    made = names(decide(seen))
    assert not any(name.endswith("iris-predictor") for name in made)
    assert {"Deployment iris-transformer", "HTTPRoute iris-transformer"} <= set(made)
    assert "HTTPRoute iris" not in made
    status = status_of(seen)
    assert [told(status, kind).get("reason") for kind in ("Ready", "PredictorReady")] == ["Stopped", "Stopped"]
    assert told(status, "TransformerReady")["status"] == "True"


def test_canaries_stop_with_their_service() -> None:
    canary = {"trafficPercent": 25, "predictor": {"name": "v2", "model": {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://c"}}}
    status = status_of(world(iris(canary=[canary], stop="true")), {})
    assert told(status, "CanaryPredictorReady")["reason"] == "Stopped"
    assert status["canaryStatuses"] == [
        {"name": "v2", "ready": False, "trafficPercent": 25, "modelStatus": {"transitionStatus": ""}}
    ]


def test_what_cannot_be_rendered_changes_nothing_and_says_why() -> None:
    before = status_of(world(iris()))
    seen = world(iris(before), facts=Facts(settings=SETTINGS))
    plan = decide(seen)
    assert (plan.children, plan.frozen) == ((), True)
    status = outcome(seen, plan, {}).status
    assert told(status, "Ready")["reason"] == "NoSupportingRuntime"
    assert status["modelStatus"]["transitionStatus"] == "InvalidSpec"
    kept = ("url", "clusterServingRuntimeName")
    assert [status[field] for field in kept] == [before[field] for field in kept]
    assert status["modelStatus"]["copies"] == before["modelStatus"]["copies"]


def test_what_serves_stays_ready_though_its_runtime_is_gone() -> None:
    children = live(decide(world(iris())))
    before = status_of(world(iris()), children)
    seen = world(iris(before, generation=2), facts=Facts(settings=SETTINGS), live=children)
    status = outcome(seen, decide(seen), children).status
    assert told(status, "Ready")["status"] == told(status, "PredictorReady")["status"] == "True"
    assert told(status, "RollingOut")["reason"] == status["modelStatus"]["lastFailureInfo"]["reason"] == "NoSupportingRuntime"
    assert status["observedGeneration"] == 1


def test_two_implementations_that_nobody_refused_are_told_of() -> None:
    raw = iris()
    raw["spec"]["predictor"]["sklearn"] = {"storageUri": "gs://c"}
    assert told(status_of(world(raw)), "Ready")["reason"] == "InvalidPredictorSpec"


@pytest.mark.parametrize("kind", ["transformer", "explainer"])
def test_an_assistant_without_a_container_is_told_of(kind: str) -> None:
    raw = iris()
    raw["spec"][kind] = {"minReplicas": 1}
    assert f"The {kind} has no container" in told(status_of(world(raw)), "Ready")["message"]


def test_held_back_updates_still_follow_the_users_edits() -> None:
    ready = status_of(world(iris(disable_auto_update="true")))
    assert decide(world(iris(ready, disable_auto_update="true"))).frozen
    assert not decide(world(iris(ready, generation=2, disable_auto_update="true"))).frozen
    assert not decide(world(iris(disable_auto_update="true"))).frozen


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("ModelMesh", "LeftToModelMesh"), ("Serverless", "ModeNotSupported"), ("Knative", "ModeNotSupported")],
)
def test_other_modes_are_said_plainly(mode: str, reason: str) -> None:
    seen = world(iris(deploymentMode=mode))
    plan = decide(seen)
    assert (plan.children, plan.frozen) == ((), True), "what another controller made for that mode must not be pruned"
    assert told(status_of(seen, {}), "PredictorReady")["reason"] == reason
    assert told(status_of(seen, {}), "Ready")["status"] != "True"


def test_the_status_of_a_modelmesh_service_is_modelmeshs() -> None:
    theirs = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "PredictorReady", "status": "True"}], "url": "grpc://mm:8033",
              "modelStatus": {"transitionStatus": "UpToDate"}}
    assert status_of(world(iris(theirs, deploymentMode="ModelMesh")), {}) == theirs
    begun = status_of(world(iris(deploymentMode="ModelMesh")), {})
    assert status_of(world(iris(begun, deploymentMode="ModelMesh")), {}) == begun


def test_a_mode_that_is_not_supported_keeps_the_addresses() -> None:
    known = {"url": "http://iris", "components": {"predictor": {"url": "http://p"}}, "deploymentMode": "Knative"}
    status = status_of(world(iris(known)), {})
    assert (status["url"], status["components"]["predictor"]["url"]) == ("http://iris", "http://p")


def test_a_mode_once_taken_stays() -> None:
    assert decide(world(iris({"deploymentMode": "Standard"}, deploymentMode="Serverless"))).children != ()


@pytest.mark.parametrize("gateway_api", [True, False])
def test_the_url_of_a_named_predictor_is_that_of_its_route(gateway_api: bool) -> None:
    raw = iris()
    raw["spec"]["predictor"]["name"] = "blue"
    seen = world(raw, absent_kinds=frozenset() if gateway_api else frozenset((HTTP_ROUTE,)))
    plan = decide(seen)
    served_hosts = [host for child in plan.children for host in child["spec"].get("hostnames", [])]
    served_hosts += [rule["host"] for child in plan.children if child["kind"] == "Ingress" for rule in child["spec"]["rules"]]
    url = status_of(seen)["components"]["predictor"]["url"]
    assert url == f"http://iris{'' if gateway_api else '-blue'}-predictor-ml.example.com"
    assert url.removeprefix("http://") in served_hosts


def test_without_the_gateway_api_an_ingress_serves() -> None:
    plan = decide(world(iris(), absent_kinds=frozenset({HTTP_ROUTE})))
    assert names(plan)[-1] == "Ingress iris"
    assert [notice.reason for notice in plan.notices] == ["GatewayApiNotInstalled"]


def test_without_keda_the_rest_is_made_and_it_is_said() -> None:
    seen = world(iris(autoscalerClass="keda"), absent_kinds=frozenset({SCALED_OBJECT}))
    assert not any("ScaledObject" in name for name in names(decide(seen)))
    status = status_of(seen)
    assert told(status, "Ready")["status"] == "True"
    assert "ScaledObject" in told(status, "NeighboursReady")["message"]


CANARY = [{"trafficPercent": 30, "predictor": {"name": "next", "model": {"storageUri": "gs://a/c"}}}]


def test_a_canary_gets_traffic_once_it_is_up() -> None:
    def weights(plan: Plan) -> Json:
        route = next(
            child for child in plan.children if child["kind"] == "HTTPRoute" and child["metadata"]["name"] == "iris"
        )
        return {backend["name"]: backend.get("weight") for backend in route["spec"]["rules"][0]["backendRefs"]}

    waiting = decide(world(iris(canary=CANARY)))
    assert weights(waiting) == {"iris-predictor": None}
    up = {ref: child for ref, child in live(waiting).items() if ref.kind == DEPLOYMENT}
    assert weights(decide(world(iris(canary=CANARY), live=up))) == {"iris-predictor": 70, "iris-next-predictor": 30}


def test_a_broken_canary_holds_up_nobody_and_nothing_is_pruned() -> None:
    broken = [{"trafficPercent": 30, "predictor": {"name": "next", "model": {"modelFormat": {"name": "unheard-of"}}}}]
    seen = world(iris(canary=broken))
    plan = decide(seen)
    assert ("Deployment iris-predictor" in names(plan), plan.prune) == (True, False)
    status = status_of(seen)
    assert told(status, "Ready")["status"] == "True"
    assert "unheard-of" in told(status, "CanaryPredictorReady")["message"]


def test_an_error_while_applying_is_told_at_the_right_component() -> None:
    status = status_of(world(iris()), {}, 'Deployment/ml/iris-predictor: admission webhook "x" denied the request')
    assert told(status, "PredictorReady")["reason"] == "ReconcileFailed"
    assert "denied the request" in told(status, "Ready")["message"]


def test_a_refused_route_is_not_the_predictors_fault() -> None:
    status = status_of(world(iris()), None, 'Ingress/ml/iris: Ingress "iris" is invalid: spec.ingressClassName')
    assert told(status, "PredictorReady")["status"] == "True"
    assert told(status, "IngressReady")["status"] == told(status, "Ready")["status"] == "False"
    assert "spec.ingressClassName" in told(status, "Ready")["message"]


def test_steps_on_the_way_are_told_from_news() -> None:
    starting = status_of(world(iris()), {})
    assert may_wait({}, starting) == STEP_SECONDS
    assert may_wait({}, status_of(world(iris()))) == 0
    assert may_wait(status_of(world(iris())), starting) == 0
    assert may_wait(starting, starting) == 0


def test_a_missing_runtime_is_told_seldom_since_runtimes_come_together() -> None:
    def without(*others: ServingRuntime) -> Json:
        return status_of(world(iris(), facts=Facts(settings=SETTINGS, cluster_runtimes=others)), {})

    starting, ready = status_of(world(iris()), {}), status_of(world(iris()))
    other = read(ServingRuntime, {"metadata": {"name": "x"}, "spec": {"supportedModelFormats": [{"name": "onnx"}]}})
    assert may_wait({}, without()) == STEP_SECONDS
    assert may_wait(without(), without(other)) == RETOLD_SECONDS
    assert may_wait(without(), starting) == STEP_SECONDS
    assert may_wait(without(), ready) == 0
    assert may_wait(ready, without()) == 0
    assert may_wait(starting, without()) == STEP_SECONDS
    broken = {**starting, "modelStatus": {"transitionStatus": "BlockedByFailedLoad", "lastFailureInfo": {"reason": "ModelLoadFailed"}}}
    assert may_wait(starting, broken) == may_wait(broken, without()) == may_wait(broken, starting) == 0


def test_a_download_under_way_is_told_and_forgotten_when_over() -> None:
    loading = {"name": "storage-initializer", "state": {"running": {}}}
    pod = {"metadata": {"name": "p", "namespace": "ml"}, "spec": {}, "status": {"initContainerStatuses": [loading]}}
    known = {"p": Download("gs://a/b", 0, 2, 5_000_000, 20_000_000, 1e6, 15.0)}
    status = status_of(world(iris(), pods={"iris-predictor": [pod]}, downloads=known), {})
    assert status["modelStatus"]["states"]["targetModelState"] == "Loading"
    condition_told = told(status, "ModelDownloaded")
    assert (condition_told["status"], condition_told["reason"], condition_told["severity"]) == ("False", "Downloading", "Info")
    assert condition_told["message"] == "gs://a/b: 5.0 MB of 20.0 MB (25 %), 0 of 2 files, 1.0 MB/s, about 15 s left"
    assert condition(status_of(world(iris(status), downloads=known))["conditions"], "ModelDownloaded") is None


def test_a_headless_service_is_addressed_by_its_port() -> None:
    headless = parse(
        {
            "deploy": '{"defaultDeploymentMode": "Standard"}',
            "service": '{"serviceClusterIPNone": true}',
            "ingress": '{"disableIngressCreation": true, "ingressGateway": "a/b"}',
        }
    )
    seen = world(iris(), facts=Facts(settings=headless, cluster_runtimes=[RUNTIME]))
    assert any(ref.kind == SERVICE for ref in live(decide(seen)))
    assert status_of(seen)["address"]["url"] == "http://iris-predictor.ml.svc.cluster.local:8080"


def test_certificates_that_the_settings_name_must_exist() -> None:
    text = '{"memoryRequest": "1Mi", "memoryLimit": "1Mi", "cpuRequest": "1", "cpuLimit": "1", "caBundleConfigMapName": "corp"}'
    deploy = '{"defaultDeploymentMode": "Standard"}'
    facts = Facts(settings=parse({"deploy": deploy, "storageInitializer": text}), cluster_runtimes=[RUNTIME])
    assert "kserve/corp" in str(decide(world(iris(), facts=facts)).failure)
    shared = decide(world(iris(), facts=facts, ca_bundle="PEM")).shared
    assert [(obj["metadata"]["name"], obj["data"]) for obj in shared] == [("global-ca-bundle", {"cabundle.crt": "PEM"})]


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ((1, 30), "ImageVolumeUnsupported"),
        ((1, 32), "ImageVolumeSubPathUnsupported"),
        ((1, 34), "ImageVolumeAlpha"),
        ((1, 35), None),
        (None, None),
    ],
)
def test_image_volumes_and_what_the_cluster_can_do(version: tuple[int, int] | None, reason: str | None) -> None:
    assert told(status_of(world(iris(), server_version=version)), "OciImageVolumeCompatible").get("reason") == reason


@pytest.mark.parametrize(("scaler", "kinds"), [("keda", {"ScaledObject"}), ("hpa", {"HorizontalPodAutoscaler"}), ("none", set())])
def test_metrics_are_collected_whoever_scales(scaler: str, kinds: set[str]) -> None:
    raw = iris(autoscalerClass=scaler)
    metric = {"metric": {"backend": "opentelemetry", "metricNames": ["q"], "query": "q"}, "target": {"type": "Value", "value": "4"}}
    raw["spec"]["predictor"]["autoScaling"] = {"metrics": [{"type": "PodMetric", "podmetric": metric}]}
    made = {child["kind"] for child in decide(world(raw)).children} - {"Service", "Deployment", "HTTPRoute"}
    assert made == {"OpenTelemetryCollector", *kinds}


@pytest.mark.parametrize(("wish", "number"), [(None, 1), (0, 0), (3, 3)])
def test_without_an_autoscaler_the_number_is_the_users(wish: int | None, number: int) -> None:
    raw = iris(autoscalerClass="none")
    if wish is not None:
        raw["spec"]["predictor"]["minReplicas"] = wish
    deployment = next(child for child in decide(world(raw)).children if child["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == number
