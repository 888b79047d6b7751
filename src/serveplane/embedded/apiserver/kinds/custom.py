"""Custom resources: pruned, defaulted and validated by their definition's schema."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import errors, jsonpath
from serveplane.embedded.apiserver.crd.schema import ABSENT
from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.kinds import codec
from serveplane.embedded.apiserver.kinds.scalars import Walk, WrongType
from serveplane.embedded.apiserver.resources import Resource
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.crd.definition import Version
    from serveplane.embedded.apiserver.crd.schema import Node
    from serveplane.embedded.apiserver.writing import Write

MOST_REPLICAS = 2**31 - 1
METADATA = "meta.v1.ObjectMeta"


def _version(resource: Resource) -> "Version":
    if resource.custom is None:
        raise TypeError(f"{resource.full_name} is not a custom resource")
    return resource.custom


def canonical(resource: Resource, value: Json, problems: list[str]) -> Json:
    """Fields nobody knows are dropped, absent ones with a default set; metadata is the same for all kinds."""
    version, unknown = _version(resource), list[str]()
    preserve = version.definition.value["spec"].get("preserveUnknownFields")
    out: Json = value if preserve else version.program.prune(value, "", unknown)
    version.program.fill(out)
    out["metadata"] = _metadata(resource, value["metadata"], unknown)
    problems += [f'unknown field "{path}"' for path in unknown]
    return out


def _metadata(resource: Resource, metadata: Json, unknown: list[str]) -> Json:
    walk = Walk()
    try:
        found = codec.struct(METADATA).read(metadata, walk, "metadata")
    except WrongType as error:
        told = str(error).replace("ObjectMeta.metadata.", "ObjectMeta.")  # it is read apart from the rest
        raise errors.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {told}'
        ) from None
    unknown += walk.unknown
    return found


def prepare_create(core: "Core", resource: Resource, value: Json) -> None:
    if _version(resource).has_status:
        value.pop("status", None)
    value["metadata"]["generation"] = 1


def prepare_update(core: "Core", write: "Write") -> None:
    """With a status subresource each endpoint writes its own half; metadata is written by the main one only."""
    version, value, live = _version(write.resource), write.value, write.live
    if write.subresource == "status":
        owners = value["metadata"].get("managedFields")
        metadata = {**live["metadata"], **({"managedFields": owners} if owners else {})}
        kept = {key: item for key, item in live.items() if key != "status"}
        write.value = {**kept, "metadata": metadata, **({"status": value["status"]} if "status" in value else {})}
        return
    if version.has_status:
        value.pop("status", None)
        if "status" in live:
            value["status"] = live["status"]
    ignored = ("metadata", "status") if version.has_status else ("metadata",)
    if {k: v for k, v in value.items() if k not in ignored} != {k: v for k, v in live.items() if k not in ignored}:
        value["metadata"]["generation"] = live["metadata"].get("generation", 0) + 1


def problems(core: "Core", write: "Write") -> list[Cause]:
    """Schema first; rules only look at values whose types are right."""
    program = _version(write.resource).program
    value = {key: item for key, item in write.value.items() if key != "metadata"}
    live = {key: item for key, item in write.live.items() if key != "metadata"} if write.live else ABSENT
    found = list(program.problems(_without_nulls(value, program), "", live))
    found += _scale_problems(write)
    if found:
        return found
    named = {"name": write.value["metadata"].get("name"), "generateName": write.value["metadata"].get("generateName")}
    visible = {**value, "metadata": {key: item for key, item in named.items() if item}}
    before = {**live, "metadata": visible["metadata"]} if live is not ABSENT else ABSENT
    return list(program.rule_problems(visible, "", before))


def _scale_problems(write: "Write") -> Iterator[Cause]:
    """What the scale subresource reads must be a number."""
    scale = _version(write.resource).scale
    for path in (scale["specReplicasPath"], scale["statusReplicasPath"]) if scale else ():
        for found in jsonpath.values(write.value, path):
            if found is not None and (not isinstance(found, int) or isinstance(found, bool)):
                kind = {str: "string", float: "float64", bool: "bool"}.get(type(found), "map[string]interface {}")
                yield Cause(
                    "FieldValueInvalid",
                    f"Invalid value: 0: {path} accessor error: {found} is of the type {kind}, expected int64",
                    path,
                )
            elif found is not None and found < 0:
                yield Cause("FieldValueInvalid", f"Invalid value: {found}: should be a non-negative integer", path)
            elif found is not None and found > MOST_REPLICAS:
                yield Cause("FieldValueInvalid", f"Invalid value: {found}: should be less than or equal to {MOST_REPLICAS}", path)


def _without_nulls(value: Json, node: "Node") -> Json:
    """A null where the schema allows none counts as absent, so that a required field is missed rather than mistyped."""
    out: Json = {}
    for name, item in value.items():
        child = node.properties.get(name, node.values)
        if item is None and child is not None and not child.nullable and child.type:
            continue
        out[name] = _without_nulls(item, child) if isinstance(item, dict) and child is not None else item
    return out
