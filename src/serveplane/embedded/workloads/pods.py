"""Pods as the workload controllers see them: made from a template, counted by how far they are."""
import datetime
import hashlib
from collections.abc import Iterable

import msgspec

from serveplane.clock import NAME_LETTERS, parse_timestamp
from serveplane.kube.kind import controller_reference, is_being_deleted
from serveplane.objects import Json
from serveplane.objects.conditions import condition, is_true


def pod_from_template(template: Json, owner: Json, *, name: str = "", labels: Json | None = None) -> Json:
    """A pod of this owner; with no name given, one is generated from the owner's."""
    metadata = template.get("metadata") or {}
    own: Json = {"namespace": owner["metadata"]["namespace"], "ownerReferences": [controller_reference(owner)],
                 "labels": {**(metadata.get("labels") or {}), **(labels or {})}}
    if metadata.get("annotations"):
        own["annotations"] = metadata["annotations"]
    if metadata.get("finalizers"):
        own["finalizers"] = metadata["finalizers"]
    own |= {"name": name} if name else {"generateName": owner["metadata"]["name"] + "-"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": template["spec"]}


def phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_over(pod: Json) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def is_active(pod: Json) -> bool:
    """Counts towards the wanted number: neither over nor on its way out."""
    return not is_over(pod) and not is_being_deleted(pod)


def is_ready(pod: Json) -> bool:
    return is_true((pod.get("status") or {}).get("conditions"), "Ready")


def available_in(pod: Json, min_ready: float, now: datetime.datetime) -> float | None:
    """Seconds until the pod counts as available: 0 if it does, None if it is not even ready."""
    ready = condition((pod.get("status") or {}).get("conditions"), "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    if not min_ready:
        return 0.0
    since = (now - parse_timestamp(ready["lastTransitionTime"])).total_seconds()
    return max(min_ready - since, 0.0)


def template_hash(template: Json) -> str:
    """A short name for a template, in the letters Kubernetes uses for names."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="sorted")).digest()
    return "".join(NAME_LETTERS[byte % len(NAME_LETTERS)] for byte in digest[:10])


def deletion_order(pods: Iterable[Json]) -> list[Json]:
    """The ones that are missed least come first: unassigned, pending, not ready, younger."""
    return sorted(pods, key=_worth)


def _worth(pod: Json) -> tuple[bool, int, bool, int, int]:
    cost = (pod["metadata"].get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    restarts = max((entry.get("restartCount", 0) for entry in statuses), default=0)
    age = -int(parse_timestamp(pod["metadata"]["creationTimestamp"]).timestamp())
    ranks = {"Pending": 0, "Unknown": 1, "Running": 2}
    return (bool((pod.get("spec") or {}).get("nodeName")), ranks.get(phase(pod), 2), is_ready(pod),
            int(cost) if cost.removeprefix("-").isdecimal() else 0, -restarts * 10**12 + age)
