"""Forwarding: what is kept, what is removed, what is said when the origin fails."""
import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from serveplane.http import Client, Origin, Request, Response, Server, Timeouts, Tunnel, Upgrade
from serveplane.http.proxy import Proxy
from tests.unit.http.wires import answer, echo, eventually, origin, reset, serving, wire


@asynccontextmanager
async def proxying(port: int, *, options: dict[str, Any] | None = None, **forward: Any) -> AsyncIterator[Server]:
    proxy = Proxy(**(options or {}))

    def handler(request: Request) -> Awaitable[Response]:
        return proxy.forward(request, Origin("http", "127.0.0.1", port), **forward)
    async with serving(handler) as server:
        yield server
    await proxy.client.close()


async def told(server: Server, fields: dict[str, str], **options: Any) -> dict[str, str]:
    async with Client() as client:
        answer = await (await client.request("GET", f"{server.url}/a%2Fb?c=d", headers=fields, **options)).json()
        return {"path": answer["path"], "query": answer["query"], **{name.lower(): value for name, value in answer["headers"]}}


async def test_what_is_forwarded() -> None:
    sent = {"Host": "iris.example", "X-Own": "1", "Connection": "x-hop, keep-alive", "X-Hop": "1", "Keep-Alive": "3", "TE": "trailers",
            "Proxy-Authorization": "secret", "X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https", "Upgrade": "h2c", "Expect": "x"}
    async with serving(echo) as behind, proxying(behind.port) as server:
        got = await told(server, sent)
    assert (got["path"], got["query"], got["host"], got["x-own"], got["via"]) == ("/a%2Fb", "c=d", "iris.example", "1", "1.1 serveplane")
    assert (got["x-forwarded-for"], got["x-forwarded-proto"], got["x-forwarded-host"]) == ("127.0.0.1", "http", "iris.example")
    assert not {"connection", "x-hop", "keep-alive", "te", "proxy-authorization", "upgrade", "expect"} & got.keys()


async def test_options_of_forwarding() -> None:
    async with serving(echo) as behind, proxying(behind.port, options={"trust_forwarded": True}, target="/other?x", host="b.example",
                                                 add=[("X-Added", "1")]) as server:
        got = await told(server, {"X-Forwarded-For": "6.6.6.6", "X-Added": "0"})
    assert (got["path"], got["query"], got["host"], got["x-added"]) == ("/other", "x", "b.example", "1")
    assert got["x-forwarded-for"] == "6.6.6.6, 127.0.0.1"


async def test_the_answer_comes_back_without_its_connection() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(answer(201, b"made", b"Connection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\nSet-Cookie: a\r\n"
                                              b"Set-Cookie: b\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"))
    async with origin(script) as port, proxying(port) as server, Client() as client:
        response = await client.request("GET", server.url)
        assert (response.status, await response.read()) == (201, b"made")
        assert response.headers.get_all("set-cookie") == ["a", "b"]
        assert response.headers.get_all("date") == ["Sun, 06 Nov 1994 08:49:37 GMT"]
        assert not {"x-hop", "keep-alive", "connection"} & {name.lower() for name, _ in response.headers}


async def test_bodies_stream_both_ways() -> None:
    async def handler(request: Request) -> Response:
        return Response(200, body=request.stream())   # echo while it still comes

    async def pieces() -> AsyncIterator[bytes]:
        for number in range(200):
            yield b"%d" % (number % 10) * 10_000
    async with serving(handler) as behind, proxying(behind.port) as server, Client() as client:
        for headers in ({}, {"Content-Length": "2000000"}):
            response = await client.request("POST", server.url, body=pieces(), headers=headers)
            body = await response.read()
            assert len(body) == 2_000_000
            assert body == b"".join([piece async for piece in pieces()])


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_lengths_survive(method: str) -> None:
    async def handler(_: Request) -> Response:
        return Response(200, body=b"x" * 300_000)
    async with serving(handler) as behind, proxying(behind.port) as server, Client() as client:
        response = await client.request(method, server.url)
        assert response.headers["content-length"] == "300000"
        assert len(await response.read()) == (300_000 if method == "GET" else 0)


async def test_an_origin_that_breaks_off_breaks_the_answer_off() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)
    async with origin(script) as port, proxying(port) as server, wire(server) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        with suppress(ConnectionResetError):
            assert not (await client.rest()).endswith(b"0\r\n\r\n")   # never passed off as complete


@pytest.mark.parametrize(("script_does", "status"), [("nothing", 504), ("nonsense", 502), ("close", 502), ("absent", 503)])
async def test_failures_of_the_origin(script_does: str, status: int) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if script_does == "nothing":
            await reader.read()
        if script_does == "nonsense":
            writer.write(b"nonsense\r\n\r\n")
    async with origin(script) as port:
        port = 1 if script_does == "absent" else port
        async with proxying(port, options={"timeouts": Timeouts(1, 0.1, None)}) as server, Client() as client:
            assert (await client.request("POST", server.url, body=b"x")).status == status


async def test_a_bad_body_of_the_client_is_400_and_never_complete_for_the_origin() -> None:
    complete = broken = 0

    async def handler(request: Request) -> Response:
        nonlocal complete, broken
        try:
            await request.read()
        except BaseException:
            broken += 1
            raise
        complete += 1
        return Response(200)
    async with serving(handler) as behind, proxying(behind.port) as server:
        async with wire(server) as client:
            await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            await eventually(lambda: behind.metrics.in_flight == 1)
            await client.send(b"nonsense\r\n")
            assert (await client.response())[0] == 400
        await eventually(lambda: broken == 1)
        async with wire(server) as client:
            await client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            await eventually(lambda: behind.metrics.in_flight == 1)
            reset(client)
        await eventually(lambda: broken == 2)
        assert complete == 0


async def test_a_client_that_leaves_takes_the_origins_request_along() -> None:
    async def handler(_: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError
    async with serving(handler) as behind, proxying(behind.port) as server:
        async with wire(server) as client:
            await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await eventually(lambda: behind.metrics.in_flight == 1)
        await eventually(lambda: behind.metrics.in_flight == 0)
        await eventually(lambda: behind.connections == 0)


async def test_upgrades_are_joined() -> None:
    async def shout(tunnel: Tunnel) -> None:
        while data := await tunnel.read():
            await tunnel.write(data.upper())

    async def handler(request: Request) -> Response:
        assert request.headers.tokens("connection") == ["upgrade"]
        return Upgrade(shout, [("Upgrade", "websocket"), ("Sec-WebSocket-Accept", "x")])
    async with serving(handler) as behind, proxying(behind.port) as server, wire(server) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n")
        head = await client.head()
        assert b" 101 " in head
        assert b"Sec-WebSocket-Accept: x" in head
        await client.send(b"x" * 500_000)
        assert await client.reader.readexactly(500_000) == b"X" * 500_000
        client.writer.write_eof()
        assert await client.rest() == b""
        await eventually(lambda: server.connections == 0 and behind.connections == 0)


async def test_a_refused_upgrade_is_an_ordinary_answer() -> None:
    async with serving(echo) as behind, proxying(behind.port) as server, wire(server) as client:
        for _ in range(2):
            await client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            assert (await client.response())[0] == 200
