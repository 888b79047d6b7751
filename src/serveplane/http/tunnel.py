"""A connection after it stopped speaking HTTP/1.1: raw bytes both ways, with back-pressure, half-close and an end."""
import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import cast

from serveplane.http.errors import ConnectionLost

HIGH = 256 * 1024


class Tunnel(asyncio.Protocol):
    """A duplex byte stream over a transport that another protocol has let go of."""

    transport: asyncio.Transport

    def __init__(self, already: bytes = b"", on_lost: Callable[[], None] | None = None) -> None:
        self._pieces: deque[bytes] = deque([already] if already else [])
        self._size = len(already)
        self._on_lost = on_lost
        self._eof = False
        self._lost = False
        self._held = False
        self._write_paused = False
        self._reader: asyncio.Future[None] | None = None
        self._writers: set[asyncio.Future[None]] = set()

    @classmethod
    def over(cls, transport: asyncio.Transport, already: bytes = b"", on_lost: Callable[[], None] | None = None) -> "Tunnel":
        """Take a transport over from the protocol it had."""
        tunnel = cls(already, on_lost)
        tunnel.transport = transport
        transport.set_protocol(tunnel)
        if not transport.is_closing():
            transport.resume_reading()
        return tunnel

    async def read(self) -> bytes:
        """The next bytes, or b"" once the peer has sent its last."""
        while not self._pieces:
            if self._eof or self._lost:
                return b""
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        piece = self._pieces.popleft()
        self._size -= len(piece)
        if self._held and self._size <= HIGH // 2:
            self._held = False
            self.transport.resume_reading()
        return piece

    async def read_exactly(self, size: int) -> bytes:
        """Exactly that many bytes; ConnectionLost if the peer ends before."""
        have = bytearray()
        while len(have) < size:
            piece = await self.read()
            if not piece:
                raise ConnectionLost("the peer closed in the middle of a frame")
            have += piece
        self.unread(bytes(have[size:]))
        return bytes(have[:size])

    def unread(self, data: bytes) -> None:
        """Put bytes back in front, for the next reader."""
        if data:
            self._pieces.appendleft(data)
            self._size += len(data)

    async def write(self, data: bytes) -> None:
        """Send; returns once the transport can take more, so that a slow reader holds back its sender."""
        if self._lost or self.transport.is_closing():
            raise ConnectionLost("the peer closed the tunnel")
        self.transport.write(data)
        if self._write_paused:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._writers.add(waiter)
            try:
                await waiter
            finally:
                self._writers.discard(waiter)
            if self._lost:
                raise ConnectionLost("the peer closed the tunnel")

    def write_eof(self) -> None:
        """Say that no more will come, while still listening."""
        if self._lost or self.transport.is_closing():
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:   # TLS has no half-close worth the name
            self.transport.close()

    def close(self) -> None:
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > HIGH and not self._held:
            self._held = True
            self.transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self._eof = True
        _wake(self._reader)
        return self.transport.get_extra_info("sslcontext") is None   # keep our half open

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        for waiter in self._writers:
            _wake(waiter)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        _wake(self._reader)
        for waiter in self._writers:
            _wake(waiter)
        if self._on_lost is not None:
            self._on_lost()


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


async def copy(source: Tunnel, sink: Tunnel) -> None:
    """Everything from one to the other until the source's end, which is passed on."""
    while piece := await source.read():
        await sink.write(piece)
    sink.write_eof()


async def splice(one: Tunnel, other: Tunnel) -> None:
    """Join two tunnels until both directions have ended or either breaks; both are closed afterwards."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(copy(one, other))
            group.create_task(copy(other, one))
    except* ConnectionLost:
        pass
    finally:
        for tunnel in (one, other):
            with contextlib.suppress(Exception):
                tunnel.close()


