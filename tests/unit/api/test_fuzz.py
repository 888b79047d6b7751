"""Whatever arrives at admission gets an answer: generated objects, broken objects, random JSON."""

from random import Random
from typing import Any

import msgspec
import pytest

from serveplane.api.admission import Context, mutate, stored, validate, validate_deletion
from serveplane.api.expressions import matches
from serveplane.api.mode import Mode
from serveplane.api.policy import Policy
from tests.counts import COUNTS, SEED
from tests.unit.api.generated import KINDS, an_object, broken

Json = dict[str, Any]
POLICY = Policy(default_mode=Mode.STANDARD, limits={"cpu": "1"}, requests={"cpu": "1"}, local_models=True)


def reviewed(obj: Json, old: Json | None, context: Context) -> None:
    before = msgspec.json.encode(obj)
    result = mutate(obj, context)
    verdict = validate(result, old, context)
    for error in verdict.errors:
        assert error.message
        assert str(error)
    assert all(isinstance(warning, str) for warning in verdict.warnings)
    validate_deletion(obj, context)
    assert msgspec.json.encode(obj) == before, "the given object was changed"


@pytest.mark.parametrize(("version", "kind"), KINDS, ids=lambda word: word.rsplit("/", 1)[-1])
def test_every_review_ends_with_an_answer(version: str, kind: str) -> None:
    random = Random(f"{SEED} {version} {kind}")
    cached = [an_object("serving.kserve.io/v1alpha1", "LocalModelCache", random)]
    context = Context(POLICY, lambda wanted, _: cached if "Cache" in wanted else [])
    for _ in range(COUNTS.fuzzed_objects // len(KINDS)):
        obj = an_object(version, kind, random)
        reviewed(obj, None, context)
        reviewed(broken(obj, random), obj, context)
        stored(broken(obj, random), context)


@pytest.mark.parametrize(("version", "kind"), KINDS, ids=lambda word: word.rsplit("/", 1)[-1])
def test_defaults_are_settled_after_one_pass(version: str, kind: str) -> None:
    random = Random(f"{SEED} {version} {kind}")
    for _ in range(COUNTS.fuzzed_objects // len(KINDS) // 2):
        once = mutate(an_object(version, kind, random), Context(POLICY))
        assert mutate(once, Context(POLICY)) == once


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"kind": "InferenceService"},
        {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"},
        {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": None, "spec": None},
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {},
            "spec": {"predictor": {}},
        },
        {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": [], "spec": []},
        {"apiVersion": "serving.kserve.io/v9", "kind": "LLMInferenceService", "metadata": {}, "spec": {}},
        {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "LLMInferenceService", "metadata": {"annotations": 3}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
    ],
    ids=str,
)
def test_odd_objects(obj: Json) -> None:
    mutate(obj)
    validate(obj)
    validate(obj, {"metadata": {}})


def nested(depth: int) -> Json:
    value: Json = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("depth", [100, 500, 3000, 9000])
def test_deeply_nested_objects_are_answered(depth: int) -> None:
    deep = nested(depth)
    model = {"uri": "hf://a", "lora": {"adapters": [{"name": "x", "uri": "y", "lora": deep}]}}
    for version in ("v1alpha1", "v1alpha2"):
        obj = {
            "apiVersion": f"serving.kserve.io/{version}",
            "kind": "LLMInferenceService",
            "metadata": {"name": "a"},
            "spec": {"model": model},
        }
        assert validate(stored(mutate(obj))).errors or depth < 200
    service = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "a"},
        "spec": {"predictor": {"affinity": deep}},
    }
    assert validate(stored(mutate(service))).errors


@pytest.mark.parametrize("expression", ["(a+)+$", "(a|aa)*b", "((a*)*)*", "(.*)*x", "([a-z]+)*!", "(?:x+x+)+y", "("])
def test_an_expression_of_a_storage_container_cannot_stop_us(expression: str) -> None:
    assert not matches(expression, "a" * 5_000)
