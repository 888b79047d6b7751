"""Every verb and patch format on every kind, on both servers, with a count per cell: an empty cell is a failure."""

from collections import Counter
from typing import Any

import pytest

from tests.embedded.conftest import Both
from tests.embedded.samples import SAMPLES, Sample
from tests.embedded.servers import APPLY, JSON_PATCH, MERGE, STRATEGIC, Answer, Api

pytestmark = pytest.mark.testbed
VERBS = (
    "create",
    "create again",
    "get",
    "list",
    "watch",
    "update",
    "json patch",
    "merge patch",
    "strategic patch",
    "apply",
    "apply new",
    "apply change",
    "dry run",
    "delete",
    "delete collection",
)
CELLS: Counter[tuple[str, str]] = Counter()
TAINTED = {
    "nodes"
}  # the real server taints new nodes until a controller says they are ready; there is no such controller here


@pytest.fixture
def both(real: Api, bare: Api) -> Both:
    """Without the loops: nobody counts or protects beside the real server."""
    return Both(bare, real)


def _object(sample: Sample, name: str, space: str) -> dict[str, Any]:
    value = sample.object(name)
    if sample.kind == "Event":
        value["involvedObject"] = {**value["involvedObject"], "namespace": space}
    return value


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.plural)
def test_every_verb_on_every_kind(both: Both, space: str, sample: Sample) -> None:
    collection = sample.collection(space)
    mark = f"{space}-" if not sample.namespaced else ""
    one, two = f"{mark}one", f"{mark}two"
    steps: list[tuple[str, Any]] = [
        ("create", lambda api: api.call("POST", collection, _object(sample, one, space))),
        ("create again", lambda api: api.call("POST", collection, _object(sample, one, space))),
        ("get", lambda api: api.call("GET", f"{collection}/{one}")),
        ("merge patch", lambda api: api.call("PATCH", f"{collection}/{one}", sample.change, MERGE)),
        (
            "json patch",
            lambda api: api.call(
                "PATCH", f"{collection}/{one}", [{"op": "add", "path": "/metadata/labels/j", "value": "1"}], JSON_PATCH
            ),
        ),
        (
            "strategic patch",
            lambda api: api.call("PATCH", f"{collection}/{one}", {"metadata": {"labels": {"s": "1"}}}, STRATEGIC),
        ),
        (
            "apply",
            lambda api: api.call(
                "PATCH", f"{collection}/{one}", _labels(sample, one, {"p": "1"}), APPLY, fieldManager="applier"
            ),
        ),
        (
            "apply new",
            lambda api: api.call(
                "PATCH", f"{collection}/{two}", _object(sample, two, space), APPLY, fieldManager="applier"
            ),
        ),
        (
            "apply change",
            lambda api: api.call(
                "PATCH",
                f"{collection}/{two}",
                {**_object(sample, two, space), **_labels(sample, two, {"q": space})},
                APPLY,
                fieldManager="applier",
            ),
        ),
        ("update", lambda api: _annotated(api, f"{collection}/{two}")),
        ("list", lambda api: api.call("GET", collection, labelSelector=f"q={space}")),
        ("watch", lambda api: _first_event(api, collection, f"q={space}")),
        (
            "dry run",
            lambda api: api.call(
                "PATCH", f"{collection}/{one}", {"metadata": {"labels": {"dry": "1"}}}, MERGE, dryRun="All"
            ),
        ),
        ("delete", lambda api: api.call("DELETE", f"{collection}/{one}", propagationPolicy="Background")),
        (
            "delete collection",
            lambda api: api.call("DELETE", collection, labelSelector=f"q={space}", propagationPolicy="Background"),
        ),
    ]
    for label, ask in steps:
        both.same(f"{label} {sample.plural}", ask)
        CELLS[label, sample.plural] += 1
    both.found = [line for line in both.found if not (sample.plural in TAINTED and "taints" in line)]
    both.check()


def _labels(sample: Sample, name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": sample.api_version, "kind": sample.kind, "metadata": {"name": name, "labels": labels}}


def _annotated(api: Api, path: str) -> Answer:
    value = api.call("GET", path).value
    value["metadata"].setdefault("annotations", {})["u"] = "1"
    return api.call("PUT", path, value)


def _first_event(api: Api, collection: str, labels: str) -> Any:
    return next(iter(api.watch(collection, labelSelector=labels)), None)


def test_no_cell_is_empty(request: pytest.FixtureRequest) -> None:
    ran = {plural for _, plural in CELLS}
    if len(ran) < len(SAMPLES):
        pytest.skip("only part of the matrix was run")
    empty = [(verb, sample.plural) for verb in VERBS for sample in SAMPLES if not CELLS[verb, sample.plural]]
    assert not empty
    assert sum(CELLS.values()) == len(VERBS) * len(SAMPLES)
