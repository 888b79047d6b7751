"""HTTP/2 passed on, not spoken.

A connection that opens with the HTTP/2 preface belongs to one origin, chosen by its first request. After that frames go both
ways as they come, with back-pressure. Only header blocks are looked into: a later stream for another authority gets 421 and
never reaches the origin. Because such a block is dropped, the two compression states would drift apart; so blocks are decoded
and written anew without the dynamic table, and what flows back is untouched.

`hpack` is imported by the first connection that needs it.
"""
import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

from serveplane.http import frames
from serveplane.http.errors import ConnectionLost
from serveplane.http.frames import FrameCutter, FrameError, FrameHead
from serveplane.http.headers import Headers, RawHeader
from serveplane.http.limits import KIB
from serveplane.http.messages import Peer, Request
from serveplane.http.origin import Origin
from serveplane.http.tls import ClientTls
from serveplane.http.tunnel import Tunnel

Choose = Callable[[Request], Awaitable[Origin | None]]
"""Where the connection goes, judged by its first request; None answers it with 404."""

BLOCK_BYTES = 64 * KIB
FRAGMENTS = 64             # frames one header block may come in
WAITING_BYTES = 256 * KIB  # what may arrive before the origin is connected
REFUSED_STREAMS = 1_000
TABLE_BYTES = 64 * KIB
HEADER_TABLE_SIZE = 1

_NAME = re.compile(rb":?[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_OF_CONNECTION = frozenset((b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"))


class Http2Proxy:
    """Hand it to `serve(http2=…)`."""

    def __init__(self, choose: Choose, *, tls: ClientTls | None = None, connect_seconds: float = 10.0, first_seconds: float = 75.0) -> None:
        self._choose = choose
        self._tls = tls or ClientTls()
        self._connect_seconds = connect_seconds
        self._first_seconds = first_seconds

    async def __call__(self, client: Tunnel, peer: Peer) -> None:
        upward = Upward(peer)
        try:
            await self._join(client, upward)
        except FrameError as error:
            await _farewell(client, frames.goaway(error.code))
        except ConnectionLost:
            pass
        finally:
            client.close()

    async def _join(self, client: Tunnel, upward: "Upward") -> None:
        try:
            async with asyncio.timeout(self._first_seconds):
                waiting = await _first_request(client, upward)
        except TimeoutError:
            raise FrameError(frames.NO_ERROR, "no request came") from None
        assert upward.first is not None
        origin = await self._choose(upward.first)
        if origin is None:
            await _farewell(client, upward.answer(404) + frames.goaway(frames.NO_ERROR, upward.highest))
            return
        try:
            async with asyncio.timeout(self._connect_seconds):
                upstream = await dial(origin, self._tls)
        except OSError:   # TimeoutError is one too
            await _farewell(client, upward.answer(503) + frames.goaway(frames.NO_ERROR, upward.highest))
            return
        await _exchange(client, upstream, upward, waiting)


async def dial(origin: Origin, tls: ClientTls) -> Tunnel:
    """A raw connection to an origin that speaks HTTP/2 at once (prior knowledge, or ALPN over TLS)."""
    loop, tunnel = asyncio.get_running_loop(), Tunnel()
    if origin.unix is not None:
        await loop.create_unix_connection(lambda: tunnel, origin.unix)
        return tunnel
    context, name = None, None
    if origin.scheme == "https":
        settings = origin.tls or tls
        context, name = settings.context(), settings.server_name or origin.host
        context.set_alpn_protocols(["h2"])
    await loop.create_connection(lambda: tunnel, origin.host, origin.port, ssl=context, server_hostname=name)
    return tunnel


async def _first_request(client: Tunnel, upward: "Upward") -> bytes:
    """Read up to the first complete header block; what is to be sent on once the origin is known."""
    if await client.read_exactly(len(frames.PREFACE)) != frames.PREFACE:
        raise FrameError(frames.PROTOCOL_ERROR, "no preface")
    await client.write(frames.frame(frames.SETTINGS, 0, 0))   # some clients send no request before they have seen settings
    waiting = bytearray(frames.PREFACE)
    while upward.first is None:
        data = await client.read()
        if not data:
            raise ConnectionLost("the client left before its first request")
        waiting += upward.feed(data)
        if len(waiting) > WAITING_BYTES:
            raise FrameError(frames.ENHANCE_YOUR_CALM, "too much before the first request")
    return bytes(waiting)


