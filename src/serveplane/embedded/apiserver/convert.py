"""Between the version an object is stored in and the version somebody asks for.

Kubernetes' own kinds are stored in the one version served, except events, which are one thing in two groups. Custom resources
follow their definition: the same fields under another version, or a webhook's word.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.autoscalers import newer, older
from serveplane.embedded.apiserver.resources import EVENT_BUCKET, Resource
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_EVENT_NAMES = {new: old for old, new in _EVENT_NAMES.items()}


class Converter:
    def __init__(self, core: "Core") -> None:
        self._core = core
        self._storage: dict[str, Resource] = {}

    def storage_resource(self, bucket: str) -> Resource | None:
        if bucket not in self._storage:
            self._refresh()
        return self._storage.get(bucket)

    def forget(self) -> None:
        self._storage.clear()

    def _refresh(self) -> None:
        for resource in self._core.registry:
            if resource.first_autoscaler:
                continue
            if resource.custom is None:
                self._storage.setdefault(resource.bucket, resource)  # of events, core/v1 comes first
            else:
                storage = resource.custom.definition.storage_resource
                if storage is not None:
                    self._storage[resource.bucket] = storage

    def copied(self, value: Json) -> Json:
        copy: Json = msgspec.json.decode(msgspec.json.encode(value))
        return copy

    async def one(self, resource: Resource, data: bytes) -> bytes:
        return (await self.many(resource, [data]))[0]

    async def many(self, resource: Resource, items: list[bytes]) -> list[bytes]:
        """Stored bytes in the version of the resource."""
        if resource.bucket == EVENT_BUCKET:
            return (
                items
                if not resource.group
                else [errors.encoded(modern_event(msgspec.json.decode(item))) for item in items]
            )
        if resource.first_autoscaler:
            return [errors.encoded(older(msgspec.json.decode(item))) for item in items]
        if resource.custom is None or not resource.custom.definition.converts:
            return items
        return await resource.custom.definition.conversion.encoded(self._core, resource, items)

    async def from_storage(self, resource: Resource, value: Json) -> Json:
        if resource.bucket == EVENT_BUCKET:
            return modern_event(value) if resource.group else value
        if resource.first_autoscaler:
            return older(value)
        if resource.custom is None or not resource.custom.definition.converts:
            return value
        return (await resource.custom.definition.conversion.values(self._core, resource, [value]))[0]

    async def to_storage(self, resource: Resource, value: Json) -> Json:
        if resource.bucket == EVENT_BUCKET:
            return core_event(value) if resource.group else value
        if resource.first_autoscaler:
            return newer(value)
        if resource.custom is None or not resource.custom.definition.converts:
            return value
        storage: Any = resource.custom.definition.storage_resource
        found = (await resource.custom.definition.conversion.values(self._core, storage, [value]))[0]
        return found if storage is resource or found["apiVersion"] == value["apiVersion"] else _pruned(storage, found)


def _pruned(storage: Resource, value: Json) -> Json:
    """Without what the version that is stored does not know, whatever the version that was written has."""
    if storage.custom is None or storage.custom.definition.value["spec"].get("preserveUnknownFields"):
        return value
    return {**storage.custom.program.prune(value, "", []), "metadata": value["metadata"]}


def modern_event(value: Json) -> Json:
    """core/v1 Event as events.k8s.io/v1 has it: other names, same content."""
    left_out = ("reportingComponent", "reportingInstance")
    out = {_EVENT_NAMES.get(key, key): item for key, item in value.items() if item != "" or key not in left_out}
    return {**out, "kind": "Event", "apiVersion": "events.k8s.io/v1"}


def core_event(value: Json) -> Json:
    unset = {"reportingComponent": "", "reportingInstance": ""}
    out = {**unset, **{_CORE_EVENT_NAMES.get(key, key): item for key, item in value.items()}}
    return {
        "kind": "Event",
        "apiVersion": "v1",
        **{key: item for key, item in out.items() if key not in ("kind", "apiVersion")},
    }
