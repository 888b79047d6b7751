"""Custom resources: pruned, defaulted and validated by their definition's schema."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.resources import Resource
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write


def _version(resource: Resource):  # type: ignore[no-untyped-def]
    assert resource.custom is not None
    return resource.custom


def canonical(resource: Resource, value: Json, problems: list[str]) -> Json:
    return value


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
    return []
