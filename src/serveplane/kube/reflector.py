"""Keeps a store equal to the server: list once, then watch, for ever.

A watch that ends is resumed where it stood (bookmarks keep that place fresh). Only when the server no longer remembers
the place (410) is everything listed again, and what the list does not show is told as deleted. Nothing is ever missed
silently.
"""

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass

import msgspec

from serveplane.clock import Clock
from serveplane.kube.client import PAGE, WATCH_SECONDS, Client
from serveplane.kube.errors import (
    ApiError,
    ConnectionFailed,
    Forbidden,
    Gone,
    KubeError,
    NoSuchKind,
    NotFound,
    Unreachable,
)
from serveplane.kube.kind import Key, Kind
from serveplane.kube.retry import Backoff
from serveplane.kube.store import Item, Store
from serveplane.kube.wire import RawEvent

LOG = logging.getLogger(__name__)
BACKOFF = Backoff(first=0.2, longest=30.0)
MISSING_KIND = Backoff(first=0.5, longest=30.0)  # soon at first: during an installation definitions are about to be served
AWAITED_KIND = Backoff(first=0.25, longest=1.0)  # nothing works without it, and the server takes 5 s for a new definition
CLOSED_KIND = Backoff(first=60.0, longest=600.0)
DOUBTS = 3  # failures in a row before the place in the server's history is given up
WATCH_GRACE = 15.0  # a watch older than the server promised is a dead connection
SHORT_PAUSE = Backoff(first=0.05, longest=2.0)
SHORT_WATCH = 1.0  # one that ended sooner than this counts as a failure, so that a broken server is not hammered


