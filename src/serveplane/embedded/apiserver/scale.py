"""The scale subresource: one small object in front of many kinds."""

from typing import TYPE_CHECKING, Any

from serveplane.embedded.apiserver import body, errors, managed, patching
from serveplane.embedded.apiserver.kinds.typed import read_as
from serveplane.embedded.apiserver.printing.column import selector_text
from serveplane.embedded.apiserver.reading import found
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.apiserver.writing import change
from serveplane.objects import Json, jsonpatch

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core


def _paths(resource: Resource) -> tuple[str, str, str]:
    """Where replicas wanted, replicas there and the selector are."""
    if resource.custom is None or resource.custom.scale is None:
        return ".spec.replicas", ".status.replicas", ""
    scale = resource.custom.scale
    return scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath") or ""


def _read(value: Any, path: str) -> Any:
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _write(value: Json, path: str, new: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        value = value.setdefault(part, {})
    value[last] = new


def scale_of(resource: Resource, value: Json) -> Json:
    metadata = {
        key: value["metadata"][key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in value["metadata"]
    }
    wanted, there, selector = _paths(resource)
    spec = {"replicas": _read(value, wanted)} if _read(value, wanted) else {}
    status: Json = {"replicas": _read(value, there) or 0}
    told = (
        _read(value, selector)
        if selector
        else selector_text(value["spec"].get("selector") if resource.custom is None else None)
    )
    if told:
        status["selector"] = told
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


async def scale(core: "Core", request: Request, resource: Resource) -> Answer:
    if request.method in ("GET", "HEAD"):
        live = await core.convert.from_storage(
            resource, found(core, resource, request.target.namespace, request.target.name).value()
        )
        if resource.custom is not None and _read(live, _paths(resource)[0]) is None:
            raise errors.internal(f"the spec replicas field {_paths(resource)[0]!r} does not exist")
        return Answer(200, errors.encoded(scale_of(resource, live)))
    applied = body.media_type(request.headers) == patching.APPLY

    async def scaled(live: Json) -> Json:
        wanted = _wanted(request, scale_of(resource, live))
        return _applied(core, request, resource, live, wanted) if applied else _changed(resource, live, wanted)

    data = await change(core, request, resource, scaled, "scale", applied=applied)
    value = await core.convert.from_storage(resource, body.json_value(data))
    return Answer(200, errors.encoded(scale_of(resource, value)))


def _wanted(request: Request, current: Json) -> Json:
    """The Scale that was asked for."""
    value = read_as("autoscaling", "v1", "Scale", _sent(request, current))
    replicas = (value.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        cause = errors.Cause(
            "FieldValueInvalid", f"Invalid value: {replicas}: must be greater than or equal to 0", "spec.replicas"
        )
        raise errors.invalid("Scale", "autoscaling", current["metadata"]["name"], [cause])
    return value


def _sent(request: Request, current: Json) -> Json:
    kind = body.media_type(request.headers)
    if request.method == "PUT":
        return body.decoded(request)
    if kind == patching.JSON_PATCH:
        try:
            value: Any = jsonpatch.json_patched(current, body.json_value(request.body))
        except jsonpatch.PatchFailed:
            raise errors.Refusal(422, "Invalid", "the server rejected our request due to an error in our request", {}) from None
    elif kind in (patching.MERGE, patching.STRATEGIC):
        value = jsonpatch.merge_patched(current, body.json_value(request.body))
    elif kind == patching.APPLY:
        value = body.lenient(request.body)
    else:
        raise errors.unsupported_media_type(
            kind, [patching.JSON_PATCH, patching.MERGE, patching.STRATEGIC, patching.APPLY]
        )
    if not isinstance(value, dict):
        raise errors.bad_request("the patched document is no object")
    return value


def _changed(resource: Resource, live: Json, wanted: Json) -> Json:
    _write(live, _paths(resource)[0], (wanted.get("spec") or {}).get("replicas") or 0)
    metadata = wanted.get("metadata") or {}
    for field in ("resourceVersion", "uid"):
        if metadata.get(field):
            live["metadata"][field] = metadata[field]
    return live


def _applied(core: "Core", request: Request, resource: Resource, live: Json, wanted: Json) -> Json:
    config: Json = {"metadata": {}}
    _write(config, _paths(resource)[0], (wanted.get("spec") or {}).get("replicas") or 0)
    writer = managed.Writer(request.field_manager, "Apply", resource.api_version, "scale", None)  # no time here, either
    merged, entries = managed.after_apply(live, config, writer, resource.shape, request.flag("force"))
    merged["metadata"]["managedFields"] = entries
    return merged
