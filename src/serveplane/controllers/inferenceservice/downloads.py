"""Follows downloads that take long: the end of the log of each storage initializer that runs, now and then, and no other log.

Nothing is read while no pod loads a model, and a download that is over within the first turn costs no request. However many pods load,
a turn reads no more than so many of them, those that waited longest first.
"""
import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing

from serveplane.clock import Clock
from serveplane.kube.client import Client
from serveplane.kube.errors import Forbidden, KubeError
from serveplane.kube.informers import Informer
from serveplane.kube.kind import Key
from serveplane.kube.store import Item
from serveplane.objects import Json
from serveplane.render.names import STORAGE_INITIALIZER
from serveplane.status.downloads import Download, is_loading, last_progress

LOG = logging.getLogger(__name__)
INDEX = "loading"
EVERY_SECONDS = 10.0
MOST_PER_TURN, AT_ONCE = 100, 8
PATIENCE, REFUSED_SECONDS = 5.0, 600.0
LAST_LINES, LONGEST_LOG = 5, 64 * 1024


def loading(pod: Item) -> Iterable[str]:
    """The index of pods whose model is being downloaded."""
    return [INDEX] if is_loading(pod.object) else []


class Downloads:
    """The last report of each download that is known."""

    def __init__(self, client: Client, pods: Informer, told: Callable[[Key], None], clock: Clock) -> None:
        self._client = client
        self._pods = pods
        self._told = told
        self._clock = clock
        self._known: dict[Key, Download] = {}
        self._waiting: dict[Key, int] = {}     # pods that load, and in which turn they were last read
        self._turn = 0
        self._silent_until = 0.0

    def of(self, pods: Iterable[Json]) -> Mapping[str, Download]:
        """By the name of the pod."""
        keys = (Key(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods)
        return {key.name: self._known[key] for key in keys if key in self._known}

    async def follow(self) -> None:
        while True:
            await self._clock.sleep(EVERY_SECONDS)
            await self.look()

    async def look(self) -> None:
        """One turn."""
        if self._clock.monotonic() < self._silent_until:
            return
        self._turn += 1
        loading = self._pods.keys_by_index(INDEX, INDEX)
        self._waiting = {key: self._waiting.get(key, 0) for key in loading}
        self._known = {key: known for key, known in self._known.items() if key in self._waiting}
        chosen = sorted(loading, key=lambda key: self._waiting[key])[:MOST_PER_TURN]
        turns = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for key in chosen:
                group.create_task(self._read(key, turns), name="download progress")

    async def _read(self, pod: Key, turns: asyncio.Semaphore) -> None:
        async with turns:
            self._waiting[pod] = self._turn
            found = last_progress(await self._end_of_log(pod))
        if found is not None and found != self._known.get(pod):
            self._known[pod] = found
            self._told(pod)

    async def _end_of_log(self, pod: Key) -> bytes:
        """Empty when it cannot be had: progress is worth no error."""
        end = bytearray()
        try:
            async with asyncio.timeout(PATIENCE), aclosing(self._client.logs(
                    pod.name, pod.namespace, container=STORAGE_INITIALIZER, tail=LAST_LINES)) as chunks:
                async for chunk in chunks:
                    end += chunk
                    if len(end) > LONGEST_LOG:
                        break
        except Forbidden as error:   # roles of another installation: said once in a while, and not tried all the time
            LOG.info("the progress of downloads is not told: %s", error, extra={"object": str(pod)})
            self._silent_until = self._clock.monotonic() + REFUSED_SECONDS
            return b""
        except (KubeError, TimeoutError) as error:
            LOG.debug("the log of a download cannot be read: %s", error, extra={"object": str(pod)})
            return b""
        return bytes(end)


def pods_in(by_workload: Mapping[str, Sequence[Json]]) -> Iterable[Json]:
    return (pod for pods in by_workload.values() for pod in pods)
