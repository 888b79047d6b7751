"""PodDisruptionBudgets: how many of the pods they speak of may be evicted now. The eviction itself is the API server's."""
import datetime
from collections.abc import Callable, Iterator
from datetime import timedelta

from serveplane.clock import parse_timestamp
from serveplane.embedded.workloads.cluster import BUDGET, POD, REPLICA_SET, STATEFUL_SET, Cluster
from serveplane.embedded.workloads.pods import is_active, is_ready
from serveplane.embedded.workloads.rollout import share
from serveplane.kube.controller import Controller
from serveplane.kube.kind import Key, controller_of, is_being_deleted
from serveplane.kube.store import Item
from serveplane.kube.watches import Mapped, Primary, Watch
from serveplane.objects import Json
from serveplane.objects.conditions import with_condition
from serveplane.objects.selectors import from_selector

FORGET = timedelta(minutes=2)   # an evicted pod that is still there by then was not deleted after all
SCALED = {"ReplicaSet": REPLICA_SET, "StatefulSet": STATEFUL_SET}

ReplicasOf = Callable[[str, str, str], int | None]   # kind, namespace and name of a controller


def chosen(budget: Json, pods: list[Json]) -> list[Json]:
    """The pods that a budget speaks of; an absent selector means none, an empty one all of its namespace."""
    selector = budget["spec"].get("selector")
    if selector is None:
        return []
    wanted = from_selector(selector)
    return [pod for pod in pods if is_active(pod) and wanted.matches(pod["metadata"].get("labels") or {})]


def expected(pods: list[Json], replicas_of: ReplicasOf) -> int:
    """How many pods there should be: what their controllers want, and every pod that has none it could be asked of."""
    owners: dict[str, int] = {}
    alone = 0
    for pod in pods:
        owner = controller_of(pod)
        wanted = replicas_of(owner["kind"], pod["metadata"]["namespace"], owner["name"]) if owner else None
        if owner is None or wanted is None:
            alone += 1
        else:
            owners[owner["uid"]] = wanted
    return sum(owners.values()) + alone


def needed(spec: Json, count: int) -> int:
    """How many must stay healthy. Shares are rounded up either way."""
    if spec.get("maxUnavailable") is not None:
        return max(count - share(spec["maxUnavailable"], count, up=True), 0)
    return share(spec.get("minAvailable", 1), count, up=True)


def budget_status(budget: Json, pods: list[Json], replicas_of: ReplicasOf, now: datetime.datetime, stamp: str) -> Json:
    before = budget.get("status") or {}
    meant = chosen(budget, pods)
    evicted = {name: at for name, at in (before.get("disruptedPods") or {}).items()
               if any(pod["metadata"]["name"] == name for pod in meant) and now - parse_timestamp(at) < FORGET}
    healthy = sum(is_ready(pod) and pod["metadata"]["name"] not in evicted for pod in meant)
    count = expected(meant, replicas_of)
    least = needed(budget["spec"], count)
    allowed = max(healthy - least, 0) if count else 0
    entry = {"type": "DisruptionAllowed", "status": "True" if allowed else "False", "message": "",
             "reason": "SufficientPods" if allowed else "InsufficientPods", "observedGeneration": budget["metadata"].get("generation", 0)}
    conditions = with_condition(before.get("conditions") or [], entry, stamp)
    status: Json = {"observedGeneration": budget["metadata"].get("generation", 0), "disruptionsAllowed": allowed, "currentHealthy": healthy,
                    "desiredHealthy": least, "expectedPods": count, "conditions": conditions}
    return status | ({"disruptedPods": evicted} if evicted else {})


class Budgets:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def controller(self) -> Controller:
        watches: list[Watch] = [Primary(BUDGET), Mapped(POD, self._of_namespace)]
        return Controller("disruption", self.reconcile, watches, workers=1, clock=self._cluster.clock)

    def _of_namespace(self, item: Item) -> Iterator[Key]:
        return (one.key for one in self._cluster.informer(BUDGET).items(item.meta.namespace))

    async def reconcile(self, key: Key) -> timedelta | None:
        budget = self._cluster.informer(BUDGET).get(*key)
        if budget is None or is_being_deleted(budget):
            return None
        pods = [item.object for item in self._cluster.informer(POD).items(key.namespace)]
        status = budget_status(budget, pods, self._replicas, self._cluster.clock.now(), self._cluster.now)
        await self._cluster.write_status(budget, status)
        return FORGET if status.get("disruptedPods") else None

    def _replicas(self, kind: str, namespace: str, name: str) -> int | None:
        if kind not in SCALED:
            return None
        found = self._cluster.informer(SCALED[kind]).get(namespace, name)
        return None if found is None else int(found["spec"].get("replicas", 1))
