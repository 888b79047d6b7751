"""StatefulSets: pods with names and volumes of their own, one after the other."""
import contextlib
from dataclasses import dataclass
from datetime import timedelta

from serveplane.embedded.workloads.cluster import POD, STATEFUL_SET, Cluster
from serveplane.embedded.workloads.pods import is_over, is_ready, pod_from_template
from serveplane.embedded.workloads.revisions import keep_history, revision_name
from serveplane.kube.controller import Controller
from serveplane.kube.errors import AlreadyExists
from serveplane.kube.kind import Key, is_being_deleted
from serveplane.kube.watches import Owned, Primary
from serveplane.objects import Json

REVISION = "controller-revision-hash"
NAME, INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"


@dataclass(frozen=True)
class Step:
    make: tuple[int, ...] = ()
    delete: tuple[str, ...] = ()


def ordinals(stateful_set: Json) -> range:
    start = (stateful_set["spec"].get("ordinals") or {}).get("start", 0)
    return range(start, start + stateful_set["spec"].get("replicas", 1))


def ordinal_of(stateful_set: Json, pod: Json) -> int:
    name, own = pod["metadata"]["name"], stateful_set["metadata"]["name"]
    rest = name.removeprefix(own + "-")
    return int(rest) if rest.isdigit() and name.startswith(own + "-") else -1


def decide(stateful_set: Json, pods: list[Json], target: str) -> Step:
    """The next step: repair what ended, then grow in order, then shrink from the end, then update from the end."""
    wanted = ordinals(stateful_set)
    by_ordinal = {ordinal_of(stateful_set, pod): pod for pod in pods}
    parallel = stateful_set["spec"].get("podManagementPolicy") == "Parallel"
    over = tuple(pod["metadata"]["name"] for pod in pods if is_over(pod) and not is_being_deleted(pod))
    if over:
        return Step(delete=over)
    missing = [number for number in wanted if number not in by_ordinal]
    if parallel and missing:
        return Step(make=tuple(missing))
    for number in wanted:
        pod = by_ordinal.get(number)
        if pod is None:
            return Step(make=(number,))
        if not parallel and (is_being_deleted(pod) or not is_ready(pod)):
            return _unstick(pod, number, stateful_set, target)
    surplus = sorted((number for number in by_ordinal if number not in wanted), reverse=True)
    if surplus:
        chosen = surplus if parallel else surplus[:1]
        return Step(delete=tuple(by_ordinal[number]["metadata"]["name"] for number in chosen
                                 if not is_being_deleted(by_ordinal[number])))
    return _update(stateful_set, by_ordinal, target)


def _unstick(pod: Json, number: int, stateful_set: Json, target: str) -> Step:
    """A pod that is not ready holds up all others; if its template is old, replacing it may help."""
    if _waits_for_user(stateful_set) or is_being_deleted(pod) or not _is_old(pod, target) or number < _partition(stateful_set):
        return Step()
    return Step(delete=(pod["metadata"]["name"],))


def _update(stateful_set: Json, by_ordinal: dict[int, Json], target: str) -> Step:
    if _waits_for_user(stateful_set):
        return Step()
    for number in sorted(by_ordinal, reverse=True):
        pod = by_ordinal[number]
        if number < _partition(stateful_set):
            break
        if _is_old(pod, target) and not is_being_deleted(pod):
            return Step(delete=(pod["metadata"]["name"],))
        if is_being_deleted(pod) or not is_ready(pod):
            break
    return Step()


def _waits_for_user(stateful_set: Json) -> bool:
    """Whether old pods are replaced only when somebody deletes them."""
    return bool((stateful_set["spec"].get("updateStrategy") or {}).get("type") == "OnDelete")


def _partition(stateful_set: Json) -> int:
    rolling = (stateful_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return int(rolling.get("partition") or 0)


def _is_old(pod: Json, target: str) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(REVISION) != target)


def stateful_pod(stateful_set: Json, number: int, target: str) -> Json:
    name = f"{stateful_set['metadata']['name']}-{number}"
    labels = {REVISION: target, NAME: name, INDEX: str(number)}
    pod = pod_from_template(stateful_set["spec"]["template"], stateful_set, name=name, labels=labels)
    claims = [{"name": claim["metadata"]["name"],
               "persistentVolumeClaim": {"claimName": claim_name(stateful_set, claim, number)}}
              for claim in stateful_set["spec"].get("volumeClaimTemplates") or ()]
    names = {claim["name"] for claim in claims}
    volumes = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in names]
    spec = {**pod["spec"], "hostname": name, "subdomain": stateful_set["spec"].get("serviceName") or ""}
    if volumes or claims:
        spec["volumes"] = [*volumes, *claims]
    return {**pod, "spec": {key: value for key, value in spec.items() if value != ""}}


def claim_name(stateful_set: Json, claim: Json, number: int) -> str:
    return f"{claim['metadata']['name']}-{stateful_set['metadata']['name']}-{number}"


def stateful_claims(stateful_set: Json, number: int) -> list[Json]:
    namespace = stateful_set["metadata"]["namespace"]
    labels = (stateful_set["spec"]["selector"].get("matchLabels")) or {}
    return [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim["spec"],
             "metadata": {**(claim.get("metadata") or {}), "name": claim_name(stateful_set, claim, number),
                          "namespace": namespace,
                          "labels": {**((claim.get("metadata") or {}).get("labels") or {}), **labels}}}
            for claim in stateful_set["spec"].get("volumeClaimTemplates") or ()]


def stateful_set_status(stateful_set: Json, pods: list[Json], target: str) -> Json:
    before = stateful_set.get("status") or {}
    there = [pod for pod in pods if not is_over(pod) and not is_being_deleted(pod)]
    updated = [pod for pod in there if not _is_old(pod, target)]
    ready = sum(map(is_ready, there))
    all_updated = len(updated) == len(there) == len(ordinals(stateful_set)) == ready
    current = target if all_updated else before.get("currentRevision") or target
    return {"replicas": len(there), "readyReplicas": ready, "availableReplicas": ready,
            "currentReplicas": sum(not _is_old(pod, current) for pod in there), "updatedReplicas": len(updated),
            "currentRevision": current, "updateRevision": target, "collisionCount": 0,
            "observedGeneration": stateful_set["metadata"].get("generation", 0)}


class StatefulSets:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def controller(self) -> Controller:
        return Controller("statefulset", self.reconcile, [Primary(STATEFUL_SET), Owned(POD)], workers=2,
                          clock=self._cluster.clock)

    async def reconcile(self, key: Key) -> timedelta | None:
        stateful_set = self._cluster.informer(STATEFUL_SET).get(*key)
        if stateful_set is None or is_being_deleted(stateful_set):
            return None
        target = revision_name(stateful_set)
        await keep_history(self._cluster, stateful_set)
        pods = self._cluster.owned(POD, stateful_set)
        step = decide(stateful_set, pods, target)
        for number in step.make:
            await self._make(stateful_set, number, target)
        for pod in pods:
            if pod["metadata"]["name"] in step.delete:
                await self._cluster.delete(pod)
        status = stateful_set_status(stateful_set, self._cluster.owned(POD, stateful_set), target)
        await self._cluster.write_status(stateful_set, status)
        return None

    async def _make(self, stateful_set: Json, number: int, target: str) -> None:
        for claim in stateful_claims(stateful_set, number):
            with contextlib.suppress(AlreadyExists):   # a volume outlives its pod: that is the point
                await self._cluster.create(claim)
        with contextlib.suppress(AlreadyExists):   # the last one of this name is not quite gone; its end brings us back
            await self._cluster.create(stateful_pod(stateful_set, number, target))
