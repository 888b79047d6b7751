"""A message body on its way in: fed by a connection, read by a handler, with the sender held back when it is too fast."""
import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Protocol

from serveplane.http.errors import ConnectionLost, HttpError, PayloadTooLarge


class Flow(Protocol):
    """The connection a body comes from."""

    def hold(self) -> None:
        """Stop reading from the socket: the reader is behind."""

    def go_on(self) -> None:
        """Read again."""

    def wanted(self) -> None:
        """The reader asks for the body for the first time (time to say 100 Continue)."""


class Body:
    """Pieces that have come and not been taken yet. One reader."""

    __slots__ = ("_done", "_error", "_flow", "_held", "_high", "_pieces", "_size", "_waiter", "discarding", "received")

    def __init__(self, flow: Flow, high: int) -> None:
        self._flow = flow
        self._high = high
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._held = False
        self._done = False
        self._error: HttpError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.discarding = False
        self.received = 0

    @property
    def complete(self) -> bool:
        """Whether the last byte has come (read or not)."""
        return self._done and self._error is None

    # the connection's side

    def feed(self, piece: bytes) -> None:
        self.received += len(piece)
        if self.discarding:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._high and not self._held:
            self._held = True
            self._flow.hold()
        self._wake()

    def finish(self) -> None:
        self._done = True
        self._wake()

    def fail(self, error: HttpError) -> None:
        if not self._done:
            self._done, self._error = True, error
            self._wake()

    def discard(self) -> None:
        """Nobody will read the rest: let it pass by."""
        self.discarding = True
        self._wake()   # a reader that is still there must not take the end of the skipping for the end of the body
        self._pieces.clear()
        self._size = 0
        self._release()

    # the reader's side

    async def read(self, limit: int) -> bytes:
        """Everything, or PayloadTooLarge as soon as it is clear that it is longer than `limit`."""
        pieces: list[bytes] = []
        size = 0
        while piece := await self.next():
            size += len(piece)
            if size > limit:
                raise PayloadTooLarge(limit)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def next(self) -> bytes:
        """The next piece as it came, or b"" at the end."""
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self.discarding:
                raise ConnectionLost("the rest of the body was skipped")
            if self._done:
                return b""
            self._flow.wanted()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        piece = self._pieces.popleft()
        self._size -= len(piece)
        if self._held and self._size <= self._high // 2:
            self._release()
        return piece

    def taken(self) -> bytes | None:
        """The whole body if it is already here, without waiting; None if some is still to come."""
        if not self._done or self._error is not None:
            return None
        pieces, self._pieces, self._size = self._pieces, deque(), 0
        self._release()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def stream(self) -> AsyncIterator[bytes]:
        while piece := await self.next():
            yield piece

    def _release(self) -> None:
        if self._held:
            self._held = False
            self._flow.go_on()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
