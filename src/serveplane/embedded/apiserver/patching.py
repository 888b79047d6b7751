"""PATCH in its four forms."""

from typing import TYPE_CHECKING, Any

import msgspec

from serveplane.embedded.apiserver import body, errors, managed
from serveplane.embedded.apiserver.incoming import check_type, report, understood
from serveplane.embedded.apiserver.kinds.codec import Findings
from serveplane.embedded.apiserver.kinds.scalars import WrongType
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.apiserver.writing import CREATED_BY_UPDATE, change, check_name, create_value, now, shown
from serveplane.embedded.store import Key
from serveplane.objects import Json, jsonpatch, strategic

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

JSON_PATCH, MERGE, STRATEGIC = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
APPLY = body.APPLY_CONFIGURATION
OPERATIONS = 10_000


async def patch(core: "Core", request: Request, resource: Resource, subresource: str = "") -> Answer:
    kind = body.media_type(request.headers)
    accepted = [JSON_PATCH, MERGE, APPLY] if resource.custom else [JSON_PATCH, MERGE, STRATEGIC, APPLY]
    if kind not in accepted:
        raise errors.unsupported_media_type(kind, accepted)
    if kind == APPLY:
        return await _apply(core, request, resource, subresource)
    content = body.json_value(request.body)
    _check_content(kind, content)

    async def changed(live: Json) -> Json:
        return _checked(core, request, resource, live, patched(kind, live, content, resource))

    data = await change(core, request, resource, changed, subresource)
    return Answer(200, await shown(core, request, resource, data))


def _check_content(kind: str, content: Any) -> None:
    if kind == JSON_PATCH:
        if not isinstance(content, list) or not all(isinstance(step, dict) for step in content):
            raise errors.bad_request(
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
            )
        if len(content) > OPERATIONS:
            message = f"The allowed maximum operations in a JSON patch is {OPERATIONS}, got {len(content)}"
            raise errors.Refusal(413, "RequestEntityTooLarge", message)
    elif not isinstance(content, dict):
        raise errors.bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}"
        )


def patched(kind: str, live: Json, content: Any, resource: Resource) -> Json:
    try:
        if kind == JSON_PATCH:
            result: Any = jsonpatch.json_patched(live, content)
        elif kind == MERGE:
            result = jsonpatch.merge_patched(live, content)
        else:
            result = strategic.strategic_merged(live, content, resource.shape)
    except jsonpatch.PatchFailed:
        raise errors.Refusal(
            422, "Invalid", "the server rejected our request due to an error in our request", {}
        ) from None
    except (strategic.BadPatch, RecursionError) as error:
        raise errors.bad_request(str(error)) from None
    if not isinstance(result, dict):
        raise errors.bad_request("the patched document is no object")
    return result


def _understood(core: "Core", request: Request, resource: Resource, value: Json) -> Json:
    """What a patch made of the object; where that fits no type, the patch is to blame, not the object.

    What a strategic patch gives is taken over as values, what others give is written as text and read again.
    """
    strategic_patch = body.media_type(request.headers) == STRATEGIC
    try:
        return understood(core, request, resource, value, Findings(), converting=strategic_patch)
    except (errors.Refusal, WrongType) as refusal:
        misfit = refusal.misfit if isinstance(refusal, errors.Refusal) else str(refusal)
        if not misfit:
            raise
        shown = msgspec.json.encode(msgspec.json.encode(value).decode()).decode()
        cause = errors.Cause("FieldValueInvalid", f"Invalid value: {shown}: {misfit}", "patch")
        raise errors.invalid("", "", "", [cause]) from None


def _checked(core: "Core", request: Request, resource: Resource, live: Json, value: Json) -> Json:
    check_type(value, resource)
    value = _understood(core, request, resource, value)
    elsewhere = value["metadata"].get("namespace", "") not in ("", live["metadata"].get("namespace", ""))
    if not (elsewhere and resource.namespaced):
        check_name(value, live["metadata"]["name"])
    if elsewhere:
        raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return value


