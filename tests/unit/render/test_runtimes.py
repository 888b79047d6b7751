"""Which runtime is taken, and what the table says about the others."""

from typing import Any

import pytest

from serveplane.api.inferenceservice.types import Predictor
from serveplane.api.model import read
from serveplane.api.servingruntime import ServingRuntime
from serveplane.render.runtimes import FailureReason, InvalidSpec, Selection, select, table_text


def runtime(
    name: str, *formats: dict[str, Any], namespace: str = "", created: str = "2026-01-01T00:00:00Z", **spec: Any
) -> ServingRuntime:
    metadata = {"name": name, "creationTimestamp": created, **({"namespace": namespace} if namespace else {})}
    return read(
        ServingRuntime,
        {"metadata": metadata, "spec": {"supportedModelFormats": list(formats), "containers": [], **spec}},
    )


def sklearn(**more: Any) -> dict[str, Any]:
    return {"name": "sklearn", "version": "1", "autoSelect": True, **more}


def predictor(*, workers: bool = False, **model: Any) -> Predictor:
    spec: dict[str, Any] = {"model": {"modelFormat": {"name": "sklearn"}, **model}}
    return read(Predictor, {**spec, "workerSpec": {}} if workers else spec)


def chosen(selection: Selection) -> str:
    return selection.required().name


def test_a_runtime_of_the_namespace_comes_before_any_of_the_cluster() -> None:
    near, far = runtime("near", sklearn(), namespace="ml"), runtime("far", sklearn(priority=9))
    assert chosen(select(predictor(), [near], [far])) == "near"


def test_higher_priority_first_and_none_last() -> None:
    offers = [runtime("none", sklearn()), runtime("two", sklearn(priority=2)), runtime("one", sklearn(priority=1))]
    assert chosen(select(predictor(), [], offers)) == "two"


def test_equal_priority_goes_by_protocol_then_age_then_name() -> None:
    offers = [
        runtime("a-late", sklearn(), protocolVersions=["v2", "v1"], created="2026-02-01T00:00:00Z"),
        runtime("b-late", sklearn(), protocolVersions=["v1"], created="2026-02-01T00:00:00Z"),
        runtime("early", sklearn(), protocolVersions=["v1"]),
        runtime("silent", sklearn()),
    ]
    assert chosen(select(predictor(), [], offers)) == "a-late"


@pytest.mark.parametrize(
    ("offer", "objection"),
    [
        (runtime("x", {"name": "xgboost", "autoSelect": True}), "does not list sklearn"),
        (
            runtime("x", sklearn(autoSelect=False)),
            "must be named in model.runtime, it is not selected automatically for sklearn",
        ),
        (runtime("x", sklearn(), disabled=True), "is disabled"),
        (runtime("x", sklearn(), multiModel=True), "is for multi-model serving"),
        (runtime("x", sklearn(), protocolVersions=["v2"]), "speaks v2, not v1"),
        (runtime("x", sklearn(), workerSpec={}), "is for several nodes and the service has no workerSpec"),
    ],
)
def test_the_table_says_why_not(offer: ServingRuntime, objection: str) -> None:
    selection = select(predictor(), [], [offer])
    assert [row.objection for row in selection.table] == [objection]
    assert objection.split(" ", 1)[1] in selection.message
    with pytest.raises(InvalidSpec) as refusal:
        selection.required()
    assert refusal.value.reason is FailureReason.NO_SUPPORTING_RUNTIME


def test_a_version_that_nobody_serves() -> None:
    selection = select(predictor(modelFormat={"name": "sklearn", "version": "7"}), [], [runtime("x", sklearn())])
    assert "serves sklearn version 1, not 7" in selection.message


def test_a_named_runtime_need_not_offer_itself() -> None:
    offer = runtime("mine", sklearn(autoSelect=False), multiModel=True)
    assert chosen(select(predictor(runtime="mine"), [], [offer])) == "mine"


@pytest.mark.parametrize(
    ("model", "offers", "reason"),
    [
        ({"runtime": "gone"}, [], FailureReason.RUNTIME_NOT_RECOGNIZED),
        ({"runtime": "x"}, [runtime("x", sklearn(), disabled=True)], FailureReason.RUNTIME_DISABLED),
        (
            {"runtime": "x", "protocolVersion": "v2"},
            [runtime("x", sklearn(), protocolVersions=["v1"])],
            FailureReason.NO_SUPPORTING_RUNTIME,
        ),
        ({"runtime": "x"}, [runtime("x", {"name": "onnx"})], FailureReason.NO_SUPPORTING_RUNTIME),
    ],
)
def test_a_named_runtime_that_cannot_serve(
    model: dict[str, Any], offers: list[ServingRuntime], reason: FailureReason
) -> None:
    selection = select(predictor(**model), [], offers)
    assert (selection.runtime, selection.failure) == (None, reason)


def test_a_namespaced_runtime_hides_a_cluster_runtime_of_its_name() -> None:
    mine, theirs = runtime("same", sklearn(), namespace="ml"), runtime("same", sklearn())
    assert select(predictor(runtime="same"), [mine], [theirs]).runtime is mine


def test_several_nodes_need_a_runtime_for_several_nodes() -> None:
    offers = [runtime("single", sklearn(priority=5)), runtime("group", sklearn(), workerSpec={})]
    assert chosen(select(predictor(workers=True), [], offers)) == "group"


def test_the_sentence_names_near_misses_and_counts_the_rest() -> None:
    offers = [
        runtime("near", sklearn(), disabled=True),
        runtime("far-1", {"name": "onnx"}),
        runtime("far-2", {"name": "onnx"}),
    ]
    text = table_text(select(predictor(), [], offers).table)
    assert text == "near is disabled; the other 2 runtimes do not list sklearn"
