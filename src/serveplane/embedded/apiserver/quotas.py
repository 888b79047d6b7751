"""What the quotas of a namespace have left: counted anew when a quota changes and when something in its namespace ends.

What is made is charged as it is made (`admission.quota`), so nothing need be counted for that.
"""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.admission.quota import BUCKET
from serveplane.embedded.apiserver.kinds import usage
from serveplane.embedded.apiserver.loops import QueuedLoop
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.store import Change, Record
from serveplane.embedded.store.records import DELETED
from serveplane.objects import Json
from serveplane.objects.amounts import Amounts, add

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

SHRINKING = frozenset({usage.PODS, usage.SERVICES, usage.CLAIMS})
"""Kinds that may use less without being deleted."""


class Quotas(QueuedLoop):
    def __init__(self, core: "Core") -> None:
        super().__init__(core)
        core.store.observe("", self._changed)

    def start(self) -> None:
        self._queue.update(record.key.namespace for record in self._core.store.records(BUCKET))
        self.wake()

    def _changed(self, change: Change) -> None:
        namespace = change.record.key.namespace
        if not namespace or not self._matters(change):
            return
        if any(True for _ in self._core.store.records(BUCKET, namespace)):
            self.enqueue(namespace)

    def _matters(self, change: Change) -> bool:
        if change.bucket == BUCKET:
            return change.type == DELETED or _is_stale(change.record.value())
        return change.type == DELETED or (change.bucket in SHRINKING and change.previous is not None)

    async def look_at(self, name: str) -> None:
        for record in list(self._core.store.records(BUCKET, name)):
            await self._count(record)

    async def _count(self, record: Record) -> None:
        resource = self._core.stored_resource(BUCKET)
        assert resource is not None
        quota = record.value()
        hard = (quota.get("spec") or {}).get("hard") or {}
        used = self._used(quota, hard)

        def write_down(value: Json) -> None:
            value["status"] = {"hard": dict(hard), "used": used} if hard else {}

        await self._core.adjust(resource, record, write_down)

    def _used(self, quota: Json, hard: Json) -> Amounts:
        found, now, seen = Amounts(), self._core.clock.now(), set[str]()
        for resource in self._core.registry:
            names = [] if resource.bucket in seen or not _is_counted(resource) else usage.counted(resource, hard)
            seen.add(resource.bucket)
            if not names:
                continue
            add(found, dict.fromkeys(names, "0"))
            for record in self._core.store.records(resource.bucket, quota["metadata"]["namespace"]):
                value = record.value()
                if usage.in_scope(quota, resource, value):
                    own = usage.of(resource, value, now)
                    add(found, {name: own[name] for name in names if name in own})
        return found


def _is_counted(resource: Resource) -> bool:
    return usage.counts(resource, {}, {}, "") and resource.stored


def _is_stale(quota: Json) -> bool:
    status, hard = quota.get("status") or {}, (quota.get("spec") or {}).get("hard") or {}
    return bool((status.get("hard") or {}) != hard or (hard and "used" not in status))