async def _exchange(client: Tunnel, upstream: Tunnel, upward: "Upward", waiting: bytes) -> None:
    downward = Downward(upward)

    async def up() -> None:
        await upstream.write(waiting)
        await _reply(client, downward, upward)
        while data := await client.read():
            out = upward.feed(data)
            await _reply(client, downward, upward)
            if out:
                await upstream.write(out)
        upstream.write_eof()

    async def down() -> None:
        while data := await upstream.read():
            await client.write(downward.feed(data))
        client.close()   # an HTTP/2 connection whose server left is over

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(up())
            group.create_task(down())
    except* ConnectionLost:
        pass
    except* FrameError as failed:
        raise failed.exceptions[0] from None
    finally:
        upstream.close()


async def _reply(client: Tunnel, downward: "Downward", upward: "Upward") -> None:
    replies, upward.replies = upward.replies, b""
    if replies:
        now = downward.inject(replies)
        if now:
            await client.write(now)


async def _farewell(client: Tunnel, data: bytes) -> None:
    with contextlib.suppress(ConnectionLost):
        await client.write(data)


class Upward:
    """Client to origin: frames pass, header blocks are read, foreign ones are answered here."""

    def __init__(self, peer: Peer) -> None:
        import hpack
        self._peer = peer
        self._cutter = FrameCutter(frozenset((frames.HEADERS, frames.CONTINUATION)), BLOCK_BYTES)
        self._decoder: Any = hpack.Decoder(max_header_list_size=BLOCK_BYTES)
        self._encoder: Any = hpack.Encoder()
        self._encoder.header_table_size = 0
        self._hpack_error: type[Exception] = hpack.HPACKError
        self._block: list[bytes] = []
        self._open: FrameHead | None = None     # the HEADERS whose CONTINUATIONs are still to come
        self._acked = False
        self._refused: set[int] = set()
        self._authority = b""
        self.first: Request | None = None
        self.highest = 0
        self.replies = b""
        """Frames for the client, made here."""

    def allow_table(self, size: int) -> None:
        """The origin told the client how large its compression table may be; ours must hold as much."""
        self._decoder.max_allowed_table_size = max(self._decoder.max_allowed_table_size, size)

    def feed(self, data: bytes) -> bytes:
        """What goes on to the origin."""
        out: list[bytes] = []
        for head, piece, first in self._cutter.cut(data):
            if self._open is not None and (head.kind != frames.CONTINUATION or head.stream != self._open.stream):
                raise FrameError(frames.PROTOCOL_ERROR, "a header block was interrupted")
            if head.kind == frames.HEADERS:
                self._open, self._block = head, [frames.block_of(head, piece)]
                out.append(self._continue(head))
            elif head.kind == frames.CONTINUATION:
                self._block.append(piece)
                out.append(self._continue(head))
            elif head.stream in self._refused:
                self._skip(head, piece)
            elif head.kind == frames.SETTINGS and head.flags & frames.ACK and not self._acked:
                self._acked = True   # it answers our own settings, which the origin never sent
            else:
                out += (_raw_head(head), piece) if first else (piece,)
        return b"".join(out)

    def _continue(self, head: FrameHead) -> bytes:
        opened = self._open
        if opened is None:
            raise FrameError(frames.PROTOCOL_ERROR, "a continuation of nothing")
        if len(self._block) > FRAGMENTS or sum(map(len, self._block)) > BLOCK_BYTES:
            raise FrameError(frames.ENHANCE_YOUR_CALM, "a header block is too long")
        if not head.flags & frames.END_HEADERS:
            return b""
        self._open = None
        try:
            fields = self._decoder.decode(b"".join(self._block), raw=True)
        except self._hpack_error as error:
            raise FrameError(frames.COMPRESSION_ERROR, str(error)) from None
        return self._headers(opened, fields)

    def _headers(self, head: FrameHead, fields: list[RawHeader]) -> bytes:
        stream, ended = head.stream, bool(head.flags & frames.END_STREAM)
        if stream > self.highest:
            self.highest = stream
            status = self._judge(fields)
            if status:
                self._refuse(stream, status, ended)
                return b""
        elif stream in self._refused:
            if ended:
                self._refused.discard(stream)
            return b""
        return frames.header_frames(stream, self._encoder.encode(fields, huffman=False), ended)

    def _judge(self, fields: list[RawHeader]) -> int:
        """The status to refuse a new stream with, or 0."""
        index: dict[bytes, bytes] = {}
        for name, value in fields:
            if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value) or name in _OF_CONNECTION:
                return 400
            if name in index and (name.startswith(b":") or name == b"host"):
                return 400
            index.setdefault(name, value)
        authority = index.get(b":authority", index.get(b"host", b""))
        if not authority or index.get(b"host", authority).lower() != authority.lower() or b":method" not in index or b":path" not in index:
            return 400
        if self.first is None:
            self._authority = authority.lower()
            self.first = self._request(index, fields, authority)
        return 0 if authority.lower() == self._authority else 421

    def _request(self, index: dict[bytes, bytes], fields: list[RawHeader], authority: bytes) -> Request:
        own = [(bytes(name), bytes(value)) for name, value in fields if not name.startswith(b":") and name != b"host"]
        headers = Headers.parsed([(b"host", authority), *own])
        return Request(index[b":method"].decode("latin-1"), index[b":path"].decode("latin-1"), headers, peer=self._peer)

    def answer(self, status: int) -> bytes:
        """A bodiless answer to the newest stream, in literals that leave the client's compression state alone."""
        return frames.header_frames(self.highest, b"\x08\x03%d" % status, end_stream=True)

    def _refuse(self, stream: int, status: int, ended: bool) -> None:
        self.replies += frames.header_frames(stream, b"\x08\x03%d" % status, end_stream=True)
        if ended:
            return
        self.replies += frames.frame(frames.RST_STREAM, 0, stream, frames.NO_ERROR.to_bytes(4, "big"))
        self._refused.add(stream)
        if len(self._refused) > REFUSED_STREAMS:
            raise FrameError(frames.ENHANCE_YOUR_CALM, "too many streams for other authorities")

    def _skip(self, head: FrameHead, piece: bytes) -> None:
        """Data of a refused stream still counts against the connection's window, which must be given back."""
        if head.kind == frames.DATA and piece:
            self.replies += frames.frame(frames.WINDOW_UPDATE, 0, 0, len(piece).to_bytes(4, "big"))
        if head.kind == frames.RST_STREAM:
            self._refused.discard(head.stream)


