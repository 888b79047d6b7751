"""HTTP/2 passed on: frames are cut right, foreign authorities get 421, the compression states stay in step."""
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serveplane.http import Origin, Request, frames
from serveplane.http.frames import FrameCutter, FrameError, frame, head_of
from serveplane.http.http2 import Downward, Http2Proxy, Upward
from serveplane.http.messages import Peer
from tests.counts import COUNTS
from tests.unit.http.wires import Wire, echo, origin, serving, wire

SETTINGS = frame(frames.SETTINGS, 0, 0)
SETTINGS_ACK = frame(frames.SETTINGS, frames.ACK, 0)


class Speaker:
    """Just enough of an HTTP/2 client, with a compression state of its own."""

    def __init__(self) -> None:
        self.encoder = hpack.Encoder()

    def headers(self, stream: int, authority: str, path: str = "/", *, end: bool = True,
                extra: list[tuple[str, str]] | None = None) -> bytes:
        fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", authority), *(extra or [])]
        return frames.header_frames(stream, self.encoder.encode(fields), end)


def cut_up(data: bytes) -> list[tuple[frames.FrameHead, bytes]]:
    """Whole frames."""
    out = []
    while data:
        head = head_of(data)
        out.append((head, data[9:9 + head.length]))
        data = data[9 + head.length:]
    return out


@pytest.mark.parametrize("size", [1, 2, 5, 9, 10, 1000])
def test_frames_are_cut_the_same_however_they_arrive(size: int) -> None:
    stream = SETTINGS + frame(frames.DATA, 0, 1, b"x" * 50) + frames.header_frames(3, b"y" * 20, False) + frame(frames.DATA, 1, 1)
    cutter, out = FrameCutter(frozenset((frames.HEADERS,)), 1000), b""
    whole = []
    for at in range(0, len(stream), size):
        for head, piece, first in cutter.cut(stream[at:at + size]):
            if first:
                out += head.length.to_bytes(3, "big") + bytes((head.kind, head.flags)) + head.stream.to_bytes(4, "big")
            out += piece
            if head.kind == frames.HEADERS:
                whole.append(piece)
    assert out == stream
    assert whole == [b"y" * 20]
    assert cutter.at_border


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_dropped_stream_does_not_disturb_the_others(size: int) -> None:
    """The client's table learns fields from a block the origin never sees; later blocks that refer to them must still be right."""
    client, upward = Speaker(), Upward(Peer())
    secret = [("x-learnt", "in the dropped block" * 3)]
    sent = (client.headers(1, "a") + client.headers(3, "b", end=False, extra=secret) + frame(frames.DATA, 1, 3, b"z" * 10)
            + client.headers(5, "a", "/5", extra=secret) + frame(frames.WINDOW_UPDATE, 0, 3, b"\0\0\0\1"))
    out = b"".join(upward.feed(sent[at:at + size]) for at in range(0, len(sent), size))
    decoder, seen = hpack.Decoder(), {}
    for head, payload in cut_up(out):
        assert head.kind == frames.HEADERS
        seen[head.stream] = dict(decoder.decode(payload))
    assert list(seen) == [1, 5]
    assert seen[5]["x-learnt"] == secret[0][1]
    replies = cut_up(upward.replies)
    assert (replies[0][0].stream, hpack.Decoder().decode(replies[0][1])) == (3, [(":status", "421")])
    given_back = sum(int.from_bytes(payload, "big") for head, payload in replies if head.kind == frames.WINDOW_UPDATE)
    assert given_back == 10


def test_the_first_request_is_what_decides() -> None:
    upward = Upward(Peer("1.2.3.4"))
    assert upward.feed(SETTINGS) == SETTINGS
    upward.feed(Speaker().headers(1, "iris.example:80", "/p?q", extra=[("content-type", "application/grpc")]))
    first = upward.first
    assert first is not None
    assert (first.method, first.path, first.query) == ("POST", "/p", "q")
    assert (first.headers.get("host"), first.peer.address) == ("iris.example:80", "1.2.3.4")


def test_only_the_first_acknowledgement_is_ours() -> None:
    upward = Upward(Peer())
    assert upward.feed(SETTINGS_ACK + SETTINGS_ACK) == SETTINGS_ACK


@pytest.mark.parametrize("bad", [
    frame(frames.CONTINUATION, 0, 1, b""), frame(frames.HEADERS, 0, 1, b"") + frame(frames.DATA, 0, 1, b""),
    frame(frames.HEADERS, frames.END_HEADERS | frames.PADDED, 1, b"\xff"),
    frame(frames.HEADERS, frames.END_HEADERS, 1, b"\xff\xff\xff\xff"),
    frame(frames.HEADERS, 0, 1, b"") + frame(frames.CONTINUATION, 0, 1, b"") * 100,
    frame(frames.HEADERS, 0, 1, b"x" * 16_000) + frame(frames.CONTINUATION, 0, 1, b"x" * 16_000) * 10,
], ids=["continuation of nothing", "interrupted", "padding", "compression", "flood of empty ones", "too long"])
def test_broken_frames_end_the_connection(bad: bytes) -> None:
    with pytest.raises(FrameError):
        Upward(Peer()).feed(bad)


@pytest.mark.parametrize("extra", [
    [("transfer-encoding", "chunked")], [("connection", "close")], [("x", "a\r\nb")], [("X-Up", "1")], [("host", "b")]])
