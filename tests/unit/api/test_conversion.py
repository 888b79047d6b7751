"""v1alpha1 ↔ v1alpha2: what goes there and back is what it was."""

import copy
from random import Random
from typing import Any

import pytest

from serveplane.api.admission import SCHEMAS
from serveplane.api.llminferenceservice.conversion import KEPT_NEWER, NEWER, OLDER, CannotConvert, converted
from serveplane.api.storing import with_defaults
from serveplane.api.structure import structure_problems
from tests.counts import COUNTS, SEED
from tests.unit.api.generated import an_object, broken

Json = dict[str, Any]
KINDS = ("LLMInferenceService", "LLMInferenceServiceConfig")
OTHER = {OLDER: NEWER, NEWER: OLDER}


def defaulted(obj: Json) -> Json:
    """With the schema's defaults: an API server writes them whenever it reads."""
    result: Json = with_defaults(obj, SCHEMAS[obj["apiVersion"], obj["kind"]]())
    return result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", [OLDER, NEWER])
def test_there_and_back_changes_nothing(kind: str, version: str) -> None:
    random = Random(SEED)
    for _ in range(COUNTS.fuzzed_objects // 5):
        obj = an_object(version, kind, random)
        there = converted(obj, OTHER[version])
        assert defaulted(converted(there, version)) == defaulted(obj)


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_has_the_structure_of_its_version(kind: str) -> None:
    random = Random(SEED)
    for _ in range(COUNTS.fuzzed_objects // 10):
        newer = converted(an_object(OLDER, kind, random), NEWER)
        problems = [str(found) for found in structure_problems(newer, SCHEMAS[NEWER, kind]())]
        assert [
            text for text in problems if "endpointPickerRef: is required" not in text and "matchLabels" not in text
        ] == []


@pytest.mark.parametrize("version", [OLDER, NEWER])
def test_whatever_arrives_is_converted(version: str) -> None:
    random = Random(SEED)
    for _ in range(COUNTS.fuzzed_objects // 5):
        obj = broken(an_object(version, "LLMInferenceService", random), random)
        if obj.get("apiVersion") == version and isinstance(obj.get("metadata"), dict):
            before = copy.deepcopy(obj)
            converted(obj, OTHER[version])
            assert obj == before


def newer(**spec: Any) -> Json:
    return {"apiVersion": NEWER, "kind": "LLMInferenceService", "metadata": {"name": "m"}, "spec": spec}


POOL = {"selector": {"matchLabels": {"app": "x"}}, "endpointPickerRef": {"name": "p", "port": {"number": 1}}}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"model": {"uri": "hf://a"}, "kvCacheOffloading": {"cpu": "1Gi"}}, id="kv cache"),
        pytest.param({"prefill": {"kvCacheOffloading": {"cpu": "1Gi"}}}, id="kv cache of prefill"),
        pytest.param({"model": {"uri": "hf://a", "confidential": {"enabled": True}}}, id="confidential"),
        pytest.param({"router": {"scheduler": {"pool": {"spec": POOL | {"targetPorts": []}}}}}, id="no ports"),
        pytest.param(
            {"router": {"scheduler": {"pool": {"spec": POOL | {"targetPorts": [{"number": 1}, {"number": 2}]}}}}},
            id="two ports",
        ),
        pytest.param(
            {"router": {"scheduler": {"pool": {"spec": POOL | {"appProtocol": "kubernetes.io/h2c"}}}}}, id="h2c"
        ),
    ],
)
def test_what_v1alpha1_cannot_say_survives(spec: Json) -> None:
    obj = newer(**spec)
    older = converted(obj, OLDER)
    assert "kvCacheOffloading" not in older["spec"]
    assert KEPT_NEWER in older["metadata"]["annotations"]
    assert converted(older, NEWER) == obj


def test_an_edit_in_v1alpha1_wins_over_what_was_kept() -> None:
    obj = newer(router={"scheduler": {"pool": {"spec": POOL | {"targetPorts": [{"number": 1}, {"number": 2}]}}}})
    older = converted(obj, OLDER)
    older["spec"]["router"]["scheduler"]["pool"]["spec"]["targetPortNumber"] = 7
    ports = converted(older, NEWER)["spec"]["router"]["scheduler"]["pool"]["spec"]["targetPorts"]
    assert ports == [{"number": 7}]


def test_criticalities_are_kept_under_the_names_that_kserve_uses() -> None:
    adapters = [{"name": "a", "uri": "hf://a"}, {"name": "b", "uri": "hf://b", "criticality": "Standard"}]
    model = {"uri": "hf://m", "criticality": "Critical", "lora": {"adapters": adapters}}
    older = {"apiVersion": OLDER, "kind": "LLMInferenceService", "metadata": {"name": "m"}, "spec": {"model": model}}
    result = converted(older, NEWER)
    assert result["metadata"]["annotations"] == {
        "internal.serving.kserve.io/model-criticality": "Critical",
        "internal.serving.kserve.io/lora-criticalities": '{"1":"Standard"}',
    }
    assert converted(result, OLDER) == older


def test_a_spoilt_annotation_is_no_reason_to_fail() -> None:
    older = converted(newer(model={"uri": "hf://a"}), OLDER)
    older["metadata"]["annotations"] = {KEPT_NEWER: "{not json"}
    assert converted(older, NEWER)["metadata"] == {"name": "m"}


def test_other_versions_are_refused() -> None:
    with pytest.raises(CannotConvert):
        converted(newer(), "serving.kserve.io/v1")
