"""How long all of it may take: listings, reads and pauses of every model that one command brings."""
from serveplane.clock import SYSTEM, Clock
from serveplane.dataplane.storage.errors import DeadlineOver


class Deadline:
    """Begins when it is made; None never ends."""

    def __init__(self, seconds: float | None, clock: Clock = SYSTEM) -> None:
        self._seconds, self._clock = seconds, clock
        self._until = float("inf") if seconds is None else clock.monotonic() + seconds

    def check(self) -> None:
        if self._clock.monotonic() > self._until:
            raise DeadlineOver(f"the download did not finish within {self._seconds:g} s")

    def left(self) -> float:
        return self._until - self._clock.monotonic()
