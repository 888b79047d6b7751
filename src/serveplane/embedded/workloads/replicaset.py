"""ReplicaSets: as many pods as wanted, no more and no fewer."""
from datetime import timedelta

from serveplane.embedded.workloads.cluster import POD, REPLICA_SET, Cluster
from serveplane.embedded.workloads.pods import (
    available_in,
    deletion_order,
    is_active,
    is_ready,
    pod_from_template,
)
from serveplane.kube.controller import Controller
from serveplane.kube.errors import ApiError, Forbidden, Invalid
from serveplane.kube.kind import Key, is_being_deleted
from serveplane.kube.watches import Owned, Primary
from serveplane.objects import Json
from serveplane.objects.selectors import from_selector

BURST = 500   # pods made or deleted in one go


def replica_set_status(replica_set: Json, pods: list[Json], available: int, failure: Json | None) -> Json:
    labels = from_selector({"matchLabels": ((replica_set["spec"].get("template") or {}).get("metadata") or {})
                            .get("labels") or {}})
    status: Json = {"replicas": len(pods), "observedGeneration": replica_set["metadata"].get("generation", 0)}
    counts = {"fullyLabeledReplicas": sum(labels.matches(pod["metadata"].get("labels")) for pod in pods),
              "readyReplicas": sum(map(is_ready, pods)), "availableReplicas": available}
    status |= {name: count for name, count in counts.items() if count}
    if failure:
        status["conditions"] = [failure]
    return status


class ReplicaSets:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def controller(self) -> Controller:
        return Controller("replicaset", self.reconcile, [Primary(REPLICA_SET), Owned(POD)],
                          workers=4, clock=self._cluster.clock)

    async def reconcile(self, key: Key) -> timedelta | None:
        replica_set = self._cluster.informer(REPLICA_SET).get(*key)
        if replica_set is None or is_being_deleted(replica_set):
            return None
        pods = [pod for pod in self._cluster.owned(POD, replica_set) if is_active(pod)]
        wanted = replica_set["spec"].get("replicas", 1)
        failure = await self._make(replica_set, wanted - len(pods)) if wanted > len(pods) else None
        for pod in deletion_order(pods)[:max(len(pods) - wanted, 0)][:BURST]:
            await self._cluster.delete(pod)
        return await self._tell(replica_set, failure)

    async def _make(self, replica_set: Json, missing: int) -> Json | None:
        for _ in range(min(missing, BURST)):
            try:
                await self._cluster.create(pod_from_template(replica_set["spec"]["template"], replica_set))
            except (Invalid, Forbidden) as problem:
                return self._failure(replica_set, problem)
        return None

    def _failure(self, replica_set: Json, problem: ApiError) -> Json:
        self._cluster.record(replica_set, "Warning", "FailedCreate", f"Error creating: {problem}")
        before = (replica_set.get("status") or {}).get("conditions") or []
        if before and before[0].get("message") == str(problem):
            kept: Json = before[0]
            return kept
        return {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": str(problem),
                "lastTransitionTime": self._cluster.now}

    async def _tell(self, replica_set: Json, failure: Json | None) -> timedelta | None:
        pods = [pod for pod in self._cluster.owned(POD, replica_set) if is_active(pod)]
        min_ready = replica_set["spec"].get("minReadySeconds") or 0
        waits = [available_in(pod, min_ready, self._cluster.clock.now()) for pod in pods]
        status = replica_set_status(replica_set, pods, sum(wait == 0 for wait in waits), failure)
        await self._cluster.write_status(replica_set, status)
        later = [wait for wait in waits if wait]
        return timedelta(seconds=30 if failure else min(later) + 0.1) if failure or later else None
