"""Many connections and slow ones, against a server in a process of its own: memory, tasks and descriptors come back, others are served."""
import asyncio
import gc
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from serveplane.http import Client
from tests.counts import COUNTS

SERVER = """
import asyncio, gc, os, sys
from serveplane.http import Limits, Request, Response, run, serve

async def handler(request: Request) -> Response:
    if request.path == "/stats":
        gc.collect()
        resident = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return Response.json({"resident": resident, "tasks": len(asyncio.all_tasks()), "descriptors": len(os.listdir("/proc/self/fd")),
                              "connections": server.connections})
    return Response(200, body=await request.read())

async def main() -> None:
    global server
    limits = Limits(head_seconds=float(sys.argv[1]), pace_seconds=float(sys.argv[1]), linger_seconds=0.5)
    server = await serve(handler, limits=limits)
    print(server.port, flush=True)
    await asyncio.Event().wait()
run(main())
"""


@pytest.fixture(params=["uvloop", "asyncio"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("needs /proc to see memory and descriptors")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < COUNTS.connections + 500:
        pytest.skip(f"needs {COUNTS.connections + 500} descriptors, the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(COUNTS.connections + 500, 1024), hard))
    environment = {**os.environ, "SERVEPLANE_LOOP": request.param}
    process = subprocess.Popen([sys.executable, "-c", SERVER, "2.0"], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    yield int(process.stdout.readline())
    process.terminate()
    process.wait()
    process.stdout.close()


async def stats(client: Client, port: int) -> dict[str, int]:
    return dict(await (await client.request("GET", f"http://127.0.0.1:{port}/stats", timeout=60)).json())


async def settled(client: Client, port: int, connections: int) -> dict[str, int]:
    """Once only so many connections are left."""
    async with asyncio.timeout(120):
        while (now := await stats(client, port))["connections"] > connections:   # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return now


class Sitter(asyncio.Protocol):
    """Sends a beginning and then waits for the end."""

    def __init__(self, beginning: bytes) -> None:
        self.beginning = beginning
        self.ended = asyncio.get_running_loop().create_future()
        self.answered = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.write(self.beginning)   # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if not self.answered.done():
            self.answered.set_result(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def sit(port: int, count: int, beginning: bytes) -> list[Sitter]:
    loop, sitters = asyncio.get_running_loop(), []
    for _ in range(count):
        with suppress(OSError):
            sitters.append((await loop.create_connection(lambda: Sitter(beginning), "127.0.0.1", port))[1])
    return sitters


BEGINNINGS = [b"", b"G", b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\nx",
              b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe"]


@pytest.mark.stress
@pytest.mark.asyncio(loop_factories=["uvloop"])
async def test_slow_loris(port: int) -> None:
    """Half-open requests of every kind: all are ended by the limits, and meanwhile others are answered."""
    async with Client() as client:
        after: list[dict[str, int]] = []
        for _ in range(3):   # the first two are the warm-up
            sitters: list[Sitter] = []
            for beginning in BEGINNINGS:
                sitters += await sit(port, COUNTS.slow_connections // len(BEGINNINGS), beginning)
            for number in range(20):
                response = await client.request("POST", f"http://127.0.0.1:{port}/", body=b"%d" % number, timeout=30)
                assert await response.read() == b"%d" % number
            async with asyncio.timeout(120):
                await asyncio.gather(*(sitter.ended for sitter in sitters))
            after.append(await settled(client, port, 1))
        came_back(*after[-2:])


@pytest.mark.stress
@pytest.mark.asyncio(loop_factories=["uvloop"])
async def test_many_connections(port: int) -> None:
    """All are served, idle and busy ones; when they leave nothing stays."""
    request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
    async with Client() as client:
        after: list[dict[str, int]] = []
        for _ in range(3):
            sitters = await sit(port, COUNTS.connections, request)
            assert len(sitters) == COUNTS.connections
            async with asyncio.timeout(120):
                answers = await asyncio.gather(*(sitter.answered for sitter in sitters))
            assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
            assert (await stats(client, port))["connections"] == COUNTS.connections + 1
            for number in range(20):
                response = await client.request("POST", f"http://127.0.0.1:{port}/", body=b"%d" % number, timeout=30)
                assert await response.read() == b"%d" % number
            for sitter in sitters:
                sitter.transport.abort()   # type: ignore[attr-defined]
            after.append(await settled(client, port, 1))
        gc.collect()
        came_back(*after[-2:])


def came_back(warm: dict[str, int], now: dict[str, int]) -> None:
    assert now["resident"] <= warm["resident"] * 1.10, (warm, now)
    assert now["tasks"] <= warm["tasks"], (warm, now)
    assert now["descriptors"] <= warm["descriptors"], (warm, now)
