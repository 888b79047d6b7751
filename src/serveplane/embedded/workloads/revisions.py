"""The templates that a StatefulSet or DaemonSet had, kept as ControllerRevisions: `kubectl rollout history` and `undo` read them."""
import contextlib

from serveplane.embedded.workloads.cluster import CONTROLLER_REVISION, POD, Cluster
from serveplane.embedded.workloads.pods import template_hash
from serveplane.kube.errors import AlreadyExists
from serveplane.kube.kind import controller_reference, is_being_deleted
from serveplane.objects import Json

LABEL = "controller-revision-hash"


def revision_name(owner: Json) -> str:
    return f"{owner['metadata']['name']}-{template_hash(owner['spec']['template'])}"


def new_revision(owner: Json, number: int) -> Json:
    """The template as the patch that brings it back."""
    template = owner["spec"]["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), LABEL: template_hash(template)}
    metadata = {"name": revision_name(owner), "namespace": owner["metadata"]["namespace"], "labels": labels,
                "annotations": owner["metadata"].get("annotations") or {}, "ownerReferences": [controller_reference(owner)]}
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "revision": number,
            "data": {"spec": {"template": {**template, "$patch": "replace"}}}}


def superfluous(owner: Json, known: list[Json], in_use: set[str]) -> list[Json]:
    """Old revisions beyond the limit, the oldest first; those that pods still come from are kept."""
    old = sorted((one for one in known if one["metadata"]["name"] != revision_name(owner) and not is_being_deleted(one)
                  and one["metadata"]["labels"].get(LABEL) not in in_use), key=lambda one: int(one["revision"]))
    return old[:max(len(old) - owner["spec"].get("revisionHistoryLimit", 10), 0)]


async def keep_history(cluster: Cluster, owner: Json) -> None:
    """Make the present template the latest revision, and forget what is too old."""
    known = cluster.owned(CONTROLLER_REVISION, owner)
    latest = max((int(one["revision"]) for one in known), default=0)
    current = next((one for one in known if one["metadata"]["name"] == revision_name(owner)), None)
    if current is None:
        with contextlib.suppress(AlreadyExists):
            await cluster.create(new_revision(owner, latest + 1))
    elif int(current["revision"]) < latest:   # rolled back to
        await cluster.update({**current, "revision": latest + 1})
    labels = [str((pod["metadata"].get("labels") or {}).get(LABEL, "")) for pod in cluster.owned(POD, owner)]
    in_use = {label.rpartition("-")[2] for label in labels}
    for one in superfluous(owner, known, in_use):
        await cluster.delete(one)
