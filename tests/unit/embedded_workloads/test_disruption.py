"""How many pods a PodDisruptionBudget lets go."""
import datetime

import pytest

from serveplane.embedded.workloads.disruption import budget_status, needed
from serveplane.objects import Json

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
STAMP = "2026-01-01T12:00:00Z"


def pod(name: str, *, ready: bool = True, app: str = "x", owner: str = "rs") -> Json:
    reference = [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}] if owner else []
    return {"metadata": {"name": name, "namespace": "d", "labels": {"app": app}, "ownerReferences": reference},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}}


def status(pods: list[Json], replicas: int = 3, before: Json | None = None, **spec: object) -> Json:
    budget = {"metadata": {"generation": 2}, "status": before or {}, "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec}}
    return budget_status(budget, pods, lambda kind, namespace, name: replicas, NOW, STAMP)


@pytest.mark.parametrize(("spec", "count", "healthy"), [
    ({"minAvailable": 2}, 5, 2), ({"minAvailable": "50%"}, 5, 3), ({"maxUnavailable": 1}, 5, 4), ({"maxUnavailable": "30%"}, 5, 3),
    ({}, 5, 1)])
def test_how_many_must_stay(spec: Json, count: int, healthy: int) -> None:
    assert needed(spec, count) == healthy


def test_what_may_go() -> None:
    pods = [pod("a"), pod("b"), pod("c", ready=False), pod("d", app="other")]
    told = status(pods, minAvailable=1)
    assert (told["disruptionsAllowed"], told["currentHealthy"], told["desiredHealthy"], told["expectedPods"]) == (1, 2, 1, 3)
    assert (told["conditions"][0]["reason"], told["observedGeneration"]) == ("SufficientPods", 2)
    assert status(pods, maxUnavailable=0)["conditions"][0]["reason"] == "InsufficientPods"
    assert status([], minAvailable=0)["disruptionsAllowed"] == 0, "no pods, nothing to evict"
    assert status([pod("alone", owner="")], minAvailable=0)["expectedPods"] == 1


def test_a_pod_that_was_just_evicted_does_not_count() -> None:
    recent, long_ago = {"a": "2026-01-01T11:59:00Z"}, {"a": "2026-01-01T11:00:00Z"}
    pods = [pod("a"), pod("b"), pod("c")]
    told = status(pods, before={"disruptedPods": recent}, minAvailable=1)
    assert (told["currentHealthy"], told["disruptedPods"]) == (2, recent)
    assert "disruptedPods" not in status(pods, before={"disruptedPods": long_ago}, minAvailable=1)
