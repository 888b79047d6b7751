"""Peers that go away at every byte position: nothing half-read is acted upon, nothing is left behind."""
import asyncio
import gc
from collections.abc import Awaitable

import pytest

from serveplane.http import Client, HttpError, Origin, Request, Response
from serveplane.http.proxy import Proxy
from tests.unit.http.wires import eventually, origin, reset, serving, wire

REQUEST = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nT: v\r\n\r\n"
ANSWERS = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
           b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]


def tasks() -> int:
    return len(asyncio.all_tasks())


@pytest.mark.parametrize("hard", [False, True], ids=["FIN", "RST"])
async def test_clients_that_leave_at_every_byte(hard: bool) -> None:
    complete = 0

    async def handler(request: Request) -> Response:
        nonlocal complete
        await request.read()
        complete += 1
        return Response.text("ok")
    async with serving(handler) as server:
        before = tasks()
        for size in range(len(REQUEST)):
            async with wire(server) as client:
                await client.send(REQUEST[:size])
                if size % 7 == 0:
                    await asyncio.sleep(0)
                if hard:
                    reset(client)
        await eventually(lambda: server.connections == 0)
        assert complete == 0
        async with wire(server) as client:
            await client.send(REQUEST)
            assert (await client.response())[0] == 200
        await eventually(lambda: server.connections == 0 and tasks() == before)
        assert server.metrics.in_flight == 0


@pytest.mark.parametrize("whole", ANSWERS, ids=["length", "chunked"])
@pytest.mark.parametrize("through_proxy", [False, True], ids=["client", "proxy"])
async def test_origins_that_leave_at_every_byte(whole: bytes, through_proxy: bool) -> None:
    """Never a half answer passed off as a whole one, and no connection of the pool lost."""
    size = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(whole[:size])
    async with origin(script) as port, Client() as client:
        proxy = Proxy(client)

        def handler(request: Request) -> Awaitable[Response]:
            return proxy.forward(request, Origin("http", "127.0.0.1", port))
        async with serving(handler) as server, Client() as outer:
            asking, url = (outer, server.url) if through_proxy else (client, f"http://127.0.0.1:{port}/")
            for size in range(len(whole) + 1):
                try:
                    response = await asking.request("GET", url, timeout=30)
                    body = await response.read()
                    got = response.status, body
                except HttpError:
                    got = 0, b""
                assert got == (200, b"hello") if size == len(whole) else got[0] in (0, 502), (size, got)
            for pool in client._pools.values():
                await eventually(lambda pool=pool: pool.open == pool.idle)   # type: ignore[misc]
        gc.collect()