@dataclass(frozen=True)
class Scope:
    """Which objects of a kind are watched."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


class Reflector:
    """One list-and-watch loop into a store."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        scope: Scope,
        store: Store,
        clock: Clock,
        *,
        optional: bool = False,
        forbidden_is_absent: bool = False,
    ) -> None:
        self._client = client
        self._kind = kind
        self._scope = scope
        self._store = store
        self._clock = clock
        self._optional = optional
        self._forbidden_is_absent = forbidden_is_absent
        self._failures = 0
        self._quick = 0
        self._forgotten = 0
        self._resource_version = ""
        self._highest = ""
        self.synced = asyncio.Event()
        self.trouble: KubeError | None = None
        """Why it is not up to date just now, for readiness and for messages."""

    async def run(self) -> None:
        while True:
            try:
                if not self._resource_version:
                    await self._list()
                await self._watch()
            except Gone:
                LOG.info("watch is too old, listing again", extra={"kind": str(self._kind)})
                await self._pause(self._lost_place())
            except (NoSuchKind, NotFound) as error:
                await self._kind_is_gone(error)
            except Forbidden as error:
                await (self._kind_is_closed(error) if self._forbidden_is_absent else self._failed(error))
            except KubeError as error:
                await self._failed(error)

    def passed(self, resource_version: str) -> bool:
        """Whether the server's history up to that point has been seen."""
        seen = self._resource_version
        return seen.isdecimal() and resource_version.isdecimal() and int(seen) >= int(resource_version)

    def covers(self, namespace: str) -> bool:
        return not self._scope.namespace or self._scope.namespace == namespace

    async def _list(self) -> None:
        seen: set[Key] = set()
        version = ""
        async for page in self._client.list_pages(
            self._kind,
            self._scope.namespace,
            labels=self._scope.labels,
            fields=self._scope.fields,
            limit=PAGE if not self._forgotten else 0,
        ):
            version = page.resource_version or version
            went_back = _is_before(version, self._highest)
            for raw in page.items:
                seen.add(self._store.put(raw, initial=not self.synced.is_set(), force=went_back))
            await self._clock.sleep(0)  # a long list must not starve the rest of the process
        self._store.retain(seen, self._scope.namespace, "" if _is_before(version, self._highest) else version)
        self._resource_version = self._highest = version
        self.synced.set()

    async def _watch(self) -> None:
        """One watch to its end. However it ends (by the server, by a cut, by silence), the next one goes on where it stood."""
        seconds = int(WATCH_SECONDS * (1 + self._clock.random()))
        started = self._clock.monotonic()
        watch = self._client.watch_raw(
            self._kind, self._scope.namespace, labels=self._scope.labels, fields=self._scope.fields,
            resource_version=self._resource_version, seconds=seconds,
        )  # fmt: skip
        try:
            async with asyncio.timeout(seconds + WATCH_GRACE), aclosing(watch) as events:
                async for event in events:
                    self._take(event)
                    self._recovered()
        except TimeoutError:
            LOG.warning("watch went silent, opening another", extra={"kind": str(self._kind)})
        except ConnectionFailed as error:
            if isinstance(error, Unreachable):
                raise
            LOG.debug("watch was cut: %s", error, extra={"kind": str(self._kind)})
        if self._clock.monotonic() - started >= SHORT_WATCH:
            self._recovered()
            return
        self._quick += 1
        await self._clock.sleep(SHORT_PAUSE.delay(self._quick, self._clock))

    def _take(self, event: RawEvent) -> None:
        try:
            meta = Item(self._kind, event.object).meta
        except msgspec.DecodeError as error:
            LOG.error("an event cannot be read and is left out: %s", error, extra={"kind": str(self._kind)})
            return
        match event.type:
            case "ADDED" | "MODIFIED":
                self._store.put(event.object)
            case "DELETED":
                self._store.remove(meta.key, meta.resourceVersion)
            case _:
                pass  # BOOKMARK: only the place moves
        self._resource_version = self._highest = meta.resourceVersion or self._resource_version

    def _recovered(self) -> None:
        if self.trouble is not None:
            LOG.info("watching again", extra={"kind": str(self._kind)})
        self.trouble, self._failures, self._quick, self._forgotten = None, 0, 0, 0

    def _lost_place(self) -> float:
        """The first relist is at once; a server that forgets at every turn gets a growing pause, and lists without pages."""
        self._resource_version = ""
        self._forgotten += 1
        return BACKOFF.delay(self._forgotten, self._clock) if self._forgotten > 1 else 0.0

    async def _kind_is_gone(self, error: KubeError) -> None:
        """No CRD (yet, or any more): whatever was known of its objects is void. Optional kinds count as empty."""
        self._client.discovery.forget(self._kind.api_version)
        self._store.retain(set(), self._scope.namespace, "")
        self._resource_version = ""
        if self._optional:
            self.synced.set()
        self._note(error, quiet=self._optional)
        await self._pause((MISSING_KIND if self._optional else AWAITED_KIND).delay(self._failures, self._clock))

    async def _kind_is_closed(self, error: Forbidden) -> None:
        """We may not read it and are not meant to: it counts as empty. Told once; looked at now and then, should that change."""
        self._store.retain(set(), self._scope.namespace, "")
        self._resource_version = ""
        self.synced.set()
        if not isinstance(self.trouble, Forbidden):
            LOG.warning("not allowed to read %s: it counts as absent", self._kind.kind, extra={"kind": str(self._kind)})
        self.trouble = error
        await self._pause(CLOSED_KIND.delay(self._failures, self._clock))

    async def _failed(self, error: KubeError) -> None:
        """Resume where we stood, unless it may be that place which the server objects to (its data may have been restored)."""
        if isinstance(error, ApiError) and (error.code in (400, 422) or self._failures >= DOUBTS):
            self._resource_version = ""
        self._note(error)
        await self._pause(BACKOFF.delay(self._failures, self._clock))

    def _note(self, error: KubeError, *, quiet: bool = False) -> None:
        told = self.trouble is not None and str(self.trouble) == str(error)
        level = logging.DEBUG if told or quiet else logging.ERROR if isinstance(error, Forbidden) else logging.WARNING
        LOG.log(level, "cannot watch: %s", error, extra={"kind": str(self._kind)})
        self.trouble = error

    async def _pause(self, seconds: float) -> None:
        self._failures += 1
        await self._clock.sleep(seconds)


def _is_before(version: str, known: str) -> bool:
    return version.isdecimal() and known.isdecimal() and int(version) < int(known)
