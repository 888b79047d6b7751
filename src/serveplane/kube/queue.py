"""The work queue of a controller: each key at most once at a time, people before routine.

A key that is added while it is being worked on comes back once that is done. What a user just changed overtakes what a
resync merely wants looked at again. Failures come back after a growing, jittered pause.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Hashable
from enum import IntEnum
from typing import Generic, TypeVar

from serveplane.clock import Clock
from serveplane.kube.metrics import DECADES, Registry
from serveplane.kube.retry import Backoff

K = TypeVar("K", bound=Hashable)

FAILURES = Backoff(first=0.01, longest=120.0)


class Priority(IntEnum):
    USER = 0  # someone changed something
    ROUTINE = 1  # first list after a start, resync


class Closed(Exception):
    """The queue takes and gives no more work."""


class Queue(Generic[K]):
    def __init__(self, name: str, clock: Clock, registry: Registry | None = None, backoff: Backoff = FAILURES) -> None:
        self._clock = clock
        self._backoff = backoff
        self._metrics = _Metrics(name, registry or Registry(), clock)
        self._lanes: tuple[deque[K], deque[K]] = (deque(), deque())
        self._waiting: dict[K, Priority] = {}  # what is to be handed out, and from which lane
        self._again: dict[K, Priority] = {}  # added while being worked on
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._due: dict[K, tuple[float, Priority]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0  # orders equal times without comparing keys
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = float("inf")
        self._readers: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: K, priority: Priority = Priority.USER) -> None:
        if self._closed:
            return
        if key in self._working:
            self._again[key] = min(priority, self._again.get(key, priority))
            return
        known = self._waiting.get(key)
        if known is not None and known <= priority:
            return
        # A key that moves up leaves its old place behind; `_next` skips it there.
        self._waiting[key] = priority
        self._lanes[priority].append(key)
        if known is None:
            self._metrics.added(key, len(self._waiting))
        self._wake()

    def add_after(self, key: K, seconds: float, priority: Priority = Priority.USER) -> None:
        """Add later; of several wishes for one key the earliest counts."""
        if seconds <= 0:
            self.add(key, priority)
            return
        due = self._clock.monotonic() + seconds
        if self._closed or (key in self._due and self._due[key][0] <= due):
            return
        self._due[key] = (due, priority)
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, key))
        self._set_timer()

    def add_failed(self, key: K, at_least: float = 0.0) -> float:
        """Add after the pause this key's failures in a row have earned; says how long that is."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._metrics.retries.inc(*self._metrics.labels)
        pause = max(at_least, self._backoff.delay(failures, self._clock))
        self.add_after(key, pause)
        return pause

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure is its first, and whatever it was to come back for later has been looked at."""
        self._failures.pop(key, None)
        self._due.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key; the caller must say `done` when it has worked on it."""
        while True:
            if self._closed:
                raise Closed
            key = self._next()
            if key is not None:
                self._working.add(key)
                self._metrics.started(key, len(self._waiting))
                return key
            reader = asyncio.get_running_loop().create_future()
            self._readers.append(reader)
            try:
                await reader
            except asyncio.CancelledError:
                if reader.done() and not reader.cancelled():
                    self._wake()  # the wake-up was ours but we leave: pass it on
                raise

    def done(self, key: K) -> None:
        self._working.discard(key)
        self._metrics.finished(key)
        again = self._again.pop(key, None)
        if again is not None:
            self.add(key, again)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        while self._readers:
            self._wake()

    @property
    def is_idle(self) -> bool:
        """Nothing is waiting or being worked on (delayed keys aside)."""
        return not self._waiting and not self._working

    def _next(self) -> K | None:
        for priority, lane in zip(Priority, self._lanes, strict=True):
            while lane:
                key = lane.popleft()
                if self._waiting.get(key) == priority:
                    del self._waiting[key]
                    return key
        return None

    def _wake(self) -> None:
        while self._readers:
            reader = self._readers.popleft()
            if not reader.done():
                reader.set_result(None)
                return

    def _set_timer(self) -> None:
        if not self._heap or (self._timer is not None and self._timer_at <= self._heap[0][0]):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._heap[0][0]
        self._timer = asyncio.get_running_loop().create_task(self._ring(self._timer_at), name="queue timer")

    async def _ring(self, due: float) -> None:
        await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
        self._timer, self._timer_at = None, float("inf")
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now:
            moment, _, key = heapq.heappop(self._heap)
            wish = self._due.get(key)
            if wish is not None and wish[0] == moment:  # else an earlier wish was fulfilled already
                del self._due[key]
                self.add(key, wish[1])
        self._set_timer()


class _Metrics:
    """client-go's workqueue series, labelled as controller-runtime labels them."""

    def __init__(self, name: str, registry: Registry, clock: Clock) -> None:
        self.labels = (name, name)
        self._clock = clock
        self._queued: dict[Hashable, float] = {}
        self._running: dict[Hashable, float] = {}
        names = ("name", "controller")
        self._depth = registry.gauge("workqueue_depth", "Current depth of workqueue.", *names)
        self._adds = registry.counter("workqueue_adds_total", "Total number of adds handled by workqueue.", *names)
        self.retries = registry.counter(
            "workqueue_retries_total", "Total number of retries handled by workqueue.", *names
        )
        self._waited = registry.histogram(
            "workqueue_queue_duration_seconds",
            "How long an item stays in workqueue before being requested.",
            *names,
            buckets=DECADES,
        )
        self._worked = registry.histogram(
            "workqueue_work_duration_seconds",
            "How long processing an item from workqueue takes.",
            *names,
            buckets=DECADES,
        )
        self._unfinished = registry.gauge(
            "workqueue_unfinished_work_seconds", "Seconds of work in progress, summed.", *names
        )
        self._longest = registry.gauge(
            "workqueue_longest_running_processor_seconds", "Age of the oldest work in progress.", *names
        )
        self._depth.set(0, *self.labels)
        self._adds.inc(*self.labels, by=0)
        self.retries.inc(*self.labels, by=0)
        registry.on_collect(self._collect)

    def added(self, key: Hashable, depth: int) -> None:
        self._adds.inc(*self.labels)
        self._depth.set(depth, *self.labels)
        self._queued.setdefault(key, self._clock.monotonic())

    def started(self, key: Hashable, depth: int) -> None:
        now = self._clock.monotonic()
        self._depth.set(depth, *self.labels)
        self._waited.observe(now - self._queued.pop(key, now), *self.labels)
        self._running[key] = now

    def finished(self, key: Hashable) -> None:
        now = self._clock.monotonic()
        self._worked.observe(now - self._running.pop(key, now), *self.labels)

    def _collect(self) -> None:
        now = self._clock.monotonic()
        ages = [now - started for started in self._running.values()]
        self._unfinished.set(sum(ages), *self.labels)
        self._longest.set(max(ages, default=0.0), *self.labels)
