"""The server at work: order, streaming, back-pressure, disconnects, upgrades, draining."""
import asyncio
import os
import stat
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from serveplane.http import LOOPBACK_HOSTS, Handler, Limits, Request, Response, StatusError, Tunnel, Upgrade
from serveplane.http.accesslog import AccessLog
from tests.unit.http.wires import echo, eventually, reset, serving, wire

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def hello(_: Request) -> Response:
    return Response.text("hello")


async def test_keep_alive_serves_many_on_one_connection() -> None:
    async with serving(hello) as server, wire(server) as client:
        for _ in range(5):
            await client.send(GET)
            status, headers, body = await client.response()
            assert (status, body, "connection" in headers) == (200, b"hello", False)
        assert server.connections == 1
        assert server.metrics.total(200) == 5


async def test_pipelined_requests_are_answered_in_order() -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0.02 if request.path == "/0" else 0)
        return Response.text(request.path)
    async with serving(handler) as server, wire(server) as client:
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(20)))
        assert [(await client.response())[2] for _ in range(20)] == [b"/%d" % number for number in range(20)]


async def test_a_pipelining_client_that_does_not_read_is_held_back() -> None:
    served = 0

    async def handler(_: Request) -> Response:
        nonlocal served
        served += 1
        return Response(200, body=b"x" * 200_000)
    async with serving(handler, limits=Limits(write_buffer_bytes=65536, buffer_bytes=4096)) as server, wire(server) as client:
        client.writer.write(GET * 2_000)
        await asyncio.sleep(0.3)
        assert served < 200
        assert len(await client.reader.readexactly(1_000_000)) == 1_000_000


async def test_head_has_the_length_but_not_the_body() -> None:
    async with serving(hello) as server, wire(server) as client:
        await client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + GET)
        assert b"Content-Length: 5\r\n" in await client.head()
        assert (await client.response())[2] == b"hello"


@pytest.mark.parametrize("status", [204, 304])
async def test_statuses_without_a_body(status: int) -> None:
    async def handler(_: Request) -> Response:
        return Response(status, body=b"must not be sent")
    async with serving(handler) as server, wire(server) as client:
        await client.send(GET + GET)
        assert b"ontent-" not in await client.head()
        assert b"HTTP/1.1 %d" % status in await client.head()


async def test_http_10_closes_unless_asked_to_stay() -> None:
    async with serving(hello) as server:
        async with wire(server) as client:
            await client.send(b"GET / HTTP/1.0\r\n\r\n")
            assert b"Connection: close" in await client.rest()
        async with wire(server) as client:
            await client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2)
            assert (await client.response())[1]["connection"] == "keep-alive"
            assert (await client.response())[0] == 200


async def numbers() -> AsyncIterator[bytes]:
    for number in range(3):
        yield b"%d" % number
        yield b""   # must not end the body


