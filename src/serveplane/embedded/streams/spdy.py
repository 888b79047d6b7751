"""SPDY/3.1 as Kubernetes' clients speak it: many streams over one pipe, the server's half.

No flow control, as those clients have none: a stream that is not read holds its whole session back. Bounded: the size of a frame,
of a head once unpacked, of what waits in a stream, and how many streams there are.
"""

import asyncio
import struct
import zlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

UPGRADE = "SPDY/3.1"
COMMANDS = "v4.channel.k8s.io"
"""How commands in containers use the streams; both ends name it."""
VERSION = 0x8003
SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY, HEADERS = 1, 2, 3, 6, 7, 8
FLAG_FIN = 1
PROTOCOL_ERROR, REFUSED_STREAM, CANCEL = 1, 3, 5
FRAME_BYTES = 256 << 10
HEAD_BYTES = 64 << 10
WAITING_BYTES = 128 << 10
STREAMS = 512
_ID = 0x7FFFFFFF
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow authorization "
    "cache-control connection content-base content-encoding content-language content-length content-location content-md5 "
    "content-range content-type date etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer "
    "retry-after server te trailer transfer-encoding upgrade user-agent vary via warning www-authenticate method get status"
)
_MORE = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative Information"
    "204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error"
    "501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, "
    "Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in (*_WORDS.split(), *_MORE)) + _TAIL.encode()
)
"""What both sides' compressors know from the start (SPDY draft 3, 2.6.10.1)."""


def is_asked(headers: Mapping[str, str]) -> bool:
    """Whether a request, with the names of its headers in lower case, wants to go on in SPDY."""
    return headers.get("upgrade", "").lower() == UPGRADE.lower()


class Pipe(Protocol):
    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...


class SpdyError(Exception):
    """The peer does not speak SPDY, or too much of it: the session ends."""


class StreamReset(Exception):
    """One stream was given up, by the peer or with its session."""


class Stream:
    """One stream that the peer has opened."""

    def __init__(self, session: "Session", number: int, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self.number = number
        self._session = session
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = self._reset = self._finished = False
        self._changed = asyncio.Event()

    async def read(self) -> bytes:
        """The next bytes, or b"" after the peer's last."""
        while not self._pieces:
            if self._reset:
                raise StreamReset
            if self._ended:
                return b""
            await self._change()
        piece = self._pieces.popleft()
        self._size -= len(piece)
        self._changed.set()
        return piece

    async def write(self, data: bytes) -> None:
        if self._reset or self._finished:
            raise StreamReset
        await self._session.send_data(self.number, data)

    async def finish(self) -> None:
        """No more will be written."""
        if not self._finished and not self._reset:
            self._finished = True
            await self._session.send_data(self.number, b"", FLAG_FIN)
            self._leave()

    async def feed(self, data: bytes, last: bool) -> None:
        """The session's side; waits while too much is unread."""
        while self._size > WAITING_BYTES and not self._reset and not self._finished:
            await self._change()
        if data and not self._finished:  # after our own end nobody reads any more
            self._pieces.append(data)
            self._size += len(data)
        self._ended = self._ended or last
        self._changed.set()
        self._leave()

    def give_up(self) -> None:
        self._reset = True
        self._pieces.clear()
        self._changed.set()

    def _leave(self) -> None:
        if self._ended and self._finished:
            self._session.forget(self.number)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class Session:
    """`async for stream in session.streams()` runs it: streams as the peer opens them, until the pipe ends."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._buffer = bytearray()
        self._streams: dict[int, Stream] = {}
        self._unpack = zlib.decompressobj(zdict=DICTIONARY)
        self._pack = zlib.compressobj(zdict=DICTIONARY)

    async def streams(self) -> AsyncIterator[Stream]:
        try:
            while (head := await self._take(8)) is not None:
                first, size = struct.unpack(">II", head)
                flags, size = size >> 24, size & 0xFFFFFF
                if size > FRAME_BYTES:
                    raise SpdyError(f"a frame of {size} bytes")
                body = await self._take(size)
                if body is None:
                    return
                if not first & 0x80000000:
                    await self._data(first, flags, body)
                elif stream := await self._control(first, flags, body):
                    yield stream
        finally:
            for stream in self._streams.values():
                stream.give_up()
            self._streams.clear()

    async def send_data(self, number: int, data: bytes, flags: int = 0) -> None:
        await self._pipe.write(struct.pack(">II", number, flags << 24 | len(data)) + data)

    async def reset(self, number: int, why: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            stream.give_up()
        await self._send(RST_STREAM, struct.pack(">II", number, why))

    def forget(self, number: int) -> None:
        self._streams.pop(number, None)

    async def _take(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            piece = await self._pipe.read()
            if not piece:
                return None
            self._buffer += piece
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    async def _data(self, number: int, flags: int, body: bytes) -> None:
        stream = self._streams.get(number)
        if stream is not None:  # else it is over on our side already
            await stream.feed(body, bool(flags & FLAG_FIN))

    async def _control(self, first: int, flags: int, body: bytes) -> Stream | None:
        if first >> 16 != VERSION:
            raise SpdyError(f"version {first >> 16 & 0x7FFF}")
        kind = first & 0xFFFF
        if kind == SYN_STREAM:
            return await self._opened(flags, body)
        if kind == PING:
            await self._send(PING, body)
        elif kind == RST_STREAM:
            stream = self._streams.pop(_number(body), None)
            if stream is not None:
                stream.give_up()
        elif kind in (SYN_REPLY, HEADERS):  # both sides' compressors must stay in step
            self._headers(body[4:])
        return None

    async def _opened(self, flags: int, body: bytes) -> Stream | None:
        number, headers = _number(body), self._headers(body[10:])
        if number in self._streams or not number % 2:
            raise SpdyError(f"stream {number} cannot be opened")
        if len(self._streams) >= STREAMS:
            await self.reset(number, REFUSED_STREAM)
            return None
        stream = self._streams[number] = Stream(self, number, headers)
        if flags & FLAG_FIN:
            await stream.feed(b"", True)
        packed = self._pack.compress(struct.pack(">I", 0)) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        await self._send(SYN_REPLY, struct.pack(">I", number) + packed)
        return stream

    async def _send(self, kind: int, body: bytes) -> None:
        await self._pipe.write(struct.pack(">HHI", VERSION, kind, len(body)) + body)

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            data = self._unpack.decompress(block, HEAD_BYTES)
        except zlib.error as error:
            raise SpdyError(str(error)) from None
        if self._unpack.unconsumed_tail:
            raise SpdyError("a head that is too large")
        return _pairs(data)


def _number(body: bytes) -> int:
    if len(body) < 4:
        raise SpdyError("a frame that is too short")
    return int.from_bytes(body[:4], "big") & _ID


def _pairs(data: bytes) -> dict[str, str]:
    """Names and values, each with its length in front.

    >>> _pairs(bytes([0, 0, 0, 1, 0, 0, 0, 1]) + b"a" + bytes([0, 0, 0, 2]) + b"bc")
    {'a': 'bc'}
    """
    texts: list[str] = []
    at, count = 4, int.from_bytes(data[:4], "big")
    while len(texts) < 2 * count:
        size = int.from_bytes(data[at : at + 4], "big")
        if at + 4 + size > len(data):
            raise SpdyError("a head that is cut short")
        texts.append(data[at + 4 : at + 4 + size].decode("latin-1"))
        at += 4 + size
    return dict(zip(texts[::2], texts[1::2], strict=True))
