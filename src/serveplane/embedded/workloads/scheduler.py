"""The scheduler: gives each pending pod a node that may take it, the emptiest first, and says why if there is none."""
from collections import Counter
from datetime import timedelta

import msgspec

from serveplane.embedded.workloads.cluster import NAMESPACE, NODE, POD, Cluster
from serveplane.embedded.workloads.fitting import refusal, used_on
from serveplane.embedded.workloads.neighbours import NOBODY, Neighbours, unwelcome
from serveplane.embedded.workloads.pods import is_over
from serveplane.kube.client import PatchType
from serveplane.kube.controller import Controller
from serveplane.kube.errors import Conflict, NotFound
from serveplane.kube.kind import Key, is_being_deleted
from serveplane.kube.store import Change, Item
from serveplane.kube.watches import Mapped, Primary, Watch
from serveplane.objects import Json
from serveplane.objects.conditions import condition

NAME = "default-scheduler"
LOOK_AGAIN = timedelta(seconds=5)   # room appears when other pods end


def choose(pod: Json, nodes: list[Json], pods: list[Json], neighbours: Neighbours = NOBODY) -> tuple[str | None, str]:
    """The node for a pod, or the sentence of why there is none."""
    reasons: Counter[str] = Counter()
    fitting: list[tuple[int, str]] = []
    for node in nodes:
        name = node["metadata"]["name"]
        used = used_on(name, pods)
        why = refusal(pod, node, used) or unwelcome(pod, node, neighbours)
        if why:
            reasons[why] += 1
        else:
            fitting.append((int(used["pods"]), name))
    if fitting:
        return min(fitting)[1], ""
    told = ", ".join(f"{count} {why}" for why, count in sorted(reasons.items()))
    return None, f"0/{len(nodes)} nodes are available: {told}." if nodes else "no nodes available to schedule pods"


class Scheduler:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def controller(self) -> Controller:
        watches: list[Watch] = [Primary(POD, predicate=_is_pending), Mapped(NODE, self._all_pending)]
        return Controller("scheduler", self.reconcile, watches, workers=1, clock=self._cluster.clock)

    def _all_pending(self, item: Item) -> list[Key]:
        return [pod.key for pod in self._cluster.informer(POD).items() if _waits(pod.object)]

    async def reconcile(self, key: Key) -> timedelta | None:
        pod = self._cluster.informer(POD).get(*key)
        if pod is None or not _waits(pod):
            return None
        nodes, pods = self._cluster.informer(NODE).list(), self._cluster.informer(POD).list()
        neighbours = Neighbours.of(pods, nodes, self._cluster.informer(NAMESPACE).list())
        node, why = choose(pod, nodes, pods, neighbours)
        if node is None:
            await self._refuse(key, pod, why)
            return LOOK_AGAIN
        await self._bind(key, pod, node)
        return None

    async def _bind(self, key: Key, pod: Json, node: str) -> None:
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": key.name, "namespace": key.namespace},
                   "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}/binding"
        try:
            await self._cluster.client.rest.request("POST", path, body=msgspec.json.encode(binding),
                                                    content_type="application/json")
        except (Conflict, NotFound):   # bound by someone else, or gone
            return
        self._cluster.record(pod, "Normal", "Scheduled", f"Successfully assigned {key} to {node}")

    async def _refuse(self, key: Key, pod: Json, why: str) -> None:
        before = condition((pod.get("status") or {}).get("conditions"), "PodScheduled")
        if before and before.get("message") == why:
            return
        self._cluster.record(pod, "Warning", "FailedScheduling", why)
        entry = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
                 "lastTransitionTime": self._cluster.now}
        await self._cluster.client.patch(POD, key.name, key.namespace, {"status": {"conditions": [entry]}},
                                         patch_type=PatchType.STRATEGIC, subresource="status", field_manager=NAME)


def _waits(pod: Json) -> bool:
    return (not pod["spec"].get("nodeName") and not is_over(pod) and not is_being_deleted(pod)
            and not pod["spec"].get("schedulingGates")
            and pod["spec"].get("schedulerName", NAME) in (NAME, ""))


def _is_pending(change: Change) -> bool:
    return change.new is not None and _waits(change.new.object)
