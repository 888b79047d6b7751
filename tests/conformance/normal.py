"""Objects without what differs from run to run or is the work of Kubernetes' own controllers. Pure.

These are the rules the cases were recorded by (their README lists them), so both sides of a comparison went through the same.
"""
import base64
import copy
import re
from typing import Any

Json = dict[str, Any]

VOLATILE = {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp",
            "deletionGracePeriodSeconds"}
TIMES = {"lastTransitionTime", "lastProbeTime", "lastUpdateTime", "lastHeartbeatTime", "startTime", "completionTime", "lastScheduleTime"}
FOREIGN_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/", "pv.kubernetes.io/",
                       "volume.kubernetes.io/", "batch.kubernetes.io/")
FOREIGN_LABELS = {"pod-template-hash", "controller-uid", "batch.kubernetes.io/controller-uid"}
JOB_LABELS = {"job-name", "batch.kubernetes.io/job-name"}
HASH = "[bcdfghjklmnpqrstvwxz2456789]{5,10}"     # as Kubernetes spells the hash of a pod template
WORLD = ("reason", "World")                       # a reason that only the played world gives


def normal_object(obj: Json, with_status: bool = False) -> Json:
    obj = copy.deepcopy(obj)
    obj["metadata"] = normal_metadata(obj["metadata"])
    by_kind = {"Service": _service, "Secret": _secret, "PersistentVolume": _volume, "Job": _job}.get(obj["kind"])
    if by_kind:
        by_kind(obj)
    template = (obj.get("spec") or {}).get("template")
    if isinstance(template, dict):
        template.get("metadata", {}).pop("creationTimestamp", None)
    status = obj.pop("status", None)
    if with_status and status is not None:
        obj["status"] = normal_status(status)
    return obj


def normal_metadata(metadata: Json) -> Json:
    kept = {key: value for key, value in metadata.items() if key not in VOLATILE}
    if "annotations" in kept:
        kept["annotations"] = {key: value for key, value in kept["annotations"].items() if not key.startswith(FOREIGN_ANNOTATIONS)}
    if "labels" in kept:
        kept["labels"] = {key: value for key, value in kept["labels"].items() if key not in FOREIGN_LABELS}
    if "ownerReferences" in kept:
        kept["ownerReferences"] = [{key: value for key, value in owner.items() if key != "uid"} for owner in kept["ownerReferences"]]
    return {key: value for key, value in kept.items() if value not in ({}, [])}


def normal_status(status: Json) -> Json:
    status = _timeless(status)
    if isinstance(status.get("conditions"), list):
        status["conditions"].sort(key=lambda condition: condition["type"])
    ((status.get("modelStatus") or {}).get("lastFailureInfo") or {}).pop("time", None)
    return status


def normal_pod(pod: Json) -> Json:
    """A pod under the name of what made it: replicas then look alike."""
    pod = normal_object(pod)
    metadata = pod["metadata"]
    pod["spec"].pop("nodeName", None)
    owner = (metadata.pop("ownerReferences", None) or [metadata])[0]["name"]
    metadata.pop("generateName", None)
    metadata["name"] = re.sub(rf"-{HASH}$", "", owner) + "-<random>"
    metadata["labels"] = {key: value for key, value in metadata.get("labels", {}).items() if key not in JOB_LABELS}
    return pod


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items() if key not in TIMES and (key, inner) != WORLD}
    if isinstance(value, list):
        return [_timeless(inner) for inner in value]
    return re.sub(rf'(ReplicaSet "[^"]+-){HASH}"', r'\1<hash>"', value) if isinstance(value, str) else value


def _service(service: Json) -> None:
    for field in ("clusterIP", "clusterIPs"):
        if service["spec"].get(field) not in ("None", ["None"]):     # headless is a choice, an address is not
            service["spec"].pop(field, None)
    for port in service["spec"].get("ports", []):
        port.pop("nodePort", None)


def _secret(secret: Json) -> None:
    for key, value in (secret.get("data") or {}).items():
        if base64.b64decode(value).startswith(b"-----BEGIN"):
            secret["data"][key] = "<generated PEM>"
    notes = secret["metadata"].get("annotations", {})
    for key in notes:
        if "expir" in key:
            notes[key] = "<time>"


def _volume(volume: Json) -> None:
    volume["spec"].pop("claimRef", None)


def _job(job: Json) -> None:
    labels = job["spec"].get("template", {}).get("metadata", {}).get("labels", {})
    selected = (job["spec"].get("selector") or {}).get("matchLabels", {})
    for key in {*labels, *selected}:
        if "controller-uid" in key:
            labels.pop(key, None)
            selected.pop(key, None)
    for key in JOB_LABELS:
        labels.pop(key, None)
    if job["metadata"].get("generateName"):
        job["metadata"]["name"] = job["metadata"]["generateName"] + "<random>"
