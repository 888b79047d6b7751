"""Clients that other people wrote. A tool that is not here is reported as a skip with its name."""
import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path

import pytest

from serveplane.http import ClientTls, Origin, Request, Response, Router, Server, TlsConfig, Tunnel, Upgrade
from serveplane.http.http2 import Http2Proxy
from serveplane.http.proxy import Proxy
from tests.unit.http.certificates import Authority
from tests.unit.http.wires import eventually, serving

BIG = b"x" * 3_000_000


async def echo(request: Request) -> Response:
    return Response(200, {"Content-Type": "application/octet-stream"}, await request.read())


async def lines() -> AsyncIterator[bytes]:
    for number in range(3):
        yield b"%d\n" % number
        await asyncio.sleep(0)


async def stream(_: Request) -> Response:
    return Response(200, {"Content-Type": "text/plain"}, lines())


async def refuse(_: Request) -> Response:
    return Response.text("no", 403)


async def wait(_: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError


ROUTES = Router([("*", "/echo", echo), ("GET", "/stream", stream), ("POST", "/refuse", refuse), ("GET", "/wait", wait)])


@asynccontextmanager
async def both() -> AsyncIterator[list[Server]]:
    """The server itself, and the same behind our proxy: what a client can tell apart would be a fault."""
    async with serving(ROUTES) as server:
        proxy, target = Proxy(), Origin("http", "127.0.0.1", server.port)

        async def forward(request: Request) -> Response:
            return await proxy.forward(request, target)
        async with serving(forward) as front:
            yield [server, front]
        await proxy.client.close()


async def program(*words: str, stdin: bytes = b"", seconds: float = 120) -> str:
    process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                                                   stderr=asyncio.subprocess.PIPE)
    out, err = await asyncio.wait_for(process.communicate(stdin), seconds)
    assert process.returncode == 0, err.decode()
    return out.decode("latin-1")


def tool(name: str, package: str | None = None) -> str:
    """Where a program is; root on a Debian gets it installed, others are told what is missing."""
    path = shutil.which(name) or (installed(name, package) if package else None)
    if path is None:
        pytest.skip(f"{name} is not installed{f' (apt-get install {package})' if package else ''}")
    return path


@lru_cache
def installed(name: str, package: str) -> str | None:
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return None
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = [apt, "install", "-y", "-q", "--no-install-recommends", package]
    for command in (install, [apt, "update", "-q"], install):   # the lists may be old, or not there at all
        subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False)
        if shutil.which(name):
            break
    return shutil.which(name)


async def test_curl(tmp_path: Path) -> None:
    curl = tool("curl")
    big = tmp_path / "big"
    big.write_bytes(BIG)
    async with both() as servers:
        for server in servers:
            assert await program(curl, "-sS", f"{server.url}/stream") == "0\n1\n2\n"
            two = await program(curl, "-sS", "-w", "%{num_connects}", f"{server.url}/stream", f"{server.url}/stream")
            assert two == "0\n1\n2\n10\n1\n2\n0"   # the second on the first's connection
            assert len(await program(curl, "-sS", "--data-binary", f"@{big}", f"{server.url}/echo")) == len(BIG)   # with Expect
            chunked = ["-H", "Transfer-Encoding: chunked", "-H", "Expect:"]
            assert len(await program(curl, "-sS", *chunked, "--data-binary", f"@{big}", f"{server.url}/echo")) == len(BIG)
            assert len(await program(curl, "-sS", "-T", "-", "-X", "POST", f"{server.url}/echo", stdin=BIG)) == len(BIG)
            assert "403" in await program(curl, "-sS", "-o", "-", "-w", "%{http_code}", "--data-binary", f"@{big}", f"{server.url}/refuse")
            assert "HTTP/1.1 200" in await program(curl, "-sS", "-I", f"{server.url}/stream")
            assert await program(curl, "-sS", "-0", f"{server.url}/stream") == "0\n1\n2\n"
            assert await program(curl, "-sS", "--http2", "-d", "hello", f"{server.url}/echo") == "hello"   # h2c is offered and ignored


