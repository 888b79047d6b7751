"""Deployments: one ReplicaSet per template, moved from the old to the new as the strategy says."""
from datetime import timedelta

from serveplane.clock import parse_timestamp
from serveplane.embedded.workloads import rollout
from serveplane.embedded.workloads.cluster import DEPLOYMENT, POD, REPLICA_SET, Cluster
from serveplane.embedded.workloads.pods import is_over, template_hash
from serveplane.kube.controller import Controller
from serveplane.kube.errors import AlreadyExists, Conflict
from serveplane.kube.kind import Key, controller_of, controller_reference, is_being_deleted
from serveplane.kube.watches import Owned, Primary
from serveplane.objects import Json
from serveplane.objects.conditions import condition, with_condition

HASH = "pod-template-hash"
LOOK_FOR_THE_LAST = timedelta(seconds=0.3)
REVISION = "deployment.kubernetes.io/revision"
COPIED = ("deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas", REVISION,
          "kubectl.kubernetes.io/last-applied-configuration")


def bare_template(replica_set: Json) -> Json:
    """The template without the label that makes it unique, for comparison with the Deployment's."""
    template: Json = replica_set["spec"]["template"]
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH}
    return {**template, "metadata": metadata}


def current_set(deployment: Json, sets: list[Json]) -> Json | None:
    """The ReplicaSet of the Deployment's present template; of several the oldest."""
    wanted = _normal(deployment["spec"]["template"])
    same = [one for one in sets if _normal(bare_template(one)) == wanted]
    return min(same, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]), default=None)


def _normal(template: Json) -> Json:
    metadata = {name: value for name, value in (template.get("metadata") or {}).items()
                if value and name != "creationTimestamp"}
    return {**template, "metadata": metadata}


def revision(obj: Json) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def copied_annotations(deployment: Json) -> Json:
    """What a current set tells of its Deployment, such as the reason of the change that `kubectl rollout history` shows."""
    return {name: value for name, value in (deployment["metadata"].get("annotations") or {}).items() if name not in COPIED}


def new_replica_set(deployment: Json, number: int, collisions: int) -> Json:
    spec, metadata = deployment["spec"], deployment["metadata"]
    mark = template_hash({"template": _normal(spec["template"]), "collisions": collisions})
    template_meta = spec["template"].get("metadata") or {}
    labels = {**(template_meta.get("labels") or {}), HASH: mark}
    selector = spec["selector"]
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": f"{metadata['name']}-{mark}", "namespace": metadata["namespace"], "labels": labels,
                     "annotations": {**copied_annotations(deployment), REVISION: str(number)},
                     "ownerReferences": [controller_reference(deployment)]},
        "spec": {"replicas": 0, "minReadySeconds": spec.get("minReadySeconds") or 0,
                 "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: mark}},
                 "template": {**spec["template"], "metadata": {**template_meta, "labels": labels}}}}


def next_replicas(deployment: Json, new: Json | None, old: list[Json], old_pods: int) -> dict[str, int]:
    """How many replicas which set should have next; nothing means there is nothing to do. Only a paused Deployment may have no new set."""
    spec = deployment["spec"]
    desired = spec.get("replicas", 1)
    strategy = spec.get("strategy") or {}
    counted = [_counted(one) for one in sorted(old, key=lambda one: one["metadata"]["creationTimestamp"])]
    if new is None or spec.get("paused"):
        return rollout.paused(desired, _counted(new) if new else None, counted)
    if strategy.get("type") == "Recreate":
        return rollout.recreate(desired, _counted(new), counted, old_pods)
    rolling = strategy.get("rollingUpdate") or {}
    surge, unavailable = rollout.limits(desired, rolling.get("maxSurge"), rolling.get("maxUnavailable"))
    return rollout.rolling(desired, _counted(new), counted, surge, unavailable)


def deployment_status(deployment: Json, new: Json | None, sets: list[Json], now: str) -> Json:
    spec, before = deployment["spec"], deployment.get("status") or {}
    desired = spec.get("replicas", 1)
    total = {name: sum((one.get("status") or {}).get(name) or 0 for one in sets)
             for name in ("replicas", "readyReplicas", "availableReplicas")}
    updated = ((new or {}).get("status") or {}).get("replicas") or 0
    counts = {**total, "updatedReplicas": updated,
              "unavailableReplicas": max(sum(one["spec"].get("replicas", 1) for one in sets)
                                         - total["availableReplicas"], 0)}
    status: Json = {"observedGeneration": deployment["metadata"].get("generation", 0)}
    status |= {name: count for name, count in counts.items() if count}
    if before.get("collisionCount"):
        status["collisionCount"] = before["collisionCount"]
    status["conditions"] = _conditions(deployment, new, sets, counts, desired, now)
    return status


