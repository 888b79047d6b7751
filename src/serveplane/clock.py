"""Time, chance and waiting, handed in everywhere so that the whole system can run on a simulated clock.

Nothing else in the package may call `time`, `datetime.now`, `random`, `uuid4`, `secrets` or `asyncio.sleep`; a test keeps that.
"""
import contextlib
import datetime
import random
import time
import uuid
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


class Clock(Protocol):
    """What a component may know of time and chance."""

    def now(self) -> datetime.datetime:
        """The time of day, in UTC."""

    def monotonic(self) -> float:
        """Seconds that only ever grow; for deadlines and durations."""

    async def sleep(self, seconds: float) -> None: ...

    def random(self) -> float:
        """A number in [0, 1), for jitter and shares."""

    def uuid(self) -> str: ...

    def letters(self, length: int) -> str:
        """A suffix as Kubernetes generates it for names."""


# Kubernetes leaves vowels and look-alikes out, so that no word and no misreading arises.
NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class SystemClock:
    """The real thing."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)

    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)

    monotonic = staticmethod(time.monotonic)   # asked several times per request: no call in between

    async def sleep(self, seconds: float) -> None:
        import asyncio  # here, so that programs of threads alone (the storage initializer) start without it
        await asyncio.sleep(seconds)

    def random(self) -> float:
        return self._random.random()

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def letters(self, length: int) -> str:
        return "".join(self._random.choices(NAME_LETTERS, k=length))


SYSTEM = SystemClock()


def timestamp(moment: datetime.datetime) -> str:
    """A moment as Kubernetes writes `metav1.Time`: whole seconds.

    >>> timestamp(datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC))
    '2026-01-02T03:04:05Z'
    """
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime.datetime) -> str:
    """A moment as Kubernetes writes `metav1.MicroTime`, as leases and events have it."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> datetime.datetime:
    """Either of the two forms, read back."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


async def wait_until(event: "asyncio.Event", seconds: float) -> bool:
    """Wait for the event at most that long; whether it came."""
    import asyncio
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
