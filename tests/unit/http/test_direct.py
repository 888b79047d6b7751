"""Answers without a task: given at once, given later by somebody else, or forwarded over a kept connection."""
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from serveplane.http import (
    Client,
    Headers,
    Later,
    Origin,
    Request,
    Response,
    Server,
    StatusError,
    Timeouts,
    Tunnel,
    Upgrade,
)
from serveplane.http.proxy import Proxy
from tests.unit.http.wires import Wire, answer, echo, eventually, origin, reset, serving, wire

GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"


# at once

async def test_pipelined_answers_at_once_keep_their_order() -> None:
    def handler(request: Request) -> Response:
        return Response(200, FIXED, request.path.encode())
    async with serving(handler) as server, wire(server) as client:
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(2000)))
        for number in range(2000):
            assert (await client.response())[2] == b"/%d" % number
        assert (server.metrics.in_flight, server.metrics.total(200)) == (0, 2000)

FIXED = Headers.fixed([("Content-Type", "text/x"), ("X-Own", "1")])


async def test_fixed_fields_are_sent_beside_ours() -> None:
    async with serving(lambda _: Response(200, FIXED, b"yes")) as server, wire(server) as client:
        await client.send(GET)
        _, headers, body = await client.response()
        assert (headers["content-type"], headers["x-own"], headers["content-length"], body) == ("text/x", "1", "3", b"yes")
        assert "date" in headers


async def test_streams_and_refusals_need_no_coroutine_either() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"abc"

    def handler(request: Request) -> Response:
        if request.path == "/stream":
            return Response(200, body=pieces())
        raise StatusError(418, "no") if request.path == "/no" else KeyError("bug")
    async with serving(handler) as server, Client() as client:
        assert await (await client.request("GET", f"{server.url}/stream")).read() == b"abcabcabc"
        assert (await client.request("GET", f"{server.url}/no")).status == 418
        assert (await client.request("GET", f"{server.url}/bug")).status == 500
        assert server.metrics.in_flight == 0


async def test_a_body_nobody_read_does_not_become_a_request() -> None:
    async with serving(lambda _: Response.text("ok")) as server, wire(server) as client:
        for _ in range(2):
            await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n")
            assert (await client.response())[0] == 200
            await client.send(GET.ljust(40))
        await client.send(GET)
        assert (await client.response())[0] == 200
        assert server.metrics.total() == 3


# later

async def test_many_answers_by_one_hand() -> None:
    waiting: list[Later] = []

    def handler(request: Request) -> Later:
        waiting.append(Later(request))
        return waiting[-1]
    async with serving(handler) as server, wire(server) as one, wire(server) as other, wire(server) as leaving:
        for client in (one, other, leaving):
            await client.send(GET)
        await eventually(lambda: len(waiting) == 3)
        reset(leaving)
        await eventually(lambda: waiting[2].gone and server.connections == 2)
        for later in waiting:
            later.answer(Response(200, FIXED, b"done"))
            later.answer(Response(500))   # the first one counts
        assert [(await client.response())[2] for client in (one, other)] == [b"done", b"done"]
        assert server.metrics.in_flight == 0


async def test_a_later_answer_can_be_awaited_as_well() -> None:
    async def handler(request: Request) -> Response:
        later = Later(request)
        asyncio.get_running_loop().call_later(0.01, later.answer, Response.text("late"))
        return await later
    async with serving(handler) as server, Client() as client:
        assert await (await client.request("GET", server.url)).read() == b"late"


# forwarded

