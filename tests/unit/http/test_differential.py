"""Three readers, one meaning: whatever h11 or httptools refuses we refuse, and what we accept all three read alike.

The exceptions, each with the section that allows it, are the table `EXCEPTIONS`; a difference that is not there fails.
"""
import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import h11
import httptools
import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serveplane.clock import SYSTEM
from serveplane.http import Limits, Request, Response
from serveplane.http.connection import Connection
from serveplane.http.engine import Engine
from tests.counts import COUNTS


class Message(NamedTuple):
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Exception_(NamedTuple):
    section: str
    why: str
    applies: Callable[[bytes], bool]


EXCEPTIONS = {
    "h11": [
        Exception_("RFC 9112 2.2", "one stray empty line before a request line is forgiven",
                   lambda data: bool(re.search(rb"(?:^|\r\n\r\n|hello)\r\n", data))),
        Exception_("RFC 9112 C.2.2", "HTTP/1.0 may ask to keep the connection; h11 always closes it",
                   lambda data: b"HTTP/1.0" in data and b"keep-alive" in data),
    ],
    "httptools": [
        Exception_("RFC 9110 7.8", "a server may ignore an Upgrade; httptools stops reading there", lambda data: b"pgrade" in data),
    ],
}


class MemoryTransport(asyncio.Transport):
    """Swallows what is written and remembers whether the connection was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def get_write_buffer_size(self) -> int: return 0
    def is_closing(self) -> bool: return self.closed
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def can_write_eof(self) -> bool: return True

    def write_eof(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    abort = close


def ours(data: bytes, cut: int) -> list[Message]:
    """The requests our server hands to a handler when it is fed these bytes in pieces."""
    return LOOP.run_until_complete(_ours(data, cut))


LOOP = uvloop.new_event_loop()


async def _ours(data: bytes, cut: int) -> list[Message]:
    seen: list[Message] = []

    async def handler(request: Request) -> Response:
        body = await request.read()
        headers = tuple((name.lower(), value.strip(" \t")) for name, value in request.headers.items())
        seen.append(Message(request.method, request.target, headers, body))
        return Response(200)
    engine = Engine(handler, Limits(), SYSTEM)
    connection, transport = Connection(engine), MemoryTransport()
    connection.connection_made(transport)
    for at in range(0, len(data), cut):
        connection.data_received(data[at:at + cut])
        if cut > 1:
            await asyncio.sleep(0)
    while connection._task is not None and connection._decoder is None:   # noqa: ASYNC110
        await asyncio.sleep(0)   # pipelined requests are handled one after the other
    engine.sweeper.stop()
    connection.connection_lost(None)
    await asyncio.sleep(0)
    return seen


def by_h11(data: bytes) -> list[Message]:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    connection.receive_data(data)
    seen: list[Message] = []
    head: Any = None
    body = b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                head, body = event, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                headers = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in head.headers)
                seen.append(Message(head.method.decode(), head.target.decode("latin-1"), headers, body))
                if connection.our_state is h11.MIGHT_SWITCH_PROTOCOL:
                    connection.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
                else:
                    connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is h11.MUST_CLOSE:
                    return seen
                connection.start_next_cycle()
            else:
                return seen
    except (h11.RemoteProtocolError, h11.LocalProtocolError):
        return seen


class _Recorder:
    def __init__(self) -> None:
        self.seen: list[Message] = []

    def on_message_begin(self) -> None:
        self.url, self.headers, self.body, self.ended = b"", [], b"", False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.ended:   # later ones are trailers
            self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")))

    def on_headers_complete(self) -> None:
        self.ended = True
        self.method = self.parser.get_method().decode()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.seen.append(Message(self.method, self.url.decode("latin-1"), tuple(self.headers), self.body))


def by_httptools(data: bytes) -> list[Message]:
    recorder = _Recorder()
    recorder.parser = httptools.HttpRequestParser(recorder)
    with suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
        recorder.parser.feed_data(data)
    return recorder.seen


READERS: dict[str, Callable[[bytes], list[Message]]] = {"h11": by_h11, "httptools": by_httptools}


def check(data: bytes, cut: int) -> None:
    """Every request we hand on was read by both others too, and as the same."""
    mine = ours(data, cut)
    for name, reader in READERS.items():
        if not any(row.applies(data) for row in EXCEPTIONS[name]):
            theirs = reader(data)
            assert mine == theirs[:len(mine)], f"{name} reads {data!r} as {theirs}"


TOKENS = st.sampled_from([b"X", b"x-y", b"Content-Type", b"Accept", b"Connection", b"Cookie", b"X~!", b"Expect"])
GOOD_VALUES = st.sampled_from([b"a", b"", b"  a  ", b"a, b", b"keep-alive", b"\xff", b"a\tb", b"100-continue", b'"a,b"', b"a:b"])
VALUES = st.one_of(*[GOOD_VALUES] * 8, st.binary(max_size=4))
GOOD_FRAMINGS = st.sampled_from([
    (b"", b""), (b"Content-Length: 5\r\n", b"hello"), (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\n", b"5;x=y\r\nhello\r\n0\r\nT: v\r\n\r\n")])
ODD_FRAMINGS = st.sampled_from([
    (b"", b""), (b"Content-Length: 5\r\n", b"hello"), (b"content-length:5\r\n", b"hello"), (b"Content-Length: 0\r\n", b""),
    (b"Content-Length: 05\r\n", b"hello"), (b"Content-Length: 5 \r\n", b"hello"), (b"Content-Length: +5\r\n", b"hello"),
    (b"Content-Length: 5\r\nContent-Length: 5\r\n", b"hello"),
    (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\n", b"5;x=y\r\nhello\r\n0\r\nT: v\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\n", b"5 \r\nhello\r\n0\r\n\r\n"), (b"Transfer-Encoding: chunked\r\n", b"05\r\nhello\r\n00\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\n", b'5;x="a\\"b"\r\nhello\r\n0\r\n\r\n'), (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello0\r\n\r\n"),
    (b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"), (b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"0\r\n\r\n")])
FRAMINGS = st.one_of(*[GOOD_FRAMINGS] * 3, ODD_FRAMINGS)
LINES = st.tuples(
    st.sampled_from([b"GET", b"POST", b"PUT", b"OPTIONS", b"HEAD", b"get", b"X", b"G T", b""]), st.sampled_from([b" ", b"  ", b"\t", b""]),
    st.sampled_from([b"/", b"/a?b", b"*", b"http://a/", b"/%2F", b"a", b"", b"/\x7f", b"/\xe9", b"/#f", b"//", b"/a b"]),
    st.sampled_from([b" HTTP/1.1", b" HTTP/1.0", b" HTTP/1.2", b" HTTP/2.0", b" http/1.1", b"", b"  HTTP/1.1", b" HTTP/01.1"]),
).map(b"".join)
SANE_LINES = st.sampled_from([b"GET / HTTP/1.1", b"POST /a?b HTTP/1.1", b"PUT /x HTTP/1.0", b"DELETE /x HTTP/1.1"])
ENDS = st.sampled_from([b"\r\n"] * 60 + [b"\n", b"\r", b"\r\r\n", b"\r\n "])
FIELDS = st.lists(st.tuples(TOKENS, st.sampled_from([b": "] * 30 + [b":", b" : ", b":\t", b""]), VALUES, ENDS).map(b"".join), max_size=4)
HOSTS = st.sampled_from([b"Host: a\r\n"] * 20 + [b"", b"Host: a\r\nHost: a\r\n", b"host: a:80\r\n", b"Host: \r\n", b"Host: a b\r\n"])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    line = draw(st.one_of(*[SANE_LINES] * 5, LINES))
    framing, body = draw(FRAMINGS)
    fields = b"".join(draw(FIELDS))
    return draw(st.sampled_from([b""] * 30 + [b"\r\n", b"\n"])) + line + draw(ENDS) + draw(HOSTS) + fields + framing + draw(ENDS) + body


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """One or two requests with up to three bytes changed, dropped or put in between."""
    data = bytearray(b"".join(draw(st.lists(requests(), min_size=1, max_size=2))))
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3]))):
        if not data:
            break
        at = draw(st.integers(0, len(data) - 1))
        byte = draw(st.one_of(st.sampled_from(b"\r\n\0\t :;,\x0b\x7f\x80"), st.integers(0, 255)))
        data[at:at + draw(st.integers(0, 1))] = bytes([byte]) * draw(st.integers(0, 1))
    return bytes(data)


@settings(max_examples=COUNTS.fuzzed_objects // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated(), st.sampled_from([1, 7, 10_000]))
def test_three_readers_agree(data: bytes, cut: int) -> None:
    check(data, cut)


@pytest.mark.parametrize("data", [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;a\r\nhi\r\n0\r\n\r\n"])
def test_the_plain_cases_agree(data: bytes) -> None:
    for cut in (1, 3, 10_000):
        assert ours(data, cut)
        check(data, cut)