async def test_curl_over_tls_and_a_socket_file(tmp_path: Path) -> None:
    curl = tool("curl")
    authority = Authority(tmp_path)
    async with serving(ROUTES, tls=TlsConfig(*authority.issue("server", "server"))) as server:
        assert await program(curl, "-sS", "--cacert", str(authority.file), f"{server.url}/stream") == "0\n1\n2\n"
    async with serving(ROUTES, unix=tmp_path / "s"):
        assert await program(curl, "-sS", "--unix-socket", str(tmp_path / "s"), "http://x/stream") == "0\n1\n2\n"


async def test_python_requests() -> None:
    import requests

    def talk(url: str) -> None:
        with requests.Session() as session:
            for number in range(5):
                assert session.post(f"{url}/echo", data=str(number)).text == str(number)
            assert session.post(f"{url}/echo", data=(BIG[at:at + 100_000] for at in range(0, len(BIG), 100_000))).content == BIG
            assert list(session.get(f"{url}/stream", stream=True).iter_lines()) == [b"0", b"1", b"2"]
            assert session.head(f"{url}/echo").status_code == 200
    async with both() as servers:
        for server in servers:
            await asyncio.to_thread(talk, server.url)


async def test_httpx() -> None:
    import httpx

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(BIG), 100_000):
            yield BIG[at:at + 100_000]
    async with both() as servers, httpx.AsyncClient(timeout=30) as client:
        for server in servers:
            assert (await client.post(f"{server.url}/echo", content=b"hi")).content == b"hi"
            assert (await client.post(f"{server.url}/echo", content=pieces())).content == BIG
            async with client.stream("GET", f"{server.url}/stream") as response:
                assert [line async for line in response.aiter_lines()] == ["0", "1", "2"]


async def test_aiohttp() -> None:
    import aiohttp
    async with both() as servers, aiohttp.ClientSession() as session:
        for server in servers:
            async with session.post(f"{server.url}/echo", data=BIG, expect100=True) as response:
                assert await response.read() == BIG
            async with session.get(f"{server.url}/stream") as response:
                assert [line async for line in response.content] == [b"0\n", b"1\n", b"2\n"]
            with pytest.raises(TimeoutError):
                async with session.get(f"{server.url}/wait", timeout=aiohttp.ClientTimeout(0.2)):
                    pass
        for server in servers:
            await eventually(lambda server=server: server.metrics.in_flight == 0)   # type: ignore[misc]


