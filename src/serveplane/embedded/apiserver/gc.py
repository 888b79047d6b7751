"""Garbage collection by owner references: background, foreground, orphan.

Fed by every committed change, it keeps two indexes (who exists, who depends on whom) and a queue of objects to look at. It acts
through the same deletion as any client, with preconditions, so a stale look at an object does no harm.
"""

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.deleting import FOREGROUND, ORPHAN, Options
from serveplane.embedded.apiserver.loops import Loop
from serveplane.embedded.apiserver.request import Request, User
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.store import Change, Conflict, Key, Record
from serveplane.embedded.store.records import DELETED
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

COLLECTOR = User(
    "system:serviceaccount:kube-system:generic-garbage-collector", ("system:masters", "system:authenticated")
)


class Place(NamedTuple):
    bucket: str
    key: Key


class _Owner(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    blockOwnerDeletion: bool | None = None


class _Meta(msgspec.Struct):
    uid: str = ""
    ownerReferences: list[_Owner] | None = None
    finalizers: list[str] | None = None
    deletionTimestamp: str | None = None


class _Object(msgspec.Struct):
    metadata: _Meta


_decode = msgspec.json.Decoder(_Object).decode


class GarbageCollector(Loop):
    def __init__(self, core: "Core") -> None:
        super().__init__(core)
        self._places: dict[str, Place] = {}
        self._owners: dict[Place, frozenset[str]] = {}
        self._dependents: dict[str, set[Place]] = {}
        self._queue: dict[Place, None] = {}
        core.store.observe("", self._changed)

    def start(self) -> None:
        """Look at everything once: owners may have gone while nobody was looking."""
        for bucket in self._core.store.buckets():
            for record in bucket.records():
                self._noticed(Place(bucket.name, record.key), _decode(record.data).metadata)

    def _changed(self, change: Change) -> None:
        place = Place(change.bucket, change.record.key)
        meta = _decode(change.record.data).metadata
        if change.type != DELETED:
            self._noticed(place, meta)
            return
        self._places.pop(meta.uid, None)
        self._index(place, frozenset())
        for dependent in self._dependents.get(meta.uid, ()):
            self._enqueue(dependent)
        for owner in meta.ownerReferences or ():  # a foreground owner may have waited for this one
            if owner.uid in self._places:
                self._enqueue_if_waiting(self._places[owner.uid])

    def _noticed(self, place: Place, meta: _Meta) -> None:
        self._places[meta.uid] = place
        owners = frozenset(owner.uid for owner in meta.ownerReferences or ())
        if owners != self._owners.get(place, frozenset()):
            self._index(place, owners)
        if any(owner not in self._places for owner in owners):
            self._enqueue(place)
        if meta.deletionTimestamp and (FOREGROUND in (meta.finalizers or ()) or ORPHAN in (meta.finalizers or ())):
            self._enqueue(place)

    def _enqueue_if_waiting(self, place: Place) -> None:
        record = self._core.store.get(*place)
        if record is not None and b'"foregroundDeletion"' in record.data:
            self._enqueue(place)

    def _index(self, place: Place, owners: frozenset[str]) -> None:
        for gone in self._owners.pop(place, frozenset()) - owners:
            self._dependents[gone].discard(place)
            if not self._dependents[gone]:
                del self._dependents[gone]
        if owners:
            self._owners[place] = owners
        for owner in owners:
            self._dependents.setdefault(owner, set()).add(place)

    def _enqueue(self, place: Place) -> None:
        self._queue[place] = None
        self.wake()

    async def drain(self) -> None:
        """Work until nothing is left to look at."""
        while self._queue:
            place = next(iter(self._queue))
            del self._queue[place]
            try:
                await self._look_at(place)
            except Conflict:
                self._enqueue(place)
            except errors.Refusal as refusal:
                if refusal.code == 409:
                    self._enqueue(place)
                elif refusal.code != 404:
                    self._core.log.warning("garbage collection of %s: %s", place, refusal.message)
                    self.postpone(partial(self._enqueue, place))
            except Exception:
                self._queue[place] = None
                raise
            await self._core.clock.sleep(0)

    async def _look_at(self, place: Place) -> None:
        record = self._core.store.get(*place)
        resource = self._core.stored_resource(place.bucket)
        if record is None or resource is None:
            return
        meta = _decode(record.data).metadata
        finalizers = meta.finalizers or []
        if meta.deletionTimestamp and ORPHAN in finalizers:
            await self._orphan(record, resource, meta)
        elif meta.deletionTimestamp and FOREGROUND in finalizers:
            await self._foreground(record, resource, meta)
        elif meta.ownerReferences:
            await self._judge(record, resource, meta)

    async def _judge(self, record: Record, resource: Resource, meta: _Meta) -> None:
        """Delete it if all its owners are gone; forget the gone ones if some are left."""
        references = meta.ownerReferences or []
        states = {owner.uid: self._state(owner, resource, record.key) for owner in references}
        if "unknown" in states.values():
            return
        loose = {uid for uid, state in states.items() if state != "solid"}
        if not loose:
            return
        if len(loose) < len(states):
            await self._forget(record, resource, loose)
            return
        waiting = "waiting" in states.values() and bool(self._dependents.get(meta.uid))
        await self._delete(record, resource, meta, "Foreground" if waiting else _policy(meta))

    def _state(self, owner: _Owner, resource: Resource, key: Key) -> str:
        """solid: it is there. gone: it is not. waiting: it is being deleted in the foreground. unknown: nobody can say."""
        kind = self._core.registry.by_kind(owner.apiVersion, owner.kind)
        if kind is None:
            return (
                "solid"
                if owner.uid in self._places
                else "unknown"
                if not self._core.ever_served(owner.apiVersion, owner.kind)
                else "gone"
            )
        if kind.namespaced and not resource.namespaced:
            return "unknown"  # a namespaced owner of a cluster-scoped object is not followed
        record = self._core.store.get(kind.bucket, Key(key.namespace if kind.namespaced else "", owner.name))
        if record is None:
            return "gone"
        meta = _decode(record.data).metadata
        if meta.uid != owner.uid:
            return "gone"
        # Dependents go whether they block their owner or not; blocking only says who is waited for.
        return "waiting" if meta.deletionTimestamp and FOREGROUND in (meta.finalizers or ()) else "solid"

    async def _delete(self, record: Record, resource: Resource, meta: _Meta, propagation: str) -> None:
        if meta.deletionTimestamp and propagation != "Foreground":
            return
        options = Options(propagation=propagation, uid=meta.uid, version=str(record.version))
        await self._core.deleting.delete_record(self._core, self._request(), resource, record, options)

    async def _orphan(self, record: Record, resource: Resource, meta: _Meta) -> None:
        for place in list(self._dependents.get(meta.uid, ())):
            dependent, kind = self._core.store.get(*place), self._core.stored_resource(place.bucket)
            if dependent is not None and kind is not None:
                await self._forget(dependent, kind, {meta.uid})
        await self._unfinalize(record, resource, ORPHAN)

    async def _foreground(self, record: Record, resource: Resource, meta: _Meta) -> None:
        for place in list(self._dependents.get(meta.uid, ())):
            dependent, kind = self._core.store.get(*place), self._core.stored_resource(place.bucket)
            if dependent is None or kind is None:
                continue
            inner = _decode(dependent.data).metadata
            await self._judge(dependent, kind, inner)
        still = [place for place in self._dependents.get(meta.uid, ()) if self._blocks(place, meta.uid)]
        if not still:
            await self._unfinalize(record, resource, FOREGROUND)

    def _blocks(self, place: Place, owner: str) -> bool:
        record = self._core.store.get(*place)
        references = _decode(record.data).metadata.ownerReferences if record else None
        return any(reference.uid == owner and reference.blockOwnerDeletion for reference in references or ())

    async def _forget(self, record: Record, resource: Resource, owners: set[str]) -> None:
        def without(value: Json) -> None:
            metadata = value["metadata"]
            kept = [owner for owner in metadata.get("ownerReferences") or () if owner["uid"] not in owners]
            _set(metadata, "ownerReferences", kept)

        await self._core.adjust(resource, record, without)

    async def _unfinalize(self, record: Record, resource: Resource, finalizer: str) -> None:
        def without(value: Json) -> None:
            metadata = value["metadata"]
            _set(metadata, "finalizers", [name for name in metadata.get("finalizers") or () if name != finalizer])

        await self._core.adjust(resource, record, without)

    def _request(self) -> Request:
        return Request("DELETE", "", {}, {}, b"", COLLECTOR)


def _set(metadata: Json, field: str, values: list[object]) -> None:
    if values:
        metadata[field] = values
    else:
        metadata.pop(field, None)


def _policy(meta: _Meta) -> str:
    finalizers = meta.finalizers or ()
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