@asynccontextmanager
async def warm(handler: Callable[[Request], Awaitable[Response]], **options: object) -> AsyncIterator[tuple[Server, Wire, Server]]:
    """A proxy before an origin, and a client; one request has gone through, so a connection to the origin is kept."""
    async with serving(handler) as behind:
        proxy, target = Proxy(**options), Origin("http", "127.0.0.1", behind.port)   # type: ignore[arg-type]
        async with serving(lambda request: proxy.forward(request, target)) as server, wire(server) as client:
            await client.send(b"GET /warm HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await client.response())[0] == 200
            yield server, client, behind
        await proxy.client.close()


async def at_rest(request: Request) -> Response:
    if request.path != "/warm":
        await asyncio.Event().wait()
    return Response.text("ok")


async def test_no_task_waits_for_the_origin() -> None:
    async with warm(at_rest) as (server, client, behind):
        before = asyncio.all_tasks()
        await client.send(POST)
        await eventually(lambda: behind.metrics.in_flight == 1)
        assert len(asyncio.all_tasks() - before) == 1   # the origin's own handler
        assert server.metrics.in_flight == 1


@pytest.mark.parametrize("leave", [reset, lambda client: client.writer.close()], ids=["RST", "FIN"])
async def test_who_leaves_takes_the_forwarded_request_along(leave: Callable[[Wire], None]) -> None:
    async with warm(at_rest) as (server, client, behind):
        await client.send(POST)
        await eventually(lambda: behind.metrics.in_flight == 1)
        leave(client)
        await eventually(lambda: behind.metrics.in_flight == 0 and behind.connections == 0)
        await eventually(lambda: server.connections == 0 and server.metrics.in_flight == 0)


async def test_draining_lets_a_forwarded_request_finish() -> None:
    release = asyncio.Event()

    async def handler(request: Request) -> Response:
        if request.path != "/warm":
            await release.wait()
        return Response.text("ok")
    async with warm(handler) as (server, client, behind):
        await client.send(POST)
        await eventually(lambda: behind.metrics.in_flight == 1)
        draining = asyncio.ensure_future(server.drain(30))
        await asyncio.sleep(0.01)
        release.set()
        status, headers, body = await client.response()
        assert (status, headers["connection"], body) == (200, "close", b"ok")
        await draining


async def test_what_comes_back_in_pieces_is_streamed() -> None:
    async def handler(request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(50):
                yield b"x" * 20_000
        return Response.text("ok") if request.path == "/warm" else Response(200, [("X-Own", "1")], pieces())
    async with warm(handler) as (server, _, _), Client() as client:
        for _ in range(3):
            response = await client.request("GET", f"{server.url}/x")
            assert (response.headers["x-own"], len(await response.read())) == ("1", 1_000_000)
        assert server.metrics.in_flight == 0


@pytest.mark.parametrize(("request_", "status", "body"), [
    (b"HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n", 200, b""), (b"GET /204 HTTP/1.1\r\nHost: a\r\n\r\n", 204, b""),
    (b"GET /x HTTP/1.0\r\n\r\n", 200, b"ok"), (b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200, b"ok"),
    (b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200, b"ok")])
async def test_forms_of_requests(request_: bytes, status: int, body: bytes) -> None:
    async def handler(request: Request) -> Response:
        await request.read()
        return Response(204) if request.path == "/204" else Response.text("ok")
    async with warm(handler) as (_, client, behind):
        await client.send(request_)
        head = (await client.head()).decode()
        assert head.startswith(f"HTTP/1.1 {status} ")
        assert await client.reader.read(len(body)) == body if body else True
        assert behind.metrics.total() == 2
        if "close" in head.lower():
            assert await client.rest() == b""
        else:
            await client.send(GET)
            assert (await client.response())[2] == b"ok"


async def test_pipelined_requests_are_forwarded_in_order() -> None:
    async with warm(echo) as (_, client, _):
        await client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(100)))
        for number in range(100):
            assert b'"path":"/%d"' % number in (await client.response())[2]


async def test_an_upgrade_over_a_kept_connection() -> None:
    async def shout(tunnel: Tunnel) -> None:
        while data := await tunnel.read():
            await tunnel.write(data.upper())

    async def handler(request: Request) -> Response:
        return Upgrade(shout, [("Upgrade", "websocket")]) if "upgrade" in request.headers else Response.text("ok")
    async with warm(handler) as (_, client, _):
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert b" 101 " in await client.head()
        await client.send(b"abc")
        assert await client.reader.readexactly(3) == b"ABC"


async def test_an_origin_that_falls_silent_is_a_504() -> None:
    async with warm(at_rest, timeouts=Timeouts(1, 0.1, None)) as (server, client, _):
        await client.send(POST)
        assert (await client.response())[0] == 504
        assert server.metrics.in_flight == 0


@pytest.mark.parametrize(("request_", "reply", "status"), [
    (POST, b"", 502), (POST.replace(b"Host", b"Idempotency-Key: 1\r\nHost"), b"", 200), (GET, b"", 200),
    (GET, b"HTTP/1.1 200", 502), (GET, b"nonsense\r\n\r\n", 502)],
    ids=["a POST is sent once", "unless it has a key", "a GET again", "half an answer", "nonsense"])
async def test_a_kept_connection_that_fails(request_: bytes, reply: bytes, status: int) -> None:
    connections = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
    async with origin(script) as port:
        proxy, target = Proxy(), Origin("http", "127.0.0.1", port)
        async with serving(lambda request: proxy.forward(request, target)) as server, wire(server) as client:
            await client.send(GET)
            assert (await client.response())[0] == 200
            await client.send(request_)
            assert (await client.response())[0] == status
            assert connections == (2 if status == 200 else 1)
            assert server.metrics.in_flight == 0
        await proxy.client.close()