async def test_a_stream_is_chunked_for_11_and_closes_for_10() -> None:
    async def handler(_: Request) -> Response:
        return Response(200, body=numbers())
    async with serving(handler) as server:
        async with wire(server) as client:
            await client.send(GET + b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            reply = await client.rest()
            assert reply.count(b"1\r\n0\r\n1\r\n1\r\n1\r\n2\r\n0\r\n\r\n") == 2
        async with wire(server) as client:
            await client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            reply = await client.rest()
            assert reply.endswith(b"\r\n\r\n012")
            assert b"chunked" not in reply


async def test_each_piece_of_a_stream_is_flushed() -> None:
    go = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"first"
        await go.wait()
        yield b"second"

    async def handler(_: Request) -> Response:
        return Response(200, body=pieces())
    async with serving(handler) as server, wire(server) as client:
        await client.send(GET)
        await client.head()
        assert await client.reader.readexactly(10) == b"5\r\nfirst\r\n"
        go.set()
        assert await client.reader.readexactly(16) == b"6\r\nsecond\r\n0\r\n\r\n"


@pytest.mark.parametrize(("declared", "sent"), [(5, b"abc"), (2, b"abc")], ids=["short", "long"])
async def test_a_stream_that_breaks_its_length_breaks_the_connection(declared: int, sent: bytes) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield sent

    async def handler(_: Request) -> Response:
        return Response(200, {"Content-Length": str(declared)}, pieces())
    async with serving(handler) as server, wire(server) as client:
        await client.send(GET + GET)
        with suppress(ConnectionResetError):
            assert (await client.rest()).count(b"HTTP/1.1") <= 1


async def test_a_slow_reader_holds_a_streaming_handler_back() -> None:
    given = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal given
        while True:
            given += 1
            yield b"x" * 65536

    async def handler(_: Request) -> Response:
        return Response(200, body=pieces())
    async with serving(handler, limits=Limits(write_buffer_bytes=65536)) as server, wire(server) as client:
        await client.send(GET)
        await asyncio.sleep(0.3)
        held_at = given
        assert held_at < 400
        await client.reader.readexactly(10_000_000)
        await eventually(lambda: given > held_at)


async def test_a_stream_that_never_waits_starves_nobody_and_ends_with_its_client() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536

    async def handler(request: Request) -> Response:
        return Response(200, body=pieces()) if request.path == "/" else Response.text("ok")
    async with serving(handler) as server:
        for number in range(5):
            async with wire(server) as greedy, wire(server) as other:
                await greedy.send(GET)
                await greedy.reader.readexactly(100_000 * (number + 1))
                await other.send(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n")
                assert (await other.response())[2] == b"ok"
        await eventually(lambda: server.connections == 0)


async def test_a_fast_sender_is_held_back_by_a_slow_handler() -> None:
    go, taken = asyncio.Event(), 0

    async def handler(request: Request) -> Response:
        nonlocal taken
        await go.wait()
        async for piece in request.stream():
            taken += len(piece)
        return Response.text(str(taken))
    size = 30_000_000
    async with serving(handler, limits=Limits(buffer_bytes=65536)) as server, wire(server) as client:
        client.writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
        await asyncio.sleep(0.2)
        assert client.writer.transport.get_write_buffer_size() > 5_000_000
        go.set()
        assert (await client.response())[2] == b"%d" % size


async def test_a_disconnect_cancels_the_handler_and_closes_its_stream() -> None:
    started, cancelled, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        try:
            yield b"x"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def handler(request: Request) -> Response:
        if request.path == "/stream":
            return Response(200, body=pieces())
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError
    async with serving(handler) as server:
        async with wire(server) as client:
            await client.send(GET)
            await started.wait()
        async with asyncio.timeout(30):
            await cancelled.wait()
        async with wire(server) as client:
            await client.send(b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
            await client.head()
        async with asyncio.timeout(30):
            await closed.wait()
        await eventually(lambda: server.connections == 0)


async def test_expect_continue_is_answered_when_the_handler_reads() -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/no":
            return Response.text("no", 403)
        return Response.text((await request.read()).decode())
    ask = b"POST %b HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    async with serving(handler) as server:
        async with wire(server) as client:
            await client.send(ask % b"/yes")
            assert await client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
            await client.send(b"hello")
            assert (await client.response())[2] == b"hello"
        async with wire(server) as client:
            await client.send(ask % b"/no")
            status, headers, _ = await client.response()
            assert (status, headers["connection"]) == (403, "close")   # whether a body follows cannot be known


async def test_an_unread_body_is_skipped_if_short_and_ends_the_connection_if_long() -> None:
    async with serving(hello, limits=Limits(drain_bytes=1000)) as server:
        async with wire(server) as client:
            await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n")
            assert (await client.response())[0] == 200
            await client.send(b"x" * 900 + GET)
            assert (await client.response())[0] == 200
        async with wire(server) as client:
            await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 9_000_000)
            assert (await client.response())[1]["connection"] == "close"   # readable, although we never read the body


async def test_too_long_a_body_is_413() -> None:
    async with serving(echo, limits=Limits(body_bytes=10)) as server:
        for framing in (b"Content-Length: 11\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nb\r\nxxxxxxxxxxx\r\n"):
            async with wire(server) as client:
                await client.send(b"POST / HTTP/1.1\r\nHost: a\r\n" + framing)
                assert (await client.response())[0] == 413


async def test_what_handlers_raise() -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/status":
            raise StatusError(418, "teapot")
        if request.path == "/cancel":
            raise asyncio.CancelledError
        raise ValueError("secret detail")
    async with serving(handler) as server:
        async with wire(server) as client:
            await client.send(b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await client.response())[::2] == (418, b"teapot\n")
            await client.send(GET)
            status, _, body = await client.response()
            assert status == 500
            assert b"secret" not in body
            await client.send(b"GET /cancel HTTP/1.1\r\nHost: a\r\n\r\n")
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await client.response()
        await eventually(lambda: server.connections == 0)


def test_a_body_is_bytes_or_a_stream() -> None:
    assert Response(200, body=bytearray(b"x")).body == b"x"   # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not str"):
        Response(200, body="x")   # type: ignore[arg-type]


def test_no_value_breaks_out_of_its_header() -> None:
    for name, value in [("X", "a\r\nB: c"), ("X", "a\nB: c"), ("X", "a\0"), ("X\r\nY", "a"), ("X ", "a"), ("", "a"), ("X", "snow☃")]:
        with pytest.raises(ValueError, match="header"):
            Response(200, [(name, value)])


async def test_an_upgrade_hands_the_raw_bytes_over() -> None:
    async def shout(tunnel: Tunnel) -> None:
        while data := await tunnel.read():
            await tunnel.write(data.upper())

    async def handler(_: Request) -> Response:
        return Upgrade(shout, [("Upgrade", "shout")])
    async with serving(handler) as server:
        async with wire(server) as client:
            await client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\nearly")
            head = await client.head()
            assert head.startswith(b"HTTP/1.1 101 ")
            assert b"Connection: Upgrade\r\n" in head
            assert b"Upgrade: shout\r\n" in head
            assert await client.reader.readexactly(5) == b"EARLY"
            await client.send(b"late")
            assert await client.reader.readexactly(4) == b"LATE"
            client.writer.write_eof()
            assert await client.rest() == b""
        await eventually(lambda: server.connections == 0)


async def test_what_peers_send_does_not_stay() -> None:
    """Answers repeat what was asked (a request's id, a host), and what is repeated often is remembered: but not at any length."""
    async def handler(request: Request) -> Response:
        return Response(200, [("X-Request-Id", request.headers["x-request-id"])])
    async with serving(handler) as server, wire(server) as client:
        tracemalloc.start()
        for number in range(200):
            await client.send(b"GET / HTTP/1.1\r\nHost: %d\r\nX-Request-Id: %d%b\r\n\r\n" % (number, number, b"y" * 20_000))
            assert (await client.head()).startswith(b"HTTP/1.1 200 ")
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < 1_000_000
        await client.send(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % (b"h" * 5_000))
        assert (await client.head()).startswith(b"HTTP/1.1 400 ")


def waiting_tunnel(ended: asyncio.Event) -> Handler:
    """Switches protocols, and then waits until it is told to stop."""
    async def wait(_: Tunnel) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def handler(_: Request) -> Response:
        return Upgrade(wait, [("Upgrade", "x")])
    return handler


async def test_the_loss_of_a_tunnel_ends_whoever_runs_it() -> None:
    ended = asyncio.Event()
    handler = waiting_tunnel(ended)
    async with serving(handler, limits=Limits(linger_seconds=0.1)) as server, wire(server) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        await client.head()
        reset(client)
        async with asyncio.timeout(30):
            await ended.wait()


async def test_closing_the_server_ends_tunnels_at_once() -> None:
    ended = asyncio.Event()
    handler = waiting_tunnel(ended)
    async with serving(handler) as server, wire(server) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        await client.head()
        await server.close()
        assert ended.is_set()
        assert server.connections == 0


async def test_host_allow_list() -> None:
    async with serving(hello, hosts=LOOPBACK_HOSTS) as server:
        for host, status in [(b"localhost:%d" % server.port, 200), (b"127.0.0.1", 200), (b"[::1]:1", 200), (b"LOCALHOST", 200),
                             (b"evil.example", 421), (b"localhost.evil.example", 421), (b"127.0.0.1.evil.example", 421)]:
            async with wire(server) as client:
                await client.send(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host)
                assert (await client.response())[0] == status, host


async def test_drain_lets_requests_finish_and_says_goodbye() -> None:
    go = asyncio.Event()

    async def handler(_: Request) -> Response:
        await go.wait()
        return Response.text("done")
    async with serving(handler) as server, wire(server) as busy, wire(server) as idle:
        await busy.send(GET)
        await eventually(lambda: server.metrics.in_flight == 1)
        draining = asyncio.ensure_future(server.drain(30))
        assert await idle.rest() == b""
        with pytest.raises(OSError):   # noqa: PT011
            await asyncio.open_connection("127.0.0.1", server.port if server._listener else 1)
        go.set()
        status, headers, body = await busy.response()
        assert (status, headers["connection"], body) == (200, "close", b"done")
        await draining
        assert server.connections == 0


async def test_drain_ends_what_takes_too_long() -> None:
    async def handler(_: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError
    async with serving(handler) as server, wire(server) as client:
        await client.send(GET)
        await eventually(lambda: server.metrics.in_flight == 1)
        await asyncio.wait_for(server.drain(0.05), 30)
        assert server.metrics.in_flight == 0


async def test_socket_file(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for _ in range(2):   # the second time it replaces what the first left behind
        async with serving(hello, unix=path) as server:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(GET)
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            writer.close()
            assert server.port == 0


async def test_metrics_and_access_log() -> None:
    lines: list[bytes] = []
    log = AccessLog(lines.append)
    async with serving(hello, access_log=log) as server, wire(server) as client:
        await client.send(b"GET /a?token=secret HTTP/1.1\r\nHost: a\r\n\r\n")
        await client.response()
        await client.send(b"nonsense\r\n\r\n")
        await client.response()
        await log.flush()
        text = server.metrics.render()
    entry = msgspec.json.decode(lines[0])
    assert (entry["method"], entry["path"], entry["status"], entry["bytes"]) == ("GET", "/a", 200, 5)
    assert b"secret" not in lines[0]
    assert 'serveplane_http_request_duration_seconds_count{method="GET",code="200"} 1' in text
    assert 'serveplane_http_refused_total{code="400"} 1' in text
    assert "serveplane_http_connections 1" in text
