"""Port forwarding's protocols, byte by byte: a client made here speaks them, properly and not."""

import asyncio
import random
import struct
import zlib
from collections.abc import AsyncIterator

import pytest

from serveplane.embedded.apiserver.streams.portforward import Socket, forward
from serveplane.embedded.streams import spdy, websocket
from serveplane.http import ConnectionLost
from tests.counts import SEED


class Wire:
    """A pipe whose other end is the test."""

    def __init__(self, *sent: bytes, open_: bool = False) -> None:
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()
        self.answered = b""
        self.changed = asyncio.Event()
        for piece in sent:
            self.sent.put_nowait(piece)
        if not open_:
            self.sent.put_nowait(b"")

    async def read(self) -> bytes:
        return await self.sent.get()

    async def write(self, data: bytes) -> None:
        self.answered += data
        self.changed.set()


class Peer:
    """The client's half: frames with one compressor, as the protocol wants."""

    def __init__(self) -> None:
        self._pack = zlib.compressobj(zdict=spdy.DICTIONARY)

    def opened(self, number: int, headers: dict[str, str], flags: int = 0) -> bytes:
        block = struct.pack(">I", len(headers))
        for text in (text for pair in headers.items() for text in pair):
            block += struct.pack(">I", len(text)) + text.encode()
        packed = self._pack.compress(block) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        return control(spdy.SYN_STREAM, struct.pack(">IIH", number, 0, 0) + packed, flags)

    def request(self, number: int, port: str = "80") -> bytes:
        head = {"port": port, "requestid": str(number)}
        return self.opened(number, {"streamtype": "error", **head}, spdy.FLAG_FIN) + self.opened(
            number + 2, {"streamtype": "data", **head}
        )


def control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", spdy.VERSION, kind, flags << 24 | len(body)) + body


