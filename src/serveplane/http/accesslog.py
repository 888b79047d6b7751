"""One line per request, made off the hot path: requests leave a tuple behind, a thread turns batches of them into text."""
import asyncio
import datetime
import sys
from collections.abc import Callable

from serveplane.clock import SYSTEM, Clock, timestamp
from serveplane.http.messages import Request

Entry = tuple[float, str, str, str, str, int, int, float]
Sink = Callable[[bytes], object]


def stdout(lines: bytes) -> None:
    sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()


class AccessLog:
    """JSON lines to a sink, a batch at a time. When the sink cannot keep up entries are dropped and counted, never awaited."""

    def __init__(self, sink: Sink = stdout, *, every: float = 0.5, most: int = 20_000, clock: Clock = SYSTEM) -> None:
        self._sink = sink
        self._every = every
        self._most = most
        self._clock = clock
        self._entries: list[Entry] = []
        self._flushing: asyncio.Task[None] | None = None
        self.dropped = 0

    def add(self, request: Request, status: int, sent: int, seconds: float) -> None:
        if len(self._entries) >= self._most:
            self.dropped += 1
            return
        index = request.headers.index
        # The query stays out: tokens travel there.
        self._entries.append((self._clock.monotonic(), request.peer.address, index.get(b"host", b"").decode("latin-1"),
                              request.method, request.path, status, sent, seconds))
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._later(), name="access log")

    async def flush(self) -> None:
        """Everything noted so far is with the sink when this returns."""
        entries, self._entries = self._entries, []
        if entries:
            await asyncio.get_running_loop().run_in_executor(None, self._write, entries)

    async def _later(self) -> None:
        try:
            await self._clock.sleep(self._every)
            await self.flush()
        finally:
            self._flushing = None

    def _write(self, entries: list[Entry]) -> None:
        monotonic, now = self._clock.monotonic(), self._clock.now()
        from msgspec import json  # as in `messages`
        encoder = json.Encoder()
        lines = bytearray()
        for at, *rest in entries:
            moment = now - datetime.timedelta(seconds=monotonic - at)
            lines += encoder.encode(dict(zip(_KEYS, (timestamp(moment), *rest), strict=True)))
            lines += b"\n"
        self._sink(bytes(lines))


_KEYS = ("time", "peer", "host", "method", "path", "status", "bytes", "seconds")

