"""The ConfigMaps and Secrets that the pods of this node refer to, each watched by name, once, while some pod needs it.

A node never lists secrets. An object's latest value is at hand for a container's start, and whoever mounts it hears of changes.
"""
import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import aclosing

from serveplane.clock import Clock
from serveplane.kube.client import Client
from serveplane.kube.errors import Gone, KubeError
from serveplane.kube.kind import Kind
from serveplane.kube.wire import decode_item
from serveplane.objects import Json

CONFIG_MAP, SECRET = Kind("v1", "ConfigMap"), Kind("v1", "Secret")
RETRY = 2.0

log = logging.getLogger(__name__)
Reference = tuple[Kind, str, str]   # kind, namespace, name


class _Entry:
    def __init__(self) -> None:
        self.value: Json | None = None
        self.known = asyncio.Event()
        self.users: dict[object, Callable[[], None]] = {}
        self.task: asyncio.Task[None] | None = None


class ReferenceWatch:
    """`use` an object, `get` its value, `release` it when the pod is gone."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._entries: dict[Reference, _Entry] = {}

    async def use(self, reference: Reference, user: object, changed: Callable[[], None]) -> Json | None:
        entry = self._entries.get(reference)
        if entry is None:
            entry = self._entries[reference] = _Entry()
            entry.task = asyncio.create_task(self._watch(reference, entry), name=f"reference {reference[2]}")
        entry.users[user] = changed
        await entry.known.wait()
        return entry.value

    def get(self, reference: Reference) -> Json | None:
        entry = self._entries.get(reference)
        return entry.value if entry else None

    def release(self, user: object) -> None:
        for reference, entry in list(self._entries.items()):
            entry.users.pop(user, None)
            if not entry.users:
                del self._entries[reference]
                if entry.task:
                    entry.task.cancel()

    async def close(self) -> None:
        tasks = [entry.task for entry in self._entries.values() if entry.task]
        self._entries.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, reference: Reference, entry: _Entry) -> None:
        while True:
            try:
                await self._follow(reference, entry)
            except Gone:
                continue
            except KubeError as problem:
                log.debug("watch of %s %s/%s: %s", reference[0].kind, *reference[1:], problem)
                await self._clock.sleep(RETRY)

    async def _follow(self, reference: Reference, entry: _Entry) -> None:
        kind, namespace, name = reference
        fields = f"metadata.name={name}"
        version = ""
        async for page in self._client.list_pages(kind, namespace, fields=fields):
            found = [decode_item(item, kind) for item in page.items]
            version = page.resource_version
            self._set(entry, found[0] if found else None)
        watch = self._client.watch(kind, namespace, fields=fields, resource_version=version)
        async with aclosing(watch) as events:
            async for event in events:
                if event.type in ("ADDED", "MODIFIED"):
                    self._set(entry, event.object)
                elif event.type == "DELETED":
                    self._set(entry, None)

    def _set(self, entry: _Entry, value: Json | None) -> None:
        is_new = not entry.known.is_set() or value != entry.value
        entry.value = value
        entry.known.set()
        if is_new:
            for changed in list(entry.users.values()):
                with contextlib.suppress(Exception):   # one listener's trouble is not the others'
                    changed()