class Downward:
    """Origin to client: everything passes, and our own frames are put in between, never inside."""

    def __init__(self, upward: Upward) -> None:
        self._upward = upward
        self._cutter = FrameCutter(frozenset((frames.SETTINGS,)), 16 * KIB)
        self._in_block = False
        self._pending = b""

    def inject(self, data: bytes) -> bytes:
        """What may be sent at once; the rest waits for the next border between frames."""
        if self._cutter.at_border and not self._in_block:
            return data
        self._pending += data
        return b""

    def feed(self, data: bytes) -> bytes:
        out: list[bytes] = []
        for head, piece, first in self._cutter.cut(data):
            if first and not self._in_block and self._pending:
                out.append(self._pending)
                self._pending = b""
            if head.kind == frames.SETTINGS and not head.flags & frames.ACK:
                piece = self._settings(piece)
            if first and head.kind in (frames.HEADERS, frames.CONTINUATION):
                self._in_block = not head.flags & frames.END_HEADERS
            out += (_raw_head(head), piece) if first else (piece,)
        if self._pending and self._cutter.at_border and not self._in_block:
            out.append(self._pending)
            self._pending = b""
        return b"".join(out)

    def _settings(self, payload: bytes) -> bytes:
        """Keep the client's compression table within what we are ready to hold."""
        rewritten = bytearray(payload)
        for at in range(0, len(payload) - 5, 6):
            if int.from_bytes(payload[at:at + 2], "big") == HEADER_TABLE_SIZE:
                size = min(int.from_bytes(payload[at + 2:at + 6], "big"), TABLE_BYTES)
                rewritten[at + 2:at + 6] = size.to_bytes(4, "big")
                self._upward.allow_table(size)
        return bytes(rewritten)


def _raw_head(head: FrameHead) -> bytes:
    return head.length.to_bytes(3, "big") + bytes((head.kind, head.flags)) + head.stream.to_bytes(4, "big")
