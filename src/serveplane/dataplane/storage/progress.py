"""How far a download is: a bar on a terminal, otherwise one JSON line every few seconds.

The line is `{"storage": {"uri": …, "files": …, "bytes": …, "total": …, "bytesPerSecond": …, "etaSeconds": …}}` on
stderr: what a controller that reads the container's log shows in the status of the InferenceService.
"""
import sys
import threading
from typing import IO, Any

import msgspec

from serveplane.clock import SYSTEM, Clock

EVERY_SECONDS = 5.0
BAR_SECONDS = 0.2
BAR_WIDTH = 30


class Progress:
    """Counts from many threads, told by one. Use as a context."""

    def __init__(self, uri: str, output: IO[str] | None = None, clock: Clock = SYSTEM) -> None:
        self._uri, self._output, self._clock = uri, output if output is not None else sys.stderr, clock
        self._lock = threading.Lock()
        self._began = clock.monotonic()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.done = 0           # bytes that need no more reading
        self.read = 0           # bytes read by this run
        self.total: int | None = None
        self.files = 0
        self.all_files = 0

    def __enter__(self) -> "Progress":
        self._thread = threading.Thread(target=self._tell, name="progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._print(last=True)

    def expect(self, files: int, total: int | None, done: int = 0) -> None:
        with self._lock:
            self.all_files, self.total, self.done = files, total, done

    def add(self, count: int) -> None:
        with self._lock:
            self.done += count
            self.read += count

    def take_back(self, count: int) -> None:
        """Bytes that have to be read again."""
        with self._lock:
            self.done -= count

    def file_done(self) -> None:
        with self._lock:
            self.files += 1

    def snapshot(self) -> dict[str, Any]:
        seconds = max(self._clock.monotonic() - self._began, 1e-6)
        speed = self.read / seconds
        left = None if self.total is None else max(0, self.total - self.done)
        return {"uri": self._uri, "files": self.files, "allFiles": self.all_files, "bytes": self.done, "total": self.total,
                "bytesPerSecond": round(speed), "etaSeconds": None if left is None or not speed else round(left / speed, 1),
                "seconds": round(seconds, 3)}

    def _tell(self) -> None:
        bar = self._output.isatty()
        while not self._stop.wait(BAR_SECONDS if bar else EVERY_SECONDS):
            self._print(last=False)

    def _print(self, last: bool) -> None:
        snapshot = self.snapshot()
        if self._output.isatty():
            self._output.write("\r" + bar_line(snapshot) + ("\n" if last else ""))
        else:
            self._output.write(msgspec.json.encode({"storage": snapshot}).decode() + "\n")
        self._output.flush()


def bar_line(snapshot: dict[str, Any]) -> str:
    """One line for people.

    >>> bar_line({"bytes": 5_000_000, "total": 10_000_000, "bytesPerSecond": 1_000_000, "etaSeconds": 5.0})
    '[###############               ]  50 %  5.0 of 10.0 MB  1.0 MB/s  5 s left'
    """
    done, total, speed = snapshot["bytes"], snapshot["total"], snapshot["bytesPerSecond"]
    if total is None:
        return f"{done / 1e6:.1f} MB  {speed / 1e6:.1f} MB/s"
    share = done / total if total else 1.0
    bar = ("#" * int(share * BAR_WIDTH)).ljust(BAR_WIDTH)
    eta = f"  {snapshot['etaSeconds']:.0f} s left" if snapshot["etaSeconds"] is not None else ""
    return f"[{bar}] {share * 100:3.0f} %  {done / 1e6:.1f} of {total / 1e6:.1f} MB  {speed / 1e6:.1f} MB/s{eta}"