def data(number: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">II", number, flags << 24 | len(body)) + body


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """Says everything back once it has heard the end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(-1))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def no_pod(port: int) -> Socket:
    raise ConnectionRefusedError(f"nobody at {port}")


async def heard(wire: Wire, text: bytes) -> None:
    async with asyncio.timeout(20):
        while text not in wire.answered:
            wire.changed.clear()
            await wire.changed.wait()


async def test_a_connection_there_and_back(echo: int) -> None:
    async def dial(port: int) -> Socket:
        assert port == 80
        return await asyncio.open_connection("127.0.0.1", echo)

    peer, wire = Peer(), Wire(open_=True)
    wire.sent.put_nowait(peer.request(1) + data(3, b"hel") + data(3, b"lo", spdy.FLAG_FIN))
    async with asyncio.timeout(20):
        running = asyncio.create_task(forward(wire, dial))
        await heard(wire, data(3, b"hello") + data(3, b"", spdy.FLAG_FIN) + data(1, b"", spdy.FLAG_FIN))
        wire.sent.put_nowait(control(spdy.PING, b"\0\0\0\7"))
        await heard(wire, control(spdy.PING, b"\0\0\0\7"))
        wire.sent.put_nowait(b"")
        await running


async def test_trouble_is_told_on_the_error_stream() -> None:
    wire = Wire(Peer().request(1), open_=True)
    running = asyncio.create_task(forward(wire, no_pod))
    await heard(wire, b"nobody at 80")
    wire.sent.put_nowait(b"")
    await running


async def test_streams_that_mean_nothing_are_reset() -> None:
    peer, wire = Peer(), Wire(open_=True)
    wrong = [{"streamtype": "other", "port": "80"}, {"streamtype": "data", "port": "99999999999"}, {}]
    wire.sent.put_nowait(b"".join(peer.opened(2 * index + 1, headers) for index, headers in enumerate(wrong)))
    running = asyncio.create_task(forward(wire, no_pod))
    for number in (1, 3, 5):
        await heard(wire, control(spdy.RST_STREAM, struct.pack(">II", number, spdy.PROTOCOL_ERROR)))
    wire.sent.put_nowait(b"")
    await running


async def test_more_streams_than_allowed_are_refused() -> None:
    peer = Peer()
    opened = [
        peer.opened(2 * number + 1, {"streamtype": "error", "port": "80", "requestid": str(number)})
        for number in range(spdy.STREAMS + 1)
    ]
    wire = Wire(b"".join(opened))
    await forward(wire, no_pod)
    last = struct.pack(">II", 2 * spdy.STREAMS + 1, spdy.REFUSED_STREAM)
    assert wire.answered.endswith(control(spdy.RST_STREAM, last))


def _bomb() -> bytes:
    packed = zlib.compressobj(zdict=spdy.DICTIONARY)
    block = packed.compress(struct.pack(">II", 1, 50_000_000) + bytes(50_000_000)) + packed.flush(zlib.Z_SYNC_FLUSH)
    return control(spdy.SYN_STREAM, struct.pack(">IIH", 1, 0, 0) + block)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(_bomb(), id="a head that unpacks to megabytes"),
        pytest.param(struct.pack(">II", 1, 0xFFFFFF), id="a frame of 16 MB"),
        pytest.param(struct.pack(">HHI", 0x8002, 1, 0), id="another version"),
        pytest.param(control(spdy.SYN_STREAM, b"\0"), id="too short"),
        pytest.param(control(spdy.SYN_STREAM, bytes(10) + b"not compressed"), id="not compressed"),
        pytest.param(Peer().opened(2, {}), id="an even stream"),
        pytest.param(Peer().request(1)[:30], id="cut off"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n" * 20_000, id="HTTP"),
    ],
)
async def test_what_is_not_spdy_ends_the_session(sent: bytes) -> None:
    async with asyncio.timeout(20):
        await forward(Wire(sent), no_pod)


async def test_any_bytes_at_all_end_quietly() -> None:
    chance = random.Random(SEED)
    for _ in range(200):
        frame = bytearray(Peer().request(1) + data(3, b"x" * 50) + control(spdy.RST_STREAM, struct.pack(">II", 3, 5)))
        for _ in range(chance.randrange(1, 6)):
            frame[chance.randrange(len(frame))] = chance.randrange(256)
        async with asyncio.timeout(20):
            await forward(Wire(bytes(frame)), no_pod)


class FakeTunnel(Wire):
    """As much of a tunnel as a WebSocket uses."""

    def __init__(self, sent: bytes) -> None:
        super().__init__()
        self._rest = sent

    async def read_exactly(self, size: int) -> bytes:
        if len(self._rest) < size:
            raise ConnectionLost("the end")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


def masked(first: int, payload: bytes) -> bytes:
    mask, size = b"\x11\x22\x33\x44", len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack(">H", size)
    return bytes([first]) + length + mask + websocket.unmasked(payload, mask)


async def test_a_websocket_hands_on_bytes_and_answers_pings() -> None:
    tunnel = FakeTunnel(
        masked(0x02, b"a") + masked(0x89, b"hi") + masked(0x80, b"b" * 300) + masked(0x88, b"\x03\xe8")
    )
    pipe = websocket.WebSocket(tunnel)  # type: ignore[arg-type]
    assert [await pipe.read() for _ in range(3)] == [b"a", b"b" * 300, b""]
    await pipe.close()
    assert tunnel.answered == b"\x8a\x02hi" + b"\x88\x02\x03\xe8"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(b"\x82\x01a", 1002, id="not masked"),
        pytest.param(masked(0xC2, b"a"), 1002, id="an extension nobody agreed to"),
        pytest.param(masked(0x09, b"a"), 1002, id="a ping in fragments"),
        pytest.param(b"\x82\xff" + struct.pack(">Q", 1 << 62), 1009, id="too long"),
        pytest.param(masked(0x81, b"text"), 1003, id="text"),
    ],
)
async def test_a_websocket_closes_with_a_reason(sent: bytes, code: int) -> None:
    tunnel = FakeTunnel(sent)
    assert await websocket.WebSocket(tunnel).read() == b""  # type: ignore[arg-type]
    assert tunnel.answered == b"\x88\x02" + struct.pack(">H", code)