async def _apply(core: "Core", request: Request, resource: Resource, subresource: str) -> Answer:
    manager = request.query.get("fieldManager", "")
    if not manager:
        cause = errors.Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
        raise errors.invalid("PatchOptions", "meta.k8s.io", "", [cause])
    key = Key(request.target.namespace if resource.namespaced else "", request.target.name)
    missing = core.store.get(resource.bucket, key) is None
    if missing and subresource and resource.bucket not in CREATED_BY_UPDATE:
        raise errors.not_found(resource.plural, resource.group, request.target.name)
    config = _configuration(core, request, resource)
    request.empties = resource.custom is not None and any(item in ({}, []) for item in config["metadata"].values())
    writer = managed.Writer(request.field_manager, "Apply", resource.api_version, subresource, now(core))
    if missing:
        return await _apply_new(core, request, resource, config, writer, subresource)
    force = request.flag("force")

    async def applied(live: Json) -> Json:
        merged, entries = managed.after_apply(
            live,
            core.kinds.reachable(resource, config, subresource),
            writer,
            resource.shape,
            force,
            core.kinds.empty(resource),
        )
        check_name(config, request.target.name)
        merged = _converted(core, request, resource, merged, config)
        _record(merged, entries)
        for precondition in ("resourceVersion", "uid"):
            if config["metadata"].get(precondition):
                merged["metadata"][precondition] = config["metadata"][precondition]
        return merged

    data = await change(core, request, resource, applied, subresource, applied=True)
    return Answer(200, await shown(core, request, resource, data))


async def _apply_new(
    core: "Core", request: Request, resource: Resource, config: Json, writer: managed.Writer, subresource: str
) -> Answer:
    if config["metadata"].get("uid"):
        raise errors.conflict(
            resource.plural,
            resource.group,
            request.target.name,
            f"uid mismatch: the provided object specified uid {config['metadata']['uid']}, and no existing object was found",
        )
    _, entries = managed.after_apply(
        {}, core.kinds.reachable(resource, config, subresource), writer, resource.shape, True
    )
    check_name(config, request.target.name)
    value = _converted(core, request, resource, config, config)
    value["metadata"].pop("resourceVersion", None)
    _record(value, entries)
    data = await create_value(core, request, resource, value, applied=True)
    return Answer(201, await shown(core, request, resource, data))


def _record(value: Json, entries: list[Json]) -> None:
    """Who owns what; somebody who says nothing owns nothing, and is not mentioned."""
    value["metadata"].pop("managedFields", None)
    if entries:
        value["metadata"]["managedFields"] = entries


def _converted(core: "Core", request: Request, resource: Resource, value: Json, config: Json) -> Json:
    """What was merged, in the server's own types. What those cannot hold is the server's fault in the eyes of the real one."""
    problems = Findings()
    try:
        value = core.kinds.canonical(resource, value, problems, converting=True)
    except WrongType as error:
        version = resource.api_version if resource.group else f"/{resource.version}"
        why = f"unable to convert unstructured object to {version}, Kind={resource.kind}: {error}"
        raise errors.Refusal(500, "", f"failed to convert new object ({_told(config, resource)}) to proper version: {why}") from None
    request.emptied = problems.emptied
    report(request, resource, problems)
    return value


def _told(config: Json, resource: Resource) -> str:
    version = resource.api_version if resource.group else f"/{resource.version}"
    return f"/{config['metadata']['name']}; {version}, Kind={resource.kind}"


def _configuration(core: "Core", request: Request, resource: Resource) -> Json:
    """What the applier says, as it says it: defaults would make it own what it never mentioned."""
    config = body.lenient(request.body)
    if not isinstance(config, dict):
        raise errors.bad_request("error decoding YAML: the document is no object")
    for field in ("apiVersion", "kind"):
        if not config.get(field):
            raise errors.bad_request(f"{field} must be set in the apply patch")
    if (config["apiVersion"], config["kind"]) != (resource.api_version, resource.kind):
        given = str(config["apiVersion"])
        raise errors.bad_request(f"invalid object type: {given if '/' in given else f'/{given}'}, Kind={config['kind']}")
    metadata = config.get("metadata")
    if not isinstance(metadata, dict):
        metadata = config["metadata"] = {}
    if metadata.get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")
    metadata.setdefault("name", request.target.name)
    managed.check_typed(config, resource.shape, _told(config, resource))
    namespace = request.target.namespace
    if resource.namespaced and metadata.setdefault("namespace", namespace) != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return config
