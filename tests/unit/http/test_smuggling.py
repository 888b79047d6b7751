"""Requests made to be read in two ways, sent through our proxy.

The origin keeps every byte it gets. Whatever was forwarded must read the same for h11 and for httptools, and no request that the
attacker hid inside another may appear.
"""
import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress

import pytest

from serveplane.http import Origin, Request, Response
from serveplane.http.proxy import Proxy
from tests.unit.http.test_differential import by_h11, by_httptools
from tests.unit.http.wires import Wire, answer, origin, serving, wire

P = b"POST /outer HTTP/1.1\r\nHost: a\r\n"
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
N = len(HIDDEN)

CORPUS: dict[str, bytes] = {
    "CL.TE": P + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (N + 5) + HIDDEN,
    "TE.CL": P + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n%x\r\n" % N + HIDDEN + b"\r\n0\r\n\r\n",
    "CL.0": P + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % N + HIDDEN,
    "CL.CL": P + b"Content-Length: %d\r\nContent-Length: 0\r\n\r\n" % N + HIDDEN,
    "CL list": P + b"Content-Length: 0, %d\r\n\r\n" % N + HIDDEN,
    "CL plus": P + b"Content-Length: +%d\r\n\r\n" % N + HIDDEN,
    "CL with NUL": P + b"Content-Length: 0\0%d\r\n\r\n" % N + HIDDEN,
    "CL folded": P + b"Content-Length:\r\n %d\r\n\r\n" % N + HIDDEN,
    "CL with a blank before the colon": P + b"Content-Length : %d\r\n\r\n" % N + HIDDEN,
    "CL after a bare LF": P + b"X: y\nContent-Length: %d\r\n\r\n" % N + HIDDEN,
    "CL after a bare CR": P + b"X: y\rContent-Length: %d\r\n\r\n" % N + HIDDEN,
    "CL underscore": P + b"Content_Length: %d\r\n\r\n" % N + HIDDEN,
    "CL in 1.0 with TE": b"POST /outer HTTP/1.0\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n" + HIDDEN,
    "GET with a body": b"GET /outer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % N + HIDDEN,
    "bare LF framing": b"POST /outer HTTP/1.1\nHost: a\nContent-Length: %d\n\n" % N + HIDDEN,
    "CRCRLF": P + b"X: y\r\r\nContent-Length: %d\r\n\r\n" % N + HIDDEN,
    "LF in the method": b"GET /outer HTTP/1.1\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "space in the target": b"GET /outer HTTP/1.1\r\nX: GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "vertical tab": P + b"Transfer-Encoding:\x0bchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + HIDDEN,
    "absolute target with another host": b"GET http://b/hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "two Hosts": b"GET /outer HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "Host with a comma": b"GET /outer HTTP/1.1\r\nHost: a, b\r\n\r\n",
    "connection takes the length away": P + b"Connection: Content-Length\r\nContent-Length: %d\r\n\r\n" % N + HIDDEN,
    "connection takes the host away": b"GET /outer HTTP/1.1\r\nHost: a\r\nConnection: Host\r\n\r\n",
    "connection takes the coding away": P + b"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "upgrade h2c with a body":
        P + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\nContent-Length: %d\r\n\r\n" % N + HIDDEN,
    "websocket with a body": P + b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: %d\r\n\r\n" % N + HIDDEN,
    "expect and a body": P + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % N + HIDDEN,
    "HEAD with a body": b"HEAD /outer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % N + HIDDEN,
    "trailer that is a length": P + b"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: %d\r\n\r\n" % N,
    "trailer without an end": P + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + HIDDEN,
    "chunk extension with a bare LF": P + b"Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\n%x\r\n0\r\n\r\n" % N + HIDDEN,
    "chunk extension with a bare CR": P + b"Transfer-Encoding: chunked\r\n\r\n2;a\rb\r\nxx\r\n0\r\n\r\n",
    "chunk extension quoted": P + b'Transfer-Encoding: chunked\r\n\r\n2;a="b;c\\"d"\r\nxx\r\n0\r\n\r\n',
    "chunk extension unclosed": P + b'Transfer-Encoding: chunked\r\n\r\n2;a="b\r\nxx\r\n0\r\n\r\n',
    "chunk size with a blank": P + b"Transfer-Encoding: chunked\r\n\r\n2 \r\nxx\r\n0\r\n\r\n",
    "chunk size with 0x": P + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\nxx\r\n0\r\n\r\n",
    "chunk size that wraps": P + b"Transfer-Encoding: chunked\r\n\r\n100000000000000000\r\nxx\r\n0\r\n\r\n",
    "chunk size with NUL": P + b"Transfer-Encoding: chunked\r\n\r\n2\0\r\nxx\r\n0\r\n\r\n",
    "chunk with bare LF": P + b"Transfer-Encoding: chunked\r\n\r\n2\nxx\n0\n\n" + HIDDEN,
    "chunk data without its end": P + b"Transfer-Encoding: chunked\r\n\r\n2\r\nxxxx\r\n0\r\n\r\n",
    "chunk that ends with only CR": P + b"Transfer-Encoding: chunked\r\n\r\n2\r\nxx\r0\r\n\r\n",
    "NUL in a name": P + b"Transfer-\0Encoding: chunked\r\n\r\n0\r\n\r\n",
    "header injection by a value": P + b"X: a\x85Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
    "no version": b"GET /outer\r\nHost: a\r\n\r\n" + HIDDEN,
    "version 1.1x": b"GET /outer HTTP/1.1x\r\nHost: a\r\n\r\n",
}
SPELLINGS = [
    b"xchunked", b" chunked", b"chunked\t", b"\tchunked", b"chunked ", b"Chunked", b"chunked,", b",chunked", b"chunked;q=1", b'"chunked"',
    b"identity", b"identity, chunked", b"chunked, identity", b"cow", b"chunked\0", b"\0chunked", b"chun\rked", b"chunked\r\n identity",
    b"x\r\n\tchunked", b"gzip"]
