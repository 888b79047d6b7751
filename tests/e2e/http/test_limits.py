"""Peers that are slow on purpose: every limit in time, at a scale that tests can wait for."""
import asyncio
import math
from collections.abc import AsyncIterator

import pytest

from serveplane.http import Limits, Request, Response
from tests.unit.http.wires import echo, eventually, serving, wire

FAST = Limits(head_seconds=0.5, idle_seconds=0.3, pace_seconds=0.5, linger_seconds=0.3, write_buffer_bytes=16384)
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with serving(echo, limits=FAST) as server, wire(server) as client:
        assert await client.rest() == b""


@pytest.mark.parametrize("sent", [b"G", b"GET / HTTP/1.1\r\nHost: a\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r"])
async def test_a_head_that_does_not_end_is_408(sent: bytes) -> None:
    async with serving(echo, limits=FAST) as server, wire(server) as client:
        await client.send(sent)
        assert b"408" in await client.rest()


async def test_trickling_a_head_does_not_extend_its_time() -> None:
    async with serving(echo, limits=FAST) as server, wire(server) as client:
        for byte in GET * 10:
            await client.send(bytes([byte]))
            await asyncio.sleep(0.03)
            if client.reader.at_eof() or len(client.reader._buffer):   # type: ignore[attr-defined]
                break
        assert b"408" in await client.rest()


async def test_an_idle_connection_is_closed_without_a_word() -> None:
    async with serving(echo, limits=FAST) as server, wire(server) as client:
        await client.send(GET)
        await client.response()
        assert await client.rest() == b""


async def test_a_body_that_trickles_is_408() -> None:
    async with serving(echo, limits=FAST) as server, wire(server) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(4):
            await client.send(b"x")
            await asyncio.sleep(0.05)
        assert b"408" in await client.rest()


async def test_a_slow_body_with_progress_is_fine() -> None:
    async with serving(echo, limits=Limits(pace_seconds=2)) as server, wire(server) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 16000\r\n\r\n")
        for _ in range(8):
            await client.send(b"x" * 2000)
            await asyncio.sleep(0.4)
        assert (await client.response())[0] == 200


async def test_a_busy_handler_does_not_make_its_client_slow() -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(2.5)
        return Response.text(str(len(await request.read())))
    async with serving(handler, limits=Limits(pace_seconds=1, buffer_bytes=1000)) as server, wire(server) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n" + b"x" * 900_000)
        assert (await client.response())[2] == b"900000"


async def test_waiting_for_100_continue_is_not_slowness() -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(2.5)
        return Response.text((await request.read()).decode())
    async with serving(handler, limits=Limits(pace_seconds=1)) as server, wire(server) as client:
        await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert b"100" in await client.head()
        await client.send(b"hi")
        assert (await client.response())[2] == b"hi"


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_reader_that_does_not_read_is_dropped(streamed: bool) -> None:
    ended = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65536
        finally:
            ended.set()

    async def handler(_: Request) -> Response:
        return Response(200, body=pieces() if streamed else b"x" * 50_000_000)
    async with serving(handler, limits=FAST) as server, wire(server) as client:
        client.writer.transport.pause_reading()
        await client.send(GET)
        await eventually(lambda: server.metrics.total() > 0 or server.metrics.in_flight > 0)
        await eventually(lambda: server.connections == 0)
        assert ended.is_set() == streamed


async def test_a_quiet_stream_is_not_a_slow_reader() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"1"
        await asyncio.sleep(1.5)
        yield b"2"

    async def handler(_: Request) -> Response:
        return Response(200, body=pieces())
    async with serving(handler, limits=FAST) as server, wire(server) as client:
        await client.send(GET)
        await client.head()
        assert await asyncio.wait_for(client.reader.readuntil(b"0\r\n\r\n"), 30) == b"1\r\n1\r\n1\r\n2\r\n0\r\n\r\n"


async def test_a_refused_sender_can_read_why_but_not_stay() -> None:
    async with serving(echo, limits=FAST) as server, wire(server) as client:
        await client.send(b"BAD\r\n\r\n" + b"x" * 1_000_000)
        assert b"400" in await client.reader.readuntil(b"\r\n\r\n")
        await eventually(lambda: server.connections == 0)


async def test_one_connection_too_many_is_503() -> None:
    async with serving(echo, limits=Limits(connections=2)) as server, wire(server) as one, wire(server) as two:
        for client in (one, two):
            await client.send(GET)
            assert (await client.response())[0] == 200
        async with wire(server) as three:
            assert b"503" in await three.rest()
        await one.send(GET)
        assert (await one.response())[0] == 200


async def test_limits_can_be_switched_off() -> None:
    limits = Limits(head_seconds=math.inf, idle_seconds=math.inf, pace_seconds=math.inf, connections=None)
    async with serving(echo, limits=limits) as server, wire(server) as client:
        await client.send(GET)
        assert (await client.response())[0] == 200
