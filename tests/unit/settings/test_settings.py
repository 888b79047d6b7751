"""The central ConfigMap: what is read, what is reported, what holds when it is wrong."""

import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from serveplane.api.mode import Mode
from serveplane.objects.yamlio import load_all
from serveplane.settings import KSERVE, SHIPPED, Settings, parse, settings_from
from serveplane.settings.parse import SECTIONS
from tests.conformance.recorded import GOLDEN
from tests.counts import COUNTS, SEED
from tests.kit.api import documents

OURS = Path(__file__).resolve().parents[3] / "config/configmap/inferenceservice.yaml"


def shipped_data() -> dict[str, str]:
    data: dict[str, str] = load_all(OURS.read_text())[0]["data"]
    return data


def different(one: Settings, other: Settings) -> set[str]:
    names = [field.name for field in msgspec.structs.fields(Settings)]
    return {name for name in names if getattr(one, name) != getattr(other, name)}


def test_our_config_map_is_read_without_a_word() -> None:
    settings = parse(shipped_data())
    assert settings == SHIPPED
    assert settings.deploy.mode is Mode.STANDARD


@pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no recorded cases in {GOLDEN} (set SERVEPLANE_GOLDEN)")
def test_our_config_map_means_what_the_recorded_one_means() -> None:
    maps = {item["metadata"]["name"]: item for item in documents(GOLDEN / "baseline/configmaps.yaml")}
    recorded = {key: json.loads(value) for key, value in maps["inferenceservice-config"]["data"].items()}
    assert {key: json.loads(value) for key, value in shipped_data().items()} == recorded


def test_no_config_map_means_what_we_ship_and_a_missing_key_what_kserve_ships() -> None:
    assert settings_from(None) == SHIPPED
    assert settings_from({"data": None}) == KSERVE
    assert different(SHIPPED, KSERVE) == {"deploy", "ingress"}
    assert KSERVE.deploy.mode is Mode.KNATIVE
    assert SHIPPED.storage_initializer.oci_mode == "modelcar"


def test_a_missing_field_is_not_a_missing_section() -> None:
    settings = parse({"inferenceService": "{}", "security": "{}"})
    assert settings.inference_service.resource.limits == {}
    assert settings.security.auto_mount_service_account_token is False
    assert SHIPPED.security.auto_mount_service_account_token is True


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("agent", '{\n "image": \n', "agent, line 3: is not JSON"),
        ("ingress", "[]", "ingress, line 1: expected a JSON object"),
        (
            "ingress",
            '{"ingressGateway": "a/b",\n "urlScheme": 4}',
            "ingress, line 2: urlScheme: expected `str`, got `int`",
        ),
        ("ingress", "{}", "ingress: ingressGateway: is needed"),
        (
            "ingress",
            '{"ingressGateway": "a/b", "enableGatewayApi": true, "kserveIngressGateway": "a"}',
            "kserveIngressGateway",
        ),
        ("ingress", '{"ingressGateway": "a/b", "pathTemplate": "/{{ .Name"}', "pathTemplate"),
        ("deploy", '{"defaultDeploymentMode": "Turbo"}', "must be one of Standard, Knative, ModelMesh, not 'Turbo'"),
        ("storageInitializer", '{"cpuLimit": "lots"}', "cpuLimit: 'lots' is not a quantity"),
        ("storageInitializer", '{"ociModelMode": "magic"}', "ociModelMode: must be one of modelcar, native, fetch"),
        ("opentelemetryCollector", '{"resource": {"cpuLimit": "x"}}', "resource.cpuLimit"),
    ],
)
def test_what_is_wrong_is_told_with_key_line_and_field(key: str, text: str, told: str) -> None:
    settings = parse({key: text})
    assert told in settings.trouble(key)


def test_one_bad_section_leaves_the_others_alone() -> None:
    good = parse(
        shipped_data()
        | {"agent": '{"image": "a", "cpuLimit": "1", "cpuRequest": "1", "memoryLimit": "1", "memoryRequest": "1"}'}
    )
    bad = parse(shipped_data() | {"agent": "{"}, previous=good)
    assert bad.agent == good.agent
    assert bad.trouble("agent")
    assert different(bad, good) == {"problems"}


def test_unknown_keys_and_fields_are_kept_out_of_the_way() -> None:
    settings = parse(
        {
            "newThing": "{}",
            "_example": "x",
            "router": json.dumps(
                {
                    "image": "r",
                    "sharding": True,
                    "cpuLimit": "1",
                    "cpuRequest": "1",
                    "memoryLimit": "1",
                    "memoryRequest": "1",
                }
            ),
        }
    )
    assert settings.unknown == {"newThing": "{}"}
    assert [(problem.key, problem.field, problem.fatal) for problem in settings.problems] == [
        ("router", "sharding", False),
        ("newThing", "", False),
    ]
    assert settings.router.image == "r"
    assert settings.trouble("router") == ""


def test_disallowed_metadata_always_holds_the_built_in_keys() -> None:
    settings = parse(
        {"inferenceService": '{"serviceAnnotationDisallowedList": ["acme"], "serviceLabelDisallowedList": ["x"]}'}
    )
    assert {"acme", "modelFormat"} <= settings.inference_service.disallowed_annotations
    assert settings.inference_service.disallowed_labels == {"x", "networking.knative.dev/visibility"}


def test_whatever_is_in_the_config_map_is_parsed() -> None:
    random = Random(SEED)
    values: list[Any] = [None, 1, -1, "x", "", [], {}, [1], {"a": {}}, True, 1e99, "100m"]
    for _ in range(COUNTS.fuzzed_objects):
        key = random.choice(list(SECTIONS))
        document = json.loads(shipped_data().get(key, "{}"))
        for name in random.sample(sorted(document), min(len(document), 3)):
            document[name] = random.choice(values)
        text = json.dumps(document)
        settings = parse({key: random.choice((text, text[:-2], text[3:], "\0" + text))})
        assert isinstance(settings.policy.default_mode, Mode)
        assert all(str(problem) for problem in settings.problems)
