"""Kubernetes' own kinds."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.resources import Resource
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write


def canonical(resource: Resource, value: Json, problems: list[str]) -> Json:
    return value


def empty(resource: Resource) -> Json:
    return {}


def prepare_create(core: "Core", resource: Resource, value: Json) -> None:
    if "status" in resource.subresources and resource.bucket not in ("nodes",):
        value.pop("status", None)
    if resource.bucket == "pods":
        value["status"] = {"phase": "Pending"}
    if resource.bucket == "namespaces":
        value.setdefault("spec", {})["finalizers"] = ["kubernetes"]
        value["status"] = {"phase": "Active"}
        value["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = value["metadata"].get("name", "")
    if "spec" in value:
        value["metadata"]["generation"] = 1


def prepare_update(core: "Core", write: "Write") -> None:
    value, live = write.value, write.live
    if write.subresource == "status":
        kept = {key: item for key, item in live.items() if key not in ("metadata", "status")}
        write.value = {
            **kept,
            "metadata": value["metadata"],
            **({"status": value["status"]} if "status" in value else {}),
        }
        return
    if "status" in write.resource.subresources:
        value.pop("status", None)
        if "status" in live:
            value["status"] = live["status"]
    if value.get("spec") != live.get("spec") and "generation" in live["metadata"]:
        value["metadata"]["generation"] = live["metadata"]["generation"] + 1


def problems(core: "Core", write: "Write") -> list[Cause]:
    return []
