"""What the API fills in for an LLMInferenceService, in the shape of v1alpha2."""

from collections.abc import Iterable

import msgspec

from serveplane.api import keys
from serveplane.api.localmodel.matching import CachedModel, matching_cache
from serveplane.objects import Json

ROUTING_GROUP = f"{keys.GROUP}/routing-group"
MARKS = {
    "labels": (keys.LOCAL_MODEL, keys.LOCAL_MODEL_NAMESPACE),
    "annotations": (keys.LOCAL_MODEL_SOURCE_URI, keys.LOCAL_MODEL_PVC),
}


def defaulted(obj: Json, caches: Iterable[CachedModel] = ()) -> Json:
    """The object with its defaults, a new one; `obj` has the structure of v1alpha2."""
    result: Json = msgspec.json.decode(msgspec.json.encode(obj))
    metadata, spec = result["metadata"], result.get("spec") or {}
    model = spec.get("model")
    if isinstance(model, dict) and not model.get("name"):
        model["name"] = metadata.get("name") or ""
    for pod in _pods(spec):
        if pod.get("containers") is None:
            pod["containers"] = []  # an absent list would wipe the preset's containers when both are merged
        for container in [*(pod.get("initContainers") or []), *pod["containers"]]:
            container.setdefault("resources", {})
    _label_group(metadata, spec)
    _label_local_model(metadata, (model or {}).get("uri") or "", caches)
    return result


def _pods(spec: Json) -> list[Json]:
    scheduler = (spec.get("router") or {}).get("scheduler") or {}
    found = [scheduler.get("template")]
    for workload in (spec, spec.get("prefill") or {}):
        found += [workload.get("template"), workload.get("worker")]
    return [pod for pod in found if isinstance(pod, dict)]


def _label_group(metadata: Json, spec: Json) -> None:
    """The members of a group find each other by label."""
    group = ((spec.get("router") or {}).get("route") or {}).get("group")
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != ROUTING_GROUP}
    _put(metadata, "labels", labels | ({ROUTING_GROUP: group} if group else {}))


def _label_local_model(metadata: Json, uri: str, caches: Iterable[CachedModel]) -> None:
    annotations = metadata.get("annotations") or {}
    excused = keys.DISABLE_LOCAL_MODEL in annotations
    match = None if excused or not uri else matching_cache(caches, uri, metadata.get("namespace") or "", annotations)
    for field, names in MARKS.items():
        rest = {key: value for key, value in (metadata.get(field) or {}).items() if key not in names}
        _put(metadata, field, rest | (getattr(match, field) if match else {}))


def _put(metadata: Json, field: str, value: Json) -> None:
    if value:
        metadata[field] = value
    elif metadata.get(field):
        del metadata[field]
