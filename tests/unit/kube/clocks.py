"""A clock whose time passes only when a test says so."""

import asyncio
import datetime
import heapq

from serveplane.clock import SystemClock

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class FakeClock(SystemClock):
    """Sleepers wake in order as `advance` moves the time; chance comes from a seed."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.time = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> datetime.datetime:
        return START + datetime.timedelta(seconds=self.time)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self._count += 1
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.time + seconds, self._count, future))
        await future

    async def advance(self, seconds: float) -> None:
        end = self.time + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            self.time = max(self.time, due)
            if not future.done():
                future.set_result(None)
            await settle()
        self.time = end
        await settle()


async def settle() -> None:
    """Let everything that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)