def test_malformed_requests_are_refused(extra: list[tuple[str, str]]) -> None:
    upward = Upward(Peer())
    assert upward.feed(Speaker().headers(1, "a", extra=extra)) == b""
    assert upward.first is None
    assert hpack.Decoder().decode(cut_up(upward.replies)[0][1]) == [(":status", "400")]


ANY_FRAME = st.builds(frame, st.sampled_from([*range(10), 200]), st.integers(0, 255), st.integers(0, 9), st.binary(max_size=30))


@settings(max_examples=COUNTS.fuzzed_objects // 2, deadline=None)
@given(st.lists(st.one_of(ANY_FRAME, st.sampled_from([Speaker().headers(1, "a"), Speaker().headers(3, "b", end=False)])), max_size=6),
       st.integers(1, 40), st.binary(max_size=2))
def test_whatever_comes_is_passed_or_refused(pieces: list[bytes], size: int, noise: bytes) -> None:
    """Nothing a peer sends raises anything but FrameError, which ends its connection and no other."""
    data = b"".join(pieces)
    data = data[:len(data) // 2] + noise + data[len(data) // 2:]
    for walker in (Upward(Peer()), Downward(Upward(Peer()))):
        with suppress(FrameError):
            for at in range(0, len(data), size):
                walker.feed(data[at:at + size])


def test_our_frames_go_between_theirs() -> None:
    downward, ours = Downward(Upward(Peer())), frame(frames.WINDOW_UPDATE, 0, 0, b"\0\0\0\1")
    assert downward.inject(ours) == ours
    begun, rest = frame(frames.HEADERS, 0, 1, b"abc"), frame(frames.CONTINUATION, frames.END_HEADERS, 1, b"def")
    data = frame(frames.DATA, 0, 1, b"x" * 20)
    assert downward.feed(begun) == begun
    assert downward.inject(ours) == b""   # not within a header block
    assert downward.feed(rest + data[:12]) == rest + ours + data[:12]
    assert downward.inject(ours) == b""   # not within a frame
    assert downward.feed(data[12:] + data) == data[12:] + ours + data
    assert downward.feed(begun[:5]) == b""
    assert downward.inject(ours) == b""
    assert downward.feed(begun[5:] + rest) == ours + begun + rest


def test_the_compression_table_stays_within_bounds() -> None:
    downward = Downward(Upward(Peer()))
    out = downward.feed(frame(frames.SETTINGS, 0, 0, b"\0\1\xff\xff\xff\xff\0\3\0\0\0\1"))
    assert cut_up(out)[0][1] == b"\0\1\0\1\0\0\0\3\0\0\0\1"


@asynccontextmanager
async def passing(known: bool = True) -> AsyncIterator[tuple[int, bytearray]]:
    """A server of ours before an origin that acknowledges and writes down."""
    received = bytearray()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SETTINGS)
        while data := await reader.read(65536):
            received.extend(data)
    async with origin(script) as port:
        async def choose(request: Request) -> Origin | None:
            return Origin("http", "127.0.0.1", port) if known else None
        async with serving(echo, http2=Http2Proxy(choose)) as server:
            yield server.port, received


async def frames_from(client: Wire, count: int) -> list[tuple[frames.FrameHead, bytes]]:
    out = []
    for _ in range(count):
        head = head_of(await asyncio.wait_for(client.reader.readexactly(9), 30))
        out.append((head, await client.reader.readexactly(head.length)))
    return out


async def test_end_to_end_with_421() -> None:
    speaker = Speaker()
    async with passing() as (port, received), wire(port) as client:
        await client.send(frames.PREFACE + SETTINGS)
        assert (await frames_from(client, 1))[0][0].kind == frames.SETTINGS   # at once, before any request
        await client.send(SETTINGS_ACK + speaker.headers(1, "a"))
        assert (await frames_from(client, 1))[0][0].kind == frames.SETTINGS   # the origin's
        await client.send(speaker.headers(3, "other"))
        (head, payload), = await frames_from(client, 1)
        assert (head.stream, hpack.Decoder().decode(payload)) == (3, [(":status", "421")])
        assert received.startswith(frames.PREFACE)
        assert [head.kind for head, _ in cut_up(bytes(received[24:]))] == [frames.SETTINGS, frames.HEADERS]


async def test_no_origin_is_404_and_goodbye() -> None:
    async with passing(known=False) as (port, _), wire(port) as client:
        await client.send(frames.PREFACE + SETTINGS + Speaker().headers(1, "a"))
        got = await frames_from(client, 3)
        assert [head.kind for head, _ in got] == [frames.SETTINGS, frames.HEADERS, frames.GOAWAY]
        assert hpack.Decoder().decode(got[1][1]) == [(":status", "404")]
        assert await client.rest() == b""


@pytest.mark.parametrize("size", [1, 24])
async def test_http_1_beside_it(size: int) -> None:
    """The same port speaks both; half a preface is not one."""
    async with passing() as (port, _):
        async with wire(port) as client:
            await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await client.response())[0] == 200
        async with wire(port) as client:
            for at in range(0, 24, size):
                await client.send(frames.PREFACE[at:at + size])
            assert (await frames_from(client, 1))[0][0].kind == frames.SETTINGS
