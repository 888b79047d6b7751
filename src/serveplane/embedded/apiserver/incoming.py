"""From a request's body to an object of the right kind, with unknown and duplicate fields reported."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import body, errors
from serveplane.embedded.apiserver.kinds.codec import Findings
from serveplane.embedded.apiserver.request import Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.objects import Json, schema

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core


def incoming(core: "Core", request: Request, resource: Resource) -> Json:
    """The object of a create or update: of this kind and version, decoded as the real server's types would."""
    value = body.decoded(request, resource.kind)
    if resource.custom and body.media_type(request.headers) == body.JSON:
        _says_its_type(request, resource, value)
    check_type(value, resource)
    problems = Findings(_duplicates(request, value))
    return understood(core, request, resource, value, problems)


def _says_its_type(request: Request, resource: Resource, value: Json) -> None:
    """Kubernetes' own kinds may leave their type to the URL, custom ones may not."""
    for field in ("kind", "apiVersion"):
        if not value.get(field):
            text = request.body.decode(errors="replace")
            wrong = f"Object '{'Kind' if field == 'kind' else 'apiVersion'}' is missing in '{text}'"
            if request.field_validation == "Ignore":  # another reader, other words
                raise errors.bad_request(f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {wrong}')
            told = body.summary(request.body)
            raise errors.bad_request(f"the object provided is unrecognized (must be of type {resource.kind}): {wrong} ({told})")


def _duplicates(request: Request, value: Json) -> list[str]:
    if request.field_validation == "Ignore" or body.media_type(request.headers) != body.JSON:
        return []
    return [f'duplicate field "{path}"' for path in body.duplicates(request.body, value)]


def check_type(value: Json, resource: Resource) -> None:
    version, kind = value.setdefault("apiVersion", resource.api_version), value.setdefault("kind", resource.kind)
    if (version, kind) == (resource.api_version, resource.kind):
        return
    for field, said in (("apiVersion", version), ("kind", kind)):
        if isinstance(said, dict | list):
            what = "object" if isinstance(said, dict) else "array"
            wrong = f"json: cannot unmarshal {what} into Go struct field .{field} of type string"
            raise errors.bad_request(f"couldn't get version/kind; json parse error: {wrong}")
    told = f'{kind} in version "{str(version).rpartition("/")[2]}" cannot be handled as a {resource.kind}'
    if resource.custom is None and schema.builtin(version, kind) is not None:
        group = resource.group.split(".")[0] or "core"
        raise errors.bad_request(
            f"{told}: converting ({str(version).rpartition('/')[2]}.{kind}) to ({group}.{resource.kind}): unknown conversion"
        )
    if resource.custom is None:
        raise errors.bad_request(
            f'{told}: no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:110"'
        )
    if version != resource.api_version:
        raise errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    cause = errors.Cause("FieldValueInvalid", f'Invalid value: "{kind}": must be {resource.kind}', "kind")
    raise errors.invalid(str(kind), resource.group, (value.get("metadata") or {}).get("name", ""), [cause])


def understood(
    core: "Core", request: Request, resource: Resource, value: Json, problems: Findings, converting: bool = False
) -> Json:
    """Types checked and the object brought into the form the server keeps; unknown fields dropped and reported."""
    metadata = value.get("metadata")
    if metadata is None:
        metadata = value["metadata"] = {}
    if not isinstance(metadata, dict):
        raise errors.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            "json: cannot unmarshal metadata into Go value of type v1.ObjectMeta"
        )
    forgotten = metadata.get("managedFields") in ([], [{}])
    value = core.kinds.canonical(resource, value, problems, converting)
    request.emptied = problems.emptied
    if forgotten:  # an empty list is a wish here, so it must outlive the codec, which drops empty lists
        value["metadata"]["managedFields"] = []
    report(request, resource, problems)
    return value


def report(request: Request, resource: Resource, problems: list[str]) -> None:
    """Unknown and duplicate fields: refuse, warn or ignore, as the client asked."""
    if not problems or request.field_validation == "Ignore":
        return
    if request.field_validation == "Warn":
        request.warnings.extend(problems)
        return
    told = f"strict decoding error: {', '.join(problems)}"
    refusal = errors.bad_request(f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {told}')
    refusal.misfit = told
    raise refusal
