"""The end of a namespace: everything in it is deleted, then the namespace itself."""

from functools import partial
from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.deleting import Options
from serveplane.embedded.apiserver.loops import QueuedLoop
from serveplane.embedded.apiserver.request import Request, User
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.store import Change, Key, Record
from serveplane.embedded.store.records import DELETED
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

CONTROLLER = User("system:serviceaccount:kube-system:namespace-controller", ("system:masters", "system:authenticated"))


class NamespaceController(QueuedLoop):
    def __init__(self, core: "Core") -> None:
        super().__init__(core)
        core.store.observe("namespaces", self._changed)
        core.store.observe("", self._content_changed)

    def start(self) -> None:
        for record in self._core.store.records("namespaces"):
            self._consider(record.key.name, record.data)

    def _changed(self, change: Change) -> None:
        if change.type != DELETED:
            self._consider(change.record.key.name, change.record.data)

    def _content_changed(self, change: Change) -> None:
        """The last object of a dying namespace going is what its end waits for."""
        namespace = change.record.key.namespace
        if namespace and change.type == DELETED:
            record = self._core.store.get("namespaces", Key("", namespace))
            if record is not None:
                self._consider(namespace, record.data)

    def _consider(self, name: str, data: bytes) -> None:
        if b'"deletionTimestamp"' in data:
            self.enqueue(name)

    async def look_at(self, name: str) -> None:
        record = self._core.store.get("namespaces", Key("", name))
        if record is None or "deletionTimestamp" not in record.value()["metadata"]:
            return
        left = await self._delete_content(name)
        if left:
            return
        current = self._core.store.get("namespaces", Key("", name))
        resource = self._core.stored_resource("namespaces")
        if current is not None and resource is not None:
            await self._core.adjust(resource, current, _finalize)

    async def _delete_content(self, name: str) -> int:
        """How many objects are still there after all were asked to go. Those that may not go yet are asked again later."""
        left, refused = 0, ""
        for bucket in self._core.store.buckets():
            resource = self._core.stored_resource(bucket.name)
            if resource is None:
                continue
            for record in list(bucket.records(name)):
                if b'"deletionTimestamp"' in record.data and b'"finalizers"' in record.data:
                    left += 1
                    continue
                try:
                    left += not await self._deleted(resource, record)
                except errors.Refusal as refusal:
                    left, refused = left + 1, f"{resource.plural} {record.key.name}: {refusal.message}"
        if refused:
            self._core.log.warning("end of namespace %s: %s", name, refused)
            self.postpone(partial(self.enqueue, name))
        return left

    async def _deleted(self, resource: Resource, record: Record) -> bool:
        request, options = Request("DELETE", "", {}, {}, b"", CONTROLLER), Options(propagation="Background")
        gone, _ = await self._core.deleting.delete_record(self._core, request, resource, record, options)
        return gone


def _finalize(value: Json) -> None:
    spec = value.setdefault("spec", {})
    kept = [name for name in spec.get("finalizers") or () if name != "kubernetes"]
    if kept:
        spec["finalizers"] = kept
    else:
        spec.pop("finalizers", None)