for number, spelling in enumerate(SPELLINGS):
    coding = b"Transfer-Encoding: " + spelling + b"\r\n"
    CORPUS[f"TE.TE {number}"] = P + coding + b"\r\n0\r\n\r\n"
    CORPUS[f"TE.TE twice {number}"] = P + b"Transfer-Encoding: chunked\r\n" + coding + b"\r\n0\r\n\r\n"
    CORPUS[f"TE.TE and length {number}"] = P + coding + b"Content-Length: %d\r\n\r\n0\r\n\r\n" % (5 + N) + HIDDEN
    CORPUS[f"TE.TE underscore {number}"] = P + coding.replace(b"-", b"_") + b"Content-Length: 5\r\n\r\n0\r\n\r\n"
    CORPUS[f"TE.TE spaced name {number}"] = P + coding.replace(b":", b" :") + b"Content-Length: 5\r\n\r\n0\r\n\r\n"


@asynccontextmanager
async def proxied() -> AsyncIterator[tuple[int, list[bytearray]]]:
    """A proxy of ours before an origin that writes everything down, one entry per connection."""
    received: list[bytearray] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = bytearray()
        received.append(mine)
        answered = 0
        while data := await reader.read(65536):
            mine += data
            complete = len(by_httptools(bytes(mine)) or [])
            writer.write(answer() * (complete - answered))
            answered = complete
    async with origin(script) as port:
        proxy, target = Proxy(), Origin("http", "127.0.0.1", port)

        def handler(request: Request) -> Awaitable[Response]:
            return proxy.forward(request, target)
        async with serving(handler) as server:
            yield server.port, received
        await proxy.client.close()


@pytest.mark.parametrize("cut", [1, 100_000], ids=["trickled", "at once"])
async def test_nothing_ambiguous_is_forwarded(cut: int) -> None:
    async with proxied() as (port, received):
        for attack in CORPUS.values():
            async with wire(port) as client:
                await attacked(client, attack, cut)
        for data in map(bytes, received):   # kept connections carry what many attacks led to
            seen = by_h11(data)
            assert seen == by_httptools(data), data
            assert all(message.target == "/outer" for message in seen), data
            hidden = sum(message.body.count(b"/hidden") + str(message.headers).count("/hidden") for message in seen)
            assert data.count(b"/hidden") == hidden, data
            assert b"\nHost: b" not in data, data
        assert sum(len(by_h11(bytes(data))) for data in received) > 10


async def attacked(client: Wire, attack: bytes, cut: int) -> None:
    with suppress(TimeoutError, OSError):
        for at in range(0, len(attack), cut):
            client.writer.write(attack[at:at + cut])
            if cut == 1 and at % 16 == 0:
                await client.writer.drain()
                await asyncio.sleep(0)
        async with asyncio.timeout(0.05):
            while await client.reader.read(65536):
                pass


async def test_the_corpus_is_mostly_refused() -> None:
    """Should the proxy stop forwarding at all, the test above would prove nothing."""
    async with proxied() as (port, received):
        async with wire(port) as client:
            await client.send(b"POST /outer HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
            assert (await client.response())[0] == 200
        assert by_h11(bytes(received[0]))[0].body == b"hi"
