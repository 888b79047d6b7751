"""DaemonSets: one pod on every node that may have it."""
from datetime import timedelta

from serveplane.embedded.workloads.cluster import DAEMON_SET, NODE, POD, Cluster
from serveplane.embedded.workloads.fitting import matches_selectors, untolerated_taint
from serveplane.embedded.workloads.pods import is_active, is_over, is_ready, pod_from_template, template_hash
from serveplane.embedded.workloads.revisions import keep_history
from serveplane.embedded.workloads.rollout import share
from serveplane.kube.controller import Controller
from serveplane.kube.kind import Key, is_being_deleted
from serveplane.kube.store import Item
from serveplane.kube.watches import Mapped, Owned, Primary, Watch
from serveplane.objects import Json

REVISION = "controller-revision-hash"
# A daemon's pod runs where others may not: on nodes that are cordoned, or short of something
TOLERATIONS = [{"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
               for name, effect in (("not-ready", "NoExecute"), ("unreachable", "NoExecute"),
                                    ("disk-pressure", "NoSchedule"), ("memory-pressure", "NoSchedule"),
                                    ("pid-pressure", "NoSchedule"), ("unschedulable", "NoSchedule"))]


def wants(daemon_set: Json, node: Json) -> bool:
    """Whether a pod of the set belongs on the node."""
    pod = daemon_pod(daemon_set, node["metadata"]["name"])
    return matches_selectors(pod, node) and untolerated_taint(pod, node) is None


def daemon_pod(daemon_set: Json, node: str) -> Json:
    """A pod for one node; the scheduler is told by affinity, as it is everywhere."""
    template = daemon_set["spec"]["template"]
    uid = daemon_set["metadata"].get("uid", "")
    pod = pod_from_template(template, {**daemon_set, "metadata": {**daemon_set["metadata"], "uid": uid}},
                            labels={REVISION: template_hash(template)})
    spec = dict(pod["spec"])
    affinity = dict(spec.get("affinity") or {})
    own = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    rules = dict(affinity.get("nodeAffinity") or {})
    required = rules.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [{**term, **own} for term in required.get("nodeSelectorTerms") or ()] or [own]
    rules["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    spec["affinity"] = {**affinity, "nodeAffinity": rules}
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *TOLERATIONS]
    return {**pod, "spec": spec}


def node_of(pod: Json) -> str:
    """Where a pod runs, or is meant to run."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    required = (((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {})
                .get("requiredDuringSchedulingIgnoredDuringExecution") or {})
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name":
                return str(field["values"][0])
    return ""


def daemon_set_status(daemon_set: Json, wanted: set[str], pods: list[Json], revision: str) -> Json:
    there = {node_of(pod): pod for pod in pods if is_active(pod)}
    placed = [pod for node, pod in there.items() if node in wanted]
    ready = sum(map(is_ready, placed))
    return {"currentNumberScheduled": len(placed), "desiredNumberScheduled": len(wanted),
            "numberMisscheduled": len(there) - len(placed), "numberReady": ready,
            "updatedNumberScheduled": sum(is_current(pod, revision) for pod in placed),
            "numberAvailable": ready, "numberUnavailable": len(wanted) - ready,
            "observedGeneration": daemon_set["metadata"].get("generation", 0)}


def is_current(pod: Json, revision: str) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(REVISION) == revision)


def outdated(daemon_set: Json, pods: list[Json], revision: str, wanted: int) -> list[Json]:
    """Pods to replace now: those of an older template, as many as may be missing at once."""
    strategy = daemon_set["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    old = [pod for pod in pods if is_active(pod) and not is_current(pod, revision)]
    allowed = max(share((strategy.get("rollingUpdate") or {}).get("maxUnavailable"), wanted, up=True, default="1"), 1)
    missing = wanted - sum(is_active(pod) and is_ready(pod) for pod in pods)
    broken = [pod for pod in old if not is_ready(pod)]
    healthy = [pod for pod in old if is_ready(pod)]
    return broken + healthy[:max(allowed - missing, 0)]


class DaemonSets:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def controller(self) -> Controller:
        watches: list[Watch] = [Primary(DAEMON_SET), Owned(POD), Mapped(NODE, self._all)]
        return Controller("daemonset", self.reconcile, watches, workers=2, clock=self._cluster.clock)

    def _all(self, item: Item) -> list[Key]:
        return [one.key for one in self._cluster.informer(DAEMON_SET).items()]

    async def reconcile(self, key: Key) -> timedelta | None:
        daemon_set = self._cluster.informer(DAEMON_SET).get(*key)
        if daemon_set is None or is_being_deleted(daemon_set):
            return None
        nodes = {node["metadata"]["name"] for node in self._cluster.informer(NODE).list() if wants(daemon_set, node)}
        pods = self._cluster.owned(POD, daemon_set)
        revision = template_hash(daemon_set["spec"]["template"])
        await keep_history(self._cluster, daemon_set)
        for pod in [pod for pod in pods if self._is_surplus(pod, nodes, pods)]:
            await self._cluster.delete(pod)
        for pod in outdated(daemon_set, pods, revision, len(nodes)):
            await self._cluster.delete(pod)
        taken = {node_of(pod) for pod in pods}   # a pod on its way out is waited for
        for node in sorted(nodes - taken):
            await self._cluster.create(daemon_pod(daemon_set, node))
        status = daemon_set_status(daemon_set, nodes, self._cluster.owned(POD, daemon_set), revision)
        await self._cluster.write_status(daemon_set, status)
        return None

    def _is_surplus(self, pod: Json, nodes: set[str], pods: list[Json]) -> bool:
        """Pods that ended, that stand on a node they should not, or that are the second on theirs."""
        if is_being_deleted(pod):
            return False
        here = [other["metadata"]["name"] for other in pods if node_of(other) == node_of(pod) and is_active(other)]
        return is_over(pod) or node_of(pod) not in nodes or pod["metadata"]["name"] != min(here)
