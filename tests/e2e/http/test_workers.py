"""Several processes on one port, and one that is drained while requests come in."""
import asyncio
import os
import signal
import socket
import subprocess
import sys

from serveplane.http import Client, ClientError
from tests.unit.http.wires import eventually

WORKER = """
import asyncio, os, signal, sys
from serveplane.http import Request, Response, run, serve

async def handler(request: Request) -> Response:
    await asyncio.sleep(0.005)
    return Response.text(str(os.getpid()))

async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = await serve(handler, port=int(sys.argv[1]), reuse_port=True)
    print("ready", flush=True)
    await stop.wait()
    await server.drain(10)
run(main())
"""


async def test_workers_share_a_port_and_drain_without_a_lost_request() -> None:
    with socket.socket() as reserved:   # bound but not listening: holds the port for the workers
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        workers = [start(port) for _ in range(2)]
        try:
            for worker in workers:
                assert worker.stdout is not None
                assert await asyncio.to_thread(worker.stdout.readline) == b"ready\n"
            await share(port, workers)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
                worker.stdout.close()   # type: ignore[union-attr]


def start(port: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WORKER, str(port)], stdout=subprocess.PIPE)


async def share(port: int, workers: list[subprocess.Popen[bytes]]) -> None:
    seen: set[str] = set()
    failed: list[ClientError] = []
    over = False
    async with Client() as client:
        async def ask() -> None:
            while not over:
                try:
                    seen.add((await (await client.request("GET", f"http://127.0.0.1:{port}/")).read()).decode())
                except ClientError as error:
                    failed.append(error)
        asking = [asyncio.ensure_future(ask()) for _ in range(30)]
        await eventually(lambda: len(seen) == 2, 30)
        os.kill(workers[0].pid, signal.SIGTERM)
        assert await asyncio.to_thread(workers[0].wait, 30) == 0
        seen.clear()
        await eventually(lambda: len(seen) == 1, 30)
        over = True
        await asyncio.gather(*asking)
        assert seen == {str(workers[1].pid)}
        # A connection the kernel had given to the leaving worker but nobody had accepted is reset; everything accepted was answered.
        assert all("connect" in str(error) or "reset" in str(error) for error in failed), failed[:3]
