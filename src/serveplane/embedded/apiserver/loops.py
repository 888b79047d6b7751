"""The loops of the server itself: woken by committed changes, each works until nothing is left to do.

None ends before the server does: what cannot be done now (the disk is full, a webhook says no) is tried again after a pause.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from serveplane.embedded.store import Conflict, LogError

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

PAUSE = 1.0


class Loop:
    """One loop. `start` looks at everything once, `wake` says that there may be work, `drain` does it."""

    def __init__(self, core: "Core") -> None:
        self._core = core
        self._awake = asyncio.Event()
        self._postponed: list[Callable[[], None]] = []
        self._pausing: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.wake()

    def wake(self) -> None:
        self._awake.set()

    def postpone(self, work: Callable[[], None]) -> None:
        """Call this after a pause; what else there is to do does not wait for it."""
        self._postponed.append(work)
        if self._pausing is None:
            self._pausing = asyncio.create_task(self._pause())

    async def _pause(self) -> None:
        await self._core.clock.sleep(PAUSE)
        self._pausing = None
        postponed, self._postponed = self._postponed, []
        for work in postponed:
            work()

    async def run(self) -> None:
        try:
            while True:
                await self._awake.wait()
                self._awake.clear()
                await self._drain_safely()
        finally:
            if self._pausing is not None:
                self._pausing.cancel()

    async def _drain_safely(self) -> None:
        try:
            await self.drain()
        except Exception as error:
            self._core.log.error("%s: %s", type(self).__name__, error, exc_info=not isinstance(error, LogError))
            self.postpone(self.wake)

    async def drain(self) -> None:
        raise NotImplementedError


class QueuedLoop(Loop):
    """A loop over names that are to be looked at; one whose work was disturbed is looked at again."""

    def __init__(self, core: "Core") -> None:
        super().__init__(core)
        self._queue: set[str] = set()

    def enqueue(self, name: str) -> None:
        self._queue.add(name)
        self.wake()

    async def drain(self) -> None:
        while self._queue:
            name = self._queue.pop()
            try:
                await self.look_at(name)
            except Conflict:
                self._queue.add(name)
            except Exception:
                self._queue.add(name)
                raise
            await self._core.clock.sleep(0)

    async def look_at(self, name: str) -> None:
        raise NotImplementedError
