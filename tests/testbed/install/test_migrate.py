"""From KServe to here and back: what KServe made goes on as it was, each way.

The objects are KServe's own, recorded, and written under its field manager. Its definitions are used where $KSERVE_DEFINITIONS names them
(a checkout's `config/crd/full`, say); elsewhere ours stand in.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from tests.conformance.baseline import put_baseline
from tests.conformance.deviations import GOES_ON
from tests.conformance.recorded import GOLDEN, Case, cases
from tests.kit.api import Api, Json, condition
from tests.kit.installation import Installation
from tests.kit.plugin import run_apart
from tests.kit.testbed import Testbed
from tests.testbed.install.conftest import Run, await_definitions
from tests.testbed.install.moving import Id, Past, Snapshot

pytestmark = [pytest.mark.testbed, pytest.mark.skipif(not GOLDEN.exists(), reason=f"KServe's recorded objects are not at {GOLDEN}")]
DEFINITIONS = os.environ.get("KSERVE_DEFINITIONS") or "config/crd"
WEBHOOKS = "validatingwebhookconfiguration,mutatingwebhookconfiguration"


def movable(case: Case) -> bool:
    """Cases of one step, under the usual settings, that came up with KServe."""
    if case.area != "isvc-standard" or case.settings or len(case.steps) != 1 or case.is_refused or str(case) in GOES_ON:
        return False
    told = case.steps[0].expected
    return "children" in told and all(condition(obj, "Ready") for obj in told["status"] if obj["kind"] == "InferenceService")


CHOSEN = [case for case in cases() if movable(case)]


@dataclass
class Move:
    """What was seen in the three ages of one cluster: KServe's, ours, KServe's again."""
    children: list[Snapshot] = field(default_factory=list)
    services: list[Snapshot] = field(default_factory=list)
    pods: list[Snapshot] = field(default_factory=list)
    problems: dict[Id, str] = field(default_factory=dict)
    """Objects that KServe could not update after us."""

    async def look(self, past: Past) -> None:
        self.children.append(await past.children())
        self.services.append(await past.services())
        self.pods.append(await past.pods())


@pytest.fixture(scope="module")
def move(played: Testbed, kubectl: Run) -> Move:
    kubectl("apply", "--server-side", "-k", DEFINITIONS)
    await_definitions(kubectl)
    return run_apart(lambda: _moved(played, kubectl))


async def _moved(bed: Testbed, kubectl: Run) -> Move:
    move = Move()
    await put_baseline(bed)
    async with Api(bed.kubeconfig) as api:
        past = Past(api, CHOSEN)
        await past.write()
        await past.await_rest()
        await move.look(past)
        await _ours(bed, kubectl, past, move)
        await asyncio.to_thread(kubectl, "delete", WEBHOOKS, "-l", "app.kubernetes.io/part-of=kserve")   # KServe's replace them
        await asyncio.to_thread(kubectl, "apply", "--server-side", "--force-conflicts", "-k", DEFINITIONS)
        await _theirs_again(past, move)
    return move


async def _ours(bed: Testbed, kubectl: Run, past: Past, move: Move) -> None:
    await asyncio.to_thread(kubectl, "apply", "--server-side", "--force-conflicts", "-k", "config/default")
    installation = Installation(bed)
    try:
        manager = installation.run("kserve", "--leader-elect")
        await asyncio.to_thread(manager.await_ready)
        await past.await_adoption()
        await asyncio.sleep(3)   # whatever would still follow
        await move.look(past)
    finally:
        await asyncio.to_thread(installation.stop)


async def _theirs_again(past: Past, move: Move) -> None:
    for where in past.written:
        try:
            await past.update(where)
        except Exception as refusal:
            move.problems[where] = str(refusal)
    await asyncio.sleep(2)
    await move.look(past)


AGES = pytest.mark.parametrize("age", [1, 2], ids=["ours", "theirs again"])


def changes(before: Snapshot, after: Snapshot, aspect: Callable[[Json], Json]) -> list[str]:
    """Where an aspect differs, path by path; what is missing on one side differs, too."""
    assert before
    found = []
    for where in {**before, **after}:
        old, new = (dict(leaves(aspect(age[where]))) if where in age else {"": "no such object"} for age in (before, after))
        differing = [path for path in {**old, **new} if old.get(path) != new.get(path)]
        found += [f"{'/'.join(where)} {path}: {old.get(path)!r} -> {new.get(path)!r}" for path in differing]
    return found


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not inner:
        yield path, value
    for key, part in inner:
        yield from leaves(part, f"{path}.{key}")


@AGES
def test_no_child_is_made_again_or_changed(move: Move, age: int) -> None:
    assert changes(move.children[0], move.children[age], lambda obj: {key: obj["metadata"].get(key) for key in ("uid", "generation")}) == []


@AGES
def test_no_pod_rolls(move: Move, age: int) -> None:
    assert changes(move.pods[0], move.pods[age], lambda obj: {"uid": obj["metadata"]["uid"]}) == []


def test_statuses_continue(move: Move) -> None:
    assert changes(move.services[0], move.services[1], standing) == []


def standing(service: Json) -> Json:
    """What a user sees of a service, and since when: a condition that flickers gets a new time."""
    status = service["status"]
    told = {entry["type"]: (entry["status"], entry["lastTransitionTime"]) for entry in status["conditions"]}
    return {"conditions": told, **{key: status.get(key) for key in ("url", "address", "deploymentMode", "components")}}


def test_nothing_of_ours_is_in_the_way(move: Move) -> None:
    """Not a finalizer, label, annotation or field that was not there under KServe."""
    assert changes(move.children[0], move.children[1], content) == []
    assert changes(move.services[0], move.services[1], content) == []
    known = {key for service in move.services[0].values() for key in service["status"]}
    assert {key for service in move.services[1].values() for key in service["status"]} <= known


def content(obj: Json) -> Json:
    kept = {key: obj["metadata"].get(key) for key in ("labels", "annotations", "finalizers", "ownerReferences")}
    return {"metadata": kept, **{key: value for key, value in obj.items() if key not in ("metadata", "status")}}


def test_kserve_can_update_everything_again(move: Move) -> None:
    assert move.problems == {}
