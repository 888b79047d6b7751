"""WATCH: a stream of changes read off the shared history.

A watcher holds nothing but its place in the history, so a thousand of them that never read cost nothing; one that falls behind what
history keeps is told so (410) and has to list again.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import errors, representation
from serveplane.embedded.apiserver.kinds.strategies import TEMPLATE_GENERATION
from serveplane.embedded.apiserver.reading import parse_version, too_large_version
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.apiserver.selecting import Selection, check_syntax, selection
from serveplane.embedded.store import Change, Expired, Record
from serveplane.embedded.store.records import DELETED, frame
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

BOOKMARK_SECONDS = 60.0
SHORTEST_DEFAULT = 1800.0
BATCH_BYTES = 32 << 10


def watch(core: "Core", request: Request, resource: Resource) -> Answer:
    return Answer(200, Watch(core, request, resource).stream())


class Watch:
    """One watch request."""

    def __init__(self, core: "Core", request: Request, resource: Resource) -> None:
        self._core = core
        self._resource = resource
        check_syntax(request)
        _check_options(request)
        self._chosen: Selection = selection(request, resource)
        include = request.query.get("includeObject", "")
        self._form = representation.negotiated(request.headers, core.clock)
        self._encode = representation.event_encoder(self._form, resource, include)
        self._bookmarks = request.flag("allowWatchBookmarks")
        self._initial = request.flag("sendInitialEvents")
        self._text = request.query.get("resourceVersion", "")
        self._converts = resource.converts
        self._plain = self._form.kind == representation.OBJECT and not self._converts
        self._seconds = float(request.number("timeoutSeconds") or 0) or SHORTEST_DEFAULT * (1 + core.clock.random())
        self._check()

    def _check(self) -> None:
        if self._text and parse_version(self._text) > self._core.store.version and self._initial:
            raise too_large_version(parse_version(self._text), self._core.store.version)

    async def stream(self) -> AsyncIterator[bytes]:
        """Initial state if asked for, then changes until the time is up, the resource goes or the reader does."""
        try:
            cursor, first = self._begin()
            version = self._core.store.shown  # sending takes time, and what is written meanwhile is not among the first
            if first:
                yield await self._joined([("ADDED", record) for record in first])
            if (self._initial or self._text in ("", "0")) and self._bookmarks:
                yield self._bookmark(version, initial_end=True)
            async for part in self._follow(cursor):
                yield part
        except Expired:
            yield self._too_old()
        except errors.Refusal as refusal:
            yield frame("ERROR", errors.encoded(refusal.status()))

    def _begin(self) -> tuple[int, list[Record]]:
        """Where to start in history, and what to show first. Both are taken in one step, so nothing falls between."""
        store = self._core.store
        store.flush()
        version = parse_version(self._text) if self._text else 0
        if version == 0 or self._initial:
            now = store.records(self._resource.bucket, self._chosen.namespace)
            return store.cursor(self._resource.bucket, store.version), [one for one in now if self._chosen.matches(one)]
        return store.cursor(self._resource.bucket, version), []

    async def _follow(self, cursor: int) -> AsyncIterator[bytes]:
        core, bucket = self._core, self._resource.bucket
        deadline = core.clock.monotonic() + self._seconds
        while (left := deadline - core.clock.monotonic()) > 0 and core.is_served(self._resource):
            changes, cursor = core.store.since(bucket, cursor)
            if changes:
                for part in await self._parts(changes):
                    yield part
                continue
            if not await core.wait_for_change(bucket, min(left, BOOKMARK_SECONDS)) and self._bookmarks:
                yield self._bookmark(core.store.shown)

    async def _parts(self, changes: list[Change]) -> Iterable[bytes]:
        if self._plain and self._chosen.all and self._chosen.namespace is None:
            return _chunks(change.frame for change in changes)
        if self._plain:
            return _chunks(filter(None, map(self._frame, changes)))
        seen = [event for event in map(self._event, changes) if event is not None]
        return [await self._joined(seen)] if seen else []

    def _frame(self, change: Change) -> bytes:
        """The shared frame wherever the selection does not make a different event of it."""
        event = self._event(change)
        if event is None:
            return b""
        kind, record = event
        return change.frame if record is change.record and kind == change.type else frame(kind, record.data)

    def _event(self, change: Change) -> tuple[str, Record] | None:
        """What a change is to somebody who only sees the selected objects: they come and go by changing."""
        now = change.type != DELETED and self._chosen.matches(change.record)
        before = change.previous is not None and self._chosen.matches(change.previous)
        if now:
            return ("MODIFIED" if before else "ADDED"), change.record
        if not before or change.previous is None:
            return None
        if change.type == DELETED:
            return DELETED, change.record
        return DELETED, _at_version(change.previous, change.version)

    async def _joined(self, events: list[tuple[str, Record]]) -> bytes:
        items = [record.data for _, record in events]
        if self._converts:
            items = await self._core.convert.many(self._resource, items)
        return b"".join(self._encode(kind, data) for (kind, _), data in zip(events, items, strict=True))

    def _bookmark(self, version: int, initial_end: bool = False) -> bytes:
        metadata: Json = {"resourceVersion": str(version)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        if self._resource.bucket == "daemonsets.apps":  # the leftover of an old version is told even of nothing
            metadata["annotations"] = {TEMPLATE_GENERATION: "0", **metadata.get("annotations", {})}
        if self._resource.custom is None and not initial_end:
            metadata["creationTimestamp"] = None
        empty = {key: item or (None if item == [] else item) for key, item in self._core.kinds.empty(self._resource).items()}
        value = {**empty, "kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": metadata}
        if self._form.kind == representation.METADATA:
            value = representation.partial(value, self._form)
        return frame("BOOKMARK", errors.encoded(value))

    def _too_old(self) -> bytes:
        compacted = self._core.store.bucket(self._resource.bucket).compacted
        refusal = errors.expired(f"too old resource version: {self._text or 0} ({compacted})")
        return frame("ERROR", errors.encoded(refusal.status()))


def _chunks(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Frames joined as the reader takes them, never into so large a piece that many slow readers pin much."""
    current, size = list[bytes](), 0
    for one in frames:
        current.append(one)
        size += len(one)
        if size > BATCH_BYTES:
            yield b"".join(current)
            current, size = [], 0
    if current:
        yield b"".join(current)


def _at_version(record: Record, version: int) -> Record:
    value = record.value()
    value["metadata"]["resourceVersion"] = str(version)
    return Record(record.key, errors.encoded(value), version, record.labels)


async def wait(future: "asyncio.Future[None]", seconds: float) -> bool:
    """Whether the future came within that time; it is shared, so it is never cancelled from here."""
    done, _ = await asyncio.wait([future], timeout=seconds)
    return bool(done)


def _check_options(request: Request) -> None:
    match = request.query.get("resourceVersionMatch", "")
    why = ""
    if "sendInitialEvents" in request.query and match != "NotOlderThan":
        why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif match and "sendInitialEvents" not in request.query:
        why = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    if why:
        cause = errors.Cause("FieldValueForbidden", why, "resourceVersionMatch")
        raise errors.invalid("ListOptions", "meta.k8s.io", "", [cause])