def _conditions(deployment: Json, new: Json | None, sets: list[Json], counts: dict[str, int], desired: int,
                now: str) -> list[Json]:
    before: list[Json] = (deployment.get("status") or {}).get("conditions") or []
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    _, unavailable = rollout.limits(desired, rolling.get("maxSurge"), rolling.get("maxUnavailable"))
    if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
        unavailable = 0
    good = counts["availableReplicas"] >= desired - unavailable
    available: Json = {"type": "Available", "status": "True" if good else "False",
                       "reason": "MinimumReplicasAvailable" if good else "MinimumReplicasUnavailable",
                       "message": f"Deployment {'has' if good else 'does not have'} minimum availability."}
    result = _dated(before, available, now)
    progressing = _progressing(deployment, new, counts, desired, now)
    if progressing:
        result = _dated(result, progressing, now)
    failures = [entry for one in sets for entry in (one.get("status") or {}).get("conditions") or ()
                if entry["type"] == "ReplicaFailure"]
    result = [entry for entry in result if entry["type"] != "ReplicaFailure"]
    return [*result, failures[0] | {"lastUpdateTime": failures[0]["lastTransitionTime"]}] if failures else result


def _progressing(deployment: Json, new: Json | None, counts: dict[str, int], desired: int, now: str) -> Json | None:
    if deployment["spec"].get("paused"):
        return {"type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused",
                "message": "Deployment is paused"}
    name = new["metadata"]["name"] if new else ""
    if is_complete(counts, desired):
        return {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                "message": f'ReplicaSet "{name}" has successfully progressed.'}
    before = condition((deployment.get("status") or {}).get("conditions"), "Progressing")
    if before and not _has_moved(deployment, counts) and _is_late(deployment, before, now):
        return {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
                "message": f'ReplicaSet "{name}" has timed out progressing.'}
    return {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
            "message": f'ReplicaSet "{name}" is progressing.'}


def is_complete(counts: dict[str, int], desired: int) -> bool:
    return counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == desired


def _has_moved(deployment: Json, counts: dict[str, int]) -> bool:
    before = deployment.get("status") or {}
    return any(counts[name] != (before.get(name) or 0) for name in ("updatedReplicas", "readyReplicas",
                                                                    "availableReplicas", "replicas"))


def _is_late(deployment: Json, before: Json, now: str) -> bool:
    if before.get("reason") == "ProgressDeadlineExceeded":
        return True
    if before.get("reason") == "NewReplicaSetAvailable":
        return False
    deadline = deployment["spec"].get("progressDeadlineSeconds") or 600
    since = before.get("lastUpdateTime") or before.get("lastTransitionTime") or now
    return (parse_timestamp(now) - parse_timestamp(since)).total_seconds() >= deadline


def _dated(conditions: list[Json], new: Json, now: str) -> list[Json]:
    """Deployments also say when a condition was last updated: whenever its reason or message changes."""
    before = condition(conditions, new["type"])
    same = before is not None and all(before.get(name) == new[name] for name in ("status", "reason", "message"))
    updated = before["lastUpdateTime"] if before and same and before.get("lastUpdateTime") else now
    return with_condition(conditions, {**new, "lastUpdateTime": updated}, now)


def _counted(one: Json) -> rollout.Set:
    return rollout.Set(one["metadata"]["name"], one["spec"].get("replicas", 1),
                       (one.get("status") or {}).get("availableReplicas") or 0)


