"""What `serveplane up` prints while it works: one line per step, with the time it took."""
import sys
from typing import TextIO

from serveplane.clock import SYSTEM, Clock


class Progress:
    def __init__(self, clock: Clock = SYSTEM, out: TextIO | None = None) -> None:
        self._clock = clock
        self._out = out or sys.stdout
        self._began = clock.monotonic()
        self.times: dict[str, float] = {}

    def step(self, text: str, name: str = "") -> None:
        seconds = self._clock.monotonic() - self._began
        if name:
            self.times[name] = seconds
        self.say(f"  {seconds:5.1f} s  {text}")

    def say(self, text: str = "") -> None:
        print(text, file=self._out, flush=True)