async def test_our_client_talks_to_aiohttps_server() -> None:
    from aiohttp import web

    from serveplane.http import Client

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(body)
        await response.write_eof()
        return response
    app = web.Application(client_max_size=10_000_000)
    app.router.add_route("*", "/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with Client() as client:
        for body in (b"", b"hello", BIG):
            assert await (await client.request("POST", f"http://127.0.0.1:{port}/", body=body)).read() == body
        assert await (await client.request("HEAD", f"http://127.0.0.1:{port}/")).read() == b""
    await runner.cleanup()


async def test_websockets_through_the_proxy() -> None:
    """A server and a client of the websockets library, with our proxy in between."""
    import websockets

    async def parrot(connection: websockets.ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)
    async with websockets.serve(parrot, "127.0.0.1", 0, max_size=None) as behind:
        proxy, target = Proxy(), Origin("http", "127.0.0.1", behind.sockets[0].getsockname()[1])

        async def forward(request: Request) -> Response:
            return await proxy.forward(request, target)
        async with serving(forward) as server:
            async with websockets.connect(f"ws://127.0.0.1:{server.port}/x", max_size=None) as client:
                for message in ("hello", "ü" * 100_000, BIG):
                    await client.send(message)
                    assert await client.recv() == message
            await eventually(lambda: server.connections == 0)
        await proxy.client.close()


async def test_a_websocket_of_our_own() -> None:
    """The library's client against `Upgrade`, with the least of RFC 6455 on our side."""
    import base64
    import hashlib

    import websockets

    async def frames(tunnel: Tunnel) -> None:
        head = await tunnel.read_exactly(2)
        mask = await tunnel.read_exactly(4)
        text = await tunnel.read_exactly(head[1] & 0x7F)
        await tunnel.write(bytes((0x81, len(text))) + bytes(byte ^ mask[place % 4] for place, byte in enumerate(text)))
        await tunnel.read()

    async def handler(request: Request) -> Response:
        key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        return Upgrade(frames, {"Upgrade": "websocket", "Sec-WebSocket-Accept": accept})
    async with serving(handler) as server, websockets.connect(f"ws://127.0.0.1:{server.port}/", close_timeout=1) as client:
        await client.send("hello")
        assert await client.recv() == "hello"


async def test_go_net_http(tmp_path: Path) -> None:
    go = tool("go")
    binary = tmp_path / "client"
    source = Path(__file__).parent / "goclient"
    await program(go, "build", "-C", str(source), "-o", str(binary), ".", seconds=900)   # cold, it compiles Go's library too
    async with both() as servers:
        for server in servers:
            assert await program(str(binary), server.url) == "ok\n"


async def test_wrk() -> None:
    wrk = tool("wrk", package="wrk")
    async with both() as servers:
        for server in servers:
            report = await program(wrk, "-t1", "-c16", "-d1s", f"{server.url}/stream")
            assert "Non-2xx" not in report
            assert "Socket errors" not in report


async def test_grpc_passes_through() -> None:
    """grpc.aio on both ends: unary, streams both ways, metadata, errors, flow control, and another authority."""
    grpc = pytest.importorskip("grpc", reason="grpcio is not installed")

    async def unary(request: bytes, context: object) -> bytes:
        return request.upper()

    async def down(request: bytes, context: object) -> AsyncIterator[bytes]:
        for _ in range(5):
            yield request

    async def both_ways(requests: AsyncIterator[bytes], context: object) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request

    async def fail(request: bytes, context: object) -> bytes:
        await context.abort(grpc.StatusCode.NOT_FOUND, "no such model")   # type: ignore[attr-defined]
        raise AssertionError
    methods = {"U": grpc.unary_unary_rpc_method_handler(unary), "D": grpc.unary_stream_rpc_method_handler(down),
               "B": grpc.stream_stream_rpc_method_handler(both_ways), "F": grpc.unary_unary_rpc_method_handler(fail)}
    behind = grpc.aio.server()
    behind.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", methods),))
    target = Origin("http", "127.0.0.1", behind.add_insecure_port("127.0.0.1:0"))
    await behind.start()

    async def choose(request: Request) -> Origin | None:
        return target if request.path.startswith("/t.T/") else None

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(8):
            yield b"z" * 1_000_000
    async with serving(ROUTES, http2=Http2Proxy(choose)) as server:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            answers = await asyncio.gather(*(channel.unary_unary("/t.T/U")(b"%d a" % number) for number in range(50)))
            assert answers == [b"%d A" % number for number in range(50)]
            assert [piece async for piece in channel.unary_stream("/t.T/D")(b"x" * 100_000)] == [b"x" * 100_000] * 5
            assert sum([len(piece) async for piece in channel.stream_stream("/t.T/B")(pieces())]) == 8_000_000
            with pytest.raises(grpc.aio.AioRpcError, match="no such model"):
                await channel.unary_unary("/t.T/F")(b"")
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            with pytest.raises(grpc.aio.AioRpcError):
                await channel.unary_unary("/other/U")(b"")
    await behind.stop(0)


async def test_grpc_passes_through_tls_on_both_sides(tmp_path: Path) -> None:
    """HTTP/2 agreed by ALPN with the client, and again with the origin; plain HTTP/1.1 is still answered on the same port."""
    grpc = pytest.importorskip("grpc", reason="grpcio is not installed")
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", "server")

    async def unary(request: bytes, context: object) -> bytes:
        return request.upper()
    behind = grpc.aio.server()
    methods = {"U": grpc.unary_unary_rpc_method_handler(unary)}
    behind.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", methods),))
    own = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    target = Origin("https", "127.0.0.1", behind.add_secure_port("127.0.0.1:0", own), tls=ClientTls(ca=authority.file))
    await behind.start()

    async def choose(request: Request) -> Origin | None:
        return target
    tls = TlsConfig(certificate, key, http2=True)
    trust = grpc.ssl_channel_credentials(authority.file.read_bytes())
    async with serving(ROUTES, tls=tls, http2=Http2Proxy(choose)) as server:
        async with grpc.aio.secure_channel(f"127.0.0.1:{server.port}", trust) as channel:
            answers = await asyncio.gather(*(channel.unary_unary("/t.T/U")(b"%d a" % number) for number in range(20)))
        assert answers == [b"%d A" % number for number in range(20)]
        curl = [tool("curl"), "-sS", "--http1.1", "--cacert", str(authority.file), f"https://127.0.0.1:{server.port}/stream"]
        assert await program(*curl) == "0\n1\n2\n"
    await behind.stop(0)