class Deployments:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def controller(self) -> Controller:
        return Controller("deployment", self.reconcile, [Primary(DEPLOYMENT), Owned(REPLICA_SET)],
                          workers=4, clock=self._cluster.clock)

    async def reconcile(self, key: Key) -> timedelta | None:
        deployment = self._cluster.informer(DEPLOYMENT).get(*key)
        if deployment is None or is_being_deleted(deployment):
            return None
        sets = self._cluster.owned(REPLICA_SET, deployment)
        new = current_set(deployment, sets)
        if new is None and not deployment["spec"].get("paused"):
            new = await self._make(deployment, sets)
        if new is not None:
            new = await self._revised(deployment, new, sets)
        waits = await self._move(deployment, new)
        await self._tidy(deployment, new)
        later = await self._tell(deployment, new)
        return LOOK_FOR_THE_LAST if waits else later

    async def _make(self, deployment: Json, sets: list[Json]) -> Json:
        number = max(map(revision, sets), default=0) + 1
        collisions = (deployment.get("status") or {}).get("collisionCount") or 0
        wanted = new_replica_set(deployment, number, collisions)
        try:
            made = await self._cluster.create(wanted)
        except AlreadyExists:
            return await self._taken_up(deployment, wanted, collisions)
        self._cluster.record(deployment, "Normal", "ScalingReplicaSet", f"Created {made['metadata']['name']}")
        return made

    async def _taken_up(self, deployment: Json, wanted: Json, collisions: int) -> Json:
        """A set has that name already. One that was left by its Deployment is taken up; if it is another's, another name is chosen."""
        live = await self._cluster.client.get(REPLICA_SET, wanted["metadata"]["name"], wanted["metadata"]["namespace"])
        owner = controller_of(live)
        if current_set(deployment, [live]) is None or (owner is not None and owner["uid"] != deployment["metadata"]["uid"]):
            await self._cluster.write_status(deployment, {**(deployment.get("status") or {}), "collisionCount": collisions + 1})
            raise Conflict(f"the name {live['metadata']['name']} belongs to another set")
        if owner is not None:
            return live
        references = [*(live["metadata"].get("ownerReferences") or ()), controller_reference(deployment)]
        return await self._cluster.update({**live, "metadata": {**live["metadata"], "ownerReferences": references}})

    async def _revised(self, deployment: Json, new: Json, sets: list[Json]) -> Json:
        """A set that becomes current again (a roll-back) gets the highest number; the Deployment shows it."""
        others = [revision(one) for one in sets if one["metadata"]["uid"] != new["metadata"]["uid"]]
        number = max(revision(new), max(others, default=0) + 1)
        annotations = {**(new["metadata"].get("annotations") or {}), **copied_annotations(deployment), REVISION: str(number)}
        if annotations != new["metadata"].get("annotations"):
            new = await self._cluster.update({**new, "metadata": {**new["metadata"], "annotations": annotations}})
        if revision(deployment) != number:
            key = deployment["metadata"]
            body = {"metadata": {"annotations": {REVISION: str(number)}}}
            changed = await self._cluster.client.patch(DEPLOYMENT, key["name"], key["namespace"], body)
            self._cluster.informer(DEPLOYMENT).note(changed)
            deployment["metadata"] = changed["metadata"]
        return new

    def _sorted_out(self, deployment: Json, new: Json | None) -> tuple[Json | None, list[Json]]:
        """The new set as it is by now, and the others."""
        sets, uid = self._cluster.owned(REPLICA_SET, deployment), new["metadata"]["uid"] if new else ""
        fresh = next((one for one in sets if one["metadata"]["uid"] == uid), new)
        return fresh, [one for one in sets if one["metadata"]["uid"] != uid]

    async def _move(self, deployment: Json, new: Json | None) -> bool:
        """Scale the sets one step on; whether the last pods of old sets are waited for, whose end no set tells of."""
        fresh, old = self._sorted_out(deployment, new)
        pods = sum(not is_over(pod) for one in old for pod in self._cluster.owned(POD, one))
        for name, replicas in next_replicas(deployment, fresh, old, pods).items():
            chosen = next(one for one in (fresh, *old) if one and one["metadata"]["name"] == name)
            was = chosen["spec"].get("replicas", 1)
            await self._cluster.update({**chosen, "spec": {**chosen["spec"], "replicas": replicas}})
            self._cluster.record(deployment, "Normal", "ScalingReplicaSet",
                                 f"Scaled {'up' if replicas > was else 'down'} replica set {name} "
                                 f"from {was} to {replicas}")
        recreates = (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"
        return recreates and pods > 0

    async def _tidy(self, deployment: Json, new: Json | None) -> None:
        """Old sets beyond the history limit go once they are empty."""
        keep = deployment["spec"].get("revisionHistoryLimit", 10)
        old = [one for one in self._sorted_out(deployment, new)[1] if not is_being_deleted(one)]
        empty = [one for one in old if not one["spec"].get("replicas", 1)
                 and not (one.get("status") or {}).get("replicas")]
        for one in sorted(empty, key=revision)[:max(len(old) - keep, 0)]:
            await self._cluster.delete(one)

    async def _tell(self, deployment: Json, new: Json | None) -> timedelta | None:
        fresh, old = self._sorted_out(deployment, new)
        status = deployment_status(deployment, fresh, [fresh, *old] if fresh else old, self._cluster.now)
        await self._cluster.write_status(deployment, status)
        progressing = condition(status["conditions"], "Progressing")
        if progressing and progressing["reason"] == "ReplicaSetUpdated":
            return timedelta(seconds=(deployment["spec"].get("progressDeadlineSeconds") or 600) + 1)
        return None
