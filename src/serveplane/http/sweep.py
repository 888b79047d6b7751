"""Deadlines without timers: connections write down when they expire, and one periodic look finds those that have.

A timer per request would cost more than parsing it. Here setting a deadline is an assignment; a sweep over ten thousand
connections takes about a millisecond and happens only while there is something to watch.
"""
import asyncio
from typing import Protocol

from serveplane.clock import Clock

NEVER = float("inf")
SHORTEST = 0.02   # seconds between two looks


class Expiring(Protocol):
    deadline: float

    def expire(self, now: float) -> None:
        """The deadline passed; set another or close."""


class Sweeper:
    """Looks at its members every `tick` seconds, as long as it has any; sooner when a short deadline was announced."""

    __slots__ = ("_clock", "_due", "_handle", "_loop", "_tick", "members")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, tick: float) -> None:
        self._loop = loop
        self._clock = clock
        self._tick = tick
        self._handle: asyncio.TimerHandle | None = None
        self._due = NEVER
        self.members: set[Expiring] = set()

    def add(self, member: Expiring) -> None:
        self.members.add(member)
        if self._handle is None:
            self._arm(self._tick)

    def soon(self, delay: float) -> None:
        """Somebody set a deadline that the usual rhythm would miss."""
        if self._clock.monotonic() + delay < self._due:
            self.stop()
            self._arm(delay)

    def discard(self, member: Expiring) -> None:
        self.members.discard(member)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, delay: float) -> None:
        self._due = self._clock.monotonic() + delay
        self._handle = self._loop.call_later(delay, self._sweep)

    def _sweep(self) -> None:
        self._handle = None
        now = self._clock.monotonic()
        for member in [member for member in self.members if member.deadline <= now]:
            member.expire(now)
        if self.members and self._handle is None:
            nearest = min(member.deadline for member in self.members)
            self._arm(min(max(nearest - now, SHORTEST), self._tick))
