"""The sending half of a server connection: one answer after another, held back when the reader is slow."""
import asyncio
import types
from collections.abc import AsyncIterable, Generator

from serveplane.http import wire
from serveplane.http.errors import ConnectionLost
from serveplane.http.messages import Request, Response

TURN_BYTES = 1024 * 1024     # after so much of one answer other connections get a turn
COALESCE_BYTES = 64 * 1024   # up to here head and body are joined: one copy is cheaper than a second write


@types.coroutine
def turn() -> Generator[None, None, None]:
    """One turn of the loop."""
    yield


class LengthMismatch(Exception):
    """A stream gave more or fewer bytes than its Content-Length said; the connection cannot be kept."""


class Output:
    """Writes answers to a transport and knows whether it may write more."""

    __slots__ = ("_drained", "_unbroken", "paused", "sent", "transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.paused = False
        self.sent = 0
        self._unbroken = 0
        self._drained: asyncio.Future[None] | None = None

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def whole(self, request: Request, response: Response, body: bytes, keep: bool, date: bytes) -> None:
        """An answer whose body is all there: one write."""
        status = response.status
        head = _unchanged(request, response, len(body), keep)
        if head is not None:
            self.sent = len(body)
            self.transport.write(head + body)
            return
        if status in wire.NO_BODY:
            framing, body = b"", b""
        elif request.method == "HEAD":
            declared = response.headers.index.get(b"content-length")
            framing, body = b"Content-Length: %b\r\n" % (declared or b"%d" % len(body)), b""
        else:
            framing = b"Content-Length: %d\r\n" % len(body)
        head = wire.response_head(status, response.headers, framing + _connection(request, keep), date)
        self.sent = len(body)
        if len(body) <= COALESCE_BYTES:
            self.transport.write(head + body)
        else:
            self.transport.write(head)
            self.transport.write(body)

    async def stream(self, request: Request, response: Response, pieces: AsyncIterable[bytes], keep: bool, date: bytes) -> bool:
        """An answer sent as it comes; whether the connection can be kept afterwards."""
        declared = response.headers.index.get(b"content-length")
        bodiless = request.method == "HEAD" or response.status in wire.NO_BODY
        if declared is not None:
            framing = b"Content-Length: %b\r\n" % declared
        elif request.http10:
            framing, keep = b"", keep and bodiless
        else:
            framing = b"Transfer-Encoding: chunked\r\n"
        if response.status in wire.NO_BODY:
            framing = b""
        self.transport.write(wire.response_head(response.status, response.headers, framing + _connection(request, keep), date))
        self.sent = 0
        if bodiless:
            return keep
        if declared is not None:
            await self._counted(pieces, int(declared))
        elif request.http10:
            await self._raw(pieces)
        else:
            await self._chunked(pieces)
        return keep

    async def _chunked(self, pieces: AsyncIterable[bytes]) -> None:
        write = self.transport.write
        async for piece in pieces:
            size = len(piece)
            if not size:
                continue   # an empty chunk would end the body
            if size <= COALESCE_BYTES:
                write(b"%x\r\n%b\r\n" % (size, piece))
            else:
                self.transport.writelines((b"%x\r\n" % size, piece, b"\r\n"))
            self.sent += size
            await self._room(size)
        write(wire.LAST_CHUNK)

    async def _counted(self, pieces: AsyncIterable[bytes], length: int) -> None:
        async for piece in pieces:
            self.sent += len(piece)
            if self.sent > length:
                raise LengthMismatch(f"the stream is longer than its Content-Length of {length}")
            await self.raw(piece)
        if self.sent < length:
            raise LengthMismatch(f"the stream ended {length - self.sent} bytes before its Content-Length")

    async def _raw(self, pieces: AsyncIterable[bytes]) -> None:
        async for piece in pieces:
            self.sent += len(piece)
            await self.raw(piece)

    async def raw(self, piece: bytes) -> None:
        self.transport.write(piece)
        await self._room(len(piece))

    async def _room(self, size: int) -> None:
        """Wait for a slow reader; and even for a fast one let others have a turn, for a generator may never wait for anything."""
        if self.transport.is_closing():
            raise ConnectionLost("the client went away")
        self._unbroken += size
        if self.paused:
            self._unbroken = 0
            await self.drained()
        elif self._unbroken > TURN_BYTES:
            self._unbroken = 0
            await turn()

    async def drained(self) -> None:
        """Until the transport can take more. A lost connection cancels whoever waits here."""
        self._drained = asyncio.get_running_loop().create_future()
        try:
            await self._drained
        finally:
            self._drained = None


def _unchanged(request: Request, response: Response, size: int, keep: bool) -> bytes | None:
    """The head as the origin sent it, if nothing in it has to change: the usual answer through a proxy."""
    headers = response.headers
    if headers.block is None or not keep or size > COALESCE_BYTES:
        return None
    if request.method == "HEAD" or request.http10 or response.status in wire.NO_BODY:
        return None
    index = headers.index
    if b"date" not in index or index.get(b"content-length") != b"%d" % size or not wire.CONNECTION_FIELDS.isdisjoint(index):
        return None
    return b"".join((wire.status_line(response.status), headers.block, b"\r\n"))


def _connection(request: Request, keep: bool) -> bytes:
    if not keep:
        return b"Connection: close\r\n"
    return b"Connection: keep-alive\r\n" if request.http10 else b""
