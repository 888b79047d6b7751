"""The client against origins that behave, misbehave and vanish."""
import asyncio
from collections.abc import AsyncIterator

import pytest

from serveplane.http import (
    BadResponse,
    Client,
    ClientLimits,
    ClientTimeout,
    ConnectFailed,
    ConnectionLost,
    PayloadTooLarge,
    PoolExhausted,
    Request,
    Response,
    Timeouts,
)
from tests.unit.http.wires import answer, echo, eventually, origin, serving

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


async def test_connections_are_reused_one_after_the_other() -> None:
    async with serving(echo) as server, Client() as client:
        for number in range(5):
            response = await client.request("POST", f"{server.url}/x", body=b"%d" % number)
            assert (await response.json())["body"] == str(number)
        assert server.connections == 1


async def test_what_goes_out_has_one_host_and_one_framing() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"he"
        yield b""
        yield b"llo"
    async with serving(echo) as server, Client() as client:
        async def sent(**options: object) -> dict[str, str]:
            response = await client.request("PUT", server.url, **options)   # type: ignore[arg-type]
            told = await response.json()
            names = [name.lower() for name, _ in told["headers"]]
            assert len(names) == len(set(names))
            return {"body": told["body"], **{name.lower(): value for name, value in told["headers"]}}
        lied = await sent(body=b"hello", headers={"Content-Length": "3", "Transfer-Encoding": "chunked", "Host": "other"})
        assert (lied["body"], lied["content-length"], lied["host"]) == ("hello", "5", "other")
        assert (await sent())["content-length"] == "0"
        streamed = await sent(body=pieces())
        assert (streamed["body"], streamed["transfer-encoding"]) == ("hello", "chunked")
        declared = await sent(body=pieces(), headers={"Content-Length": "5"})
        assert (declared["body"], declared["content-length"]) == ("hello", "5")


@pytest.mark.parametrize(("reply", "body"), [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok"),
    (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", b"ok"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", b"ok"),
    (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
    (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"until the end"),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok"),
    (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", b""),
], ids=["length", "no reason", "chunked", "until close", "1.0", "interim", "204", "304"])
@pytest.mark.parametrize("cut", [1, 1000])
async def test_framing_of_answers(reply: bytes, body: bytes, cut: int) -> None:
    async def script(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for at in range(0, len(reply), cut):
            writer.write(reply[at:at + cut])
            await writer.drain()
    async with origin(script) as port, Client() as client:
        assert await (await client.request("GET", f"http://127.0.0.1:{port}/")).read() == body


@pytest.mark.parametrize("reply", [
    b"nonsense\r\n\r\n", b"HTTP/2.0 200 OK\r\n\r\n", b"HTTP/1.1 20 OK\r\n\r\n", b"HTTP/1.1 200 OK\nContent-Length: 0\n\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000,
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 300 + b"\r\n",
])
async def test_answers_that_are_not_http_are_refused(reply: bytes) -> None:
    async def script(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await reader.read()
    async with origin(script) as port, Client() as client:
        with pytest.raises(BadResponse):
            await client.request("GET", f"http://127.0.0.1:{port}/", timeout=30)


async def test_bytes_nobody_asked_for_end_the_connection() -> None:
    """A second answer to one request must never become the answer to the next."""
    async def script(reader: Reader, writer: Writer) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(answer(body=b"first") + answer(body=b"poison"))
    async with origin(script) as port, Client() as client:
        for _ in range(3):
            assert await (await client.request("GET", f"http://127.0.0.1:{port}/")).read() == b"first"


async def test_head_has_no_body() -> None:
    async with serving(echo) as server, Client() as client:
        for _ in range(2):
            response = await client.request("HEAD", server.url)
            assert int(response.headers["content-length"]) > 0
            assert await response.read() == b""
        assert server.connections == 1


@pytest.mark.parametrize(("method", "headers", "again"), [
    ("GET", {}, True), ("DELETE", {}, True), ("POST", {}, False), ("PATCH", {}, False), ("POST", {"Idempotency-Key": "1"}, True)])
async def test_a_stale_connection_is_replaced_for_what_may_be_repeated(method: str, headers: dict[str, str], again: bool) -> None:
    requests = 0

    async def script(reader: Reader, writer: Writer) -> None:
        nonlocal requests
        for place in range(2):
            await reader.readuntil(b"\r\n\r\n")
            requests += 1
            if place:
                return   # close on the second request of a connection, without a word
            writer.write(answer())
    async with origin(script) as port, Client() as client:
        await (await client.request("GET", f"http://127.0.0.1:{port}/")).read()
        asking = client.request(method, f"http://127.0.0.1:{port}/", headers=headers)
        if again:
            assert (await asking).status == 200
        else:
            with pytest.raises(ConnectionLost):
                await asking
        assert requests == (3 if again else 2)


async def test_a_request_is_repeated_once_at_most() -> None:
    """Even when the pool is full and only connections that are stale too can be had."""
    requests = 0

    async def script(reader: Reader, writer: Writer) -> None:
        nonlocal requests
        await reader.readuntil(b"\r\n\r\n")
        requests += 1
        writer.write(answer())
        while True:
            await reader.readuntil(b"\r\n\r\n")
            requests += 1
            return
    async with origin(script) as port, Client(limits=ClientLimits(connections_per_origin=3)) as client:
        url = f"http://127.0.0.1:{port}/"
        await (await client.request("GET", url)).read()
        results = await asyncio.gather(*(client.request("GET", url, timeout=30) for _ in range(6)), return_exceptions=True)
        assert all(isinstance(result, ConnectionLost) or getattr(result, "status", 0) == 200 for result in results), results
        assert requests <= 1 + 2 * 6


async def test_a_fresh_connection_that_breaks_is_not_tried_again() -> None:
    requests = 0

    async def script(reader: Reader, _: Writer) -> None:
        nonlocal requests
        await reader.readuntil(b"\r\n\r\n")
        requests += 1
    async with origin(script) as port, Client() as client:
        with pytest.raises(ConnectionLost, match=str(port)):
            await client.request("GET", f"http://127.0.0.1:{port}/")
        assert requests == 1


@pytest.mark.parametrize("reply", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"])
async def test_half_an_answer_is_an_error(reply: bytes) -> None:
    async def script(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
    async with origin(script) as port, Client() as client:
        response = await client.request("GET", f"http://127.0.0.1:{port}/")
        with pytest.raises(ConnectionLost):
            await response.read()


async def test_deadlines() -> None:
    async def silent(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
        for _ in range(9):
            await asyncio.sleep(0.1)
            writer.write(b"x")
    async with origin(silent) as port, Client() as client:
        url = f"http://127.0.0.1:{port}/"
        for timeouts in (Timeouts(read=0.05), Timeouts(total=0.25)):
            with pytest.raises(ClientTimeout):
                await (await client.request("GET", url, timeout=timeouts)).read()
        assert await (await client.request("GET", url, timeout=Timeouts(read=30, total=60))).read() == b"x" * 9


async def test_no_connection() -> None:
    async with Client() as client:
        with pytest.raises(ConnectFailed, match=r"127\.0\.0\.1:1"):
            await client.request("GET", "http://127.0.0.1:1/")
        for bad in ("ftp://a/", "http://user@a/", "http://a:99999/", "a/b", "http://a/ b", "http://a/\r\nX: y"):
            with pytest.raises(ValueError, match=r"URL|port"):
                await client.request("GET", bad)


async def test_the_pool_is_bounded_and_fair() -> None:
    open_now = most = 0

    async def handler(_: Request) -> Response:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0.01)
        open_now -= 1
        return Response.text("ok")
    limits = ClientLimits(connections_per_origin=3, waiting_per_origin=20)
    async with serving(handler) as server, Client(limits=limits) as client:
        async def one() -> int:
            return (await client.request("GET", server.url)).status
        assert await asyncio.gather(*(one() for _ in range(20))) == [200] * 20
        assert most <= 3
        results = await asyncio.gather(*(one() for _ in range(30)), return_exceptions=True)
        assert sum(isinstance(result, PoolExhausted) for result in results) == 7
        waiting = asyncio.ensure_future(client.request("GET", server.url, timeout=0.001))
        with pytest.raises(ClientTimeout):
            await asyncio.gather(waiting, *(one() for _ in range(6)))


async def test_cancelling_gives_the_connection_up_and_the_place_free() -> None:
    async def handler(request: Request) -> Response:
        if request.path == "/slow":
            await asyncio.Event().wait()
        return Response.text("ok")
    async with serving(handler) as server, Client(limits=ClientLimits(connections_per_origin=1)) as client:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.request("GET", f"{server.url}/slow")
            assert await (await client.request("GET", server.url)).read() == b"ok"
        await eventually(lambda: server.connections == 1)


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b"x" * 1000
        await asyncio.sleep(0)


async def test_closing_an_answer_early() -> None:
    async def handler(request: Request) -> Response:
        return Response(200, body=endless()) if request.path == "/endless" else Response(200, body=b"x" * 200_000)
    async with serving(handler) as server, Client(limits=ClientLimits(drain_bytes=200_000, connections_per_origin=1)) as client:
        response = await client.request("GET", f"{server.url}/endless")
        async for piece in response.stream():
            assert piece
            break
        await response.close()
        await eventually(lambda: server.metrics.in_flight == 0)   # the other side notices
        async with await client.request("GET", server.url) as response:
            assert response.status == 200   # never read: a short rest is skipped
        assert await (await client.request("GET", server.url)).read() == b"x" * 200_000
        forgotten = await client.request("GET", f"{server.url}/endless")
        del forgotten
        assert (await client.request("GET", server.url, timeout=30)).status == 200


async def test_a_long_body_is_bounded_and_a_stream_is_not() -> None:
    async def handler(_: Request) -> Response:
        return Response(200, body=b"x" * 1_000_000)
    async with serving(handler) as server, Client(limits=ClientLimits(body_bytes=999_999)) as client:
        with pytest.raises(PayloadTooLarge):
            await (await client.request("GET", server.url)).read()
        size = 0
        async for piece in (await client.request("GET", server.url)).stream():
            size += len(piece)
        assert size == 1_000_000


async def test_an_early_answer_to_a_long_upload() -> None:
    async def script(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(413, b"too much", b"Connection: close\r\n"))
        await writer.drain()
        await reader.read(1_000_000)
    async with origin(script) as port, Client() as client:
        response = await client.request("POST", f"http://127.0.0.1:{port}/", body=endless())
        assert (response.status, await response.read()) == (413, b"too much")
        await eventually(lambda: not client._uploads)


async def test_a_body_that_fails_fails_the_request() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        raise ValueError("disk")
    async with serving(echo) as server, Client() as client:
        with pytest.raises(Exception, match="disk"):
            await client.request("POST", server.url, body=broken())
        await eventually(lambda: server.connections == 0)


async def test_before_send_is_asked_each_time_and_may_refuse() -> None:
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise PermissionError("no longer leader")
    async with serving(echo) as server, Client() as client:
        assert (await client.request("GET", server.url, before_send=check)).status == 200
        with pytest.raises(PermissionError):
            await client.request("POST", server.url, before_send=check)
        assert (await client.request("GET", server.url, before_send=check)).status == 200
        assert (server.metrics.total(), server.connections) == (2, 1)


async def test_keep_alive_hints_are_heeded() -> None:
    async def script(reader: Reader, writer: Writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(fields=b"Keep-Alive: timeout=1\r\n"))
        await reader.read()
    async with origin(script) as port, Client() as client:
        await (await client.request("GET", f"http://127.0.0.1:{port}/")).read()
        pool = next(iter(client._pools.values()))
        client.sweeper.soon(0.05)
        await eventually(lambda: pool.open == 0)


async def test_unix_sockets_and_cluster_names(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{tmp_path}/s"
    async with serving(echo, unix=path), Client() as client:
        told = await (await client.request("GET", "http://some.name/x", unix=path)).json()
        assert dict(told["headers"])["Host"] == "some.name"
    async with serving(echo) as server:
        monkeypatch.setenv("SERVEPLANE_RESOLVE", f"mine@127.0.0.1:{server.port}")
        async with Client() as client:
            for name in ("iris", "iris.default:8080"):   # asked as a proxy is asked; a short name is of the pod's own namespace
                told = await (await client.request("GET", f"http://{name}/x")).json()
                assert dict(told["headers"])["Host"] == name
                assert dict(told["headers"])["Proxy-Authorization"] == "Basic bWluZTo="
                assert told["path"] == "/x"


async def test_close_ends_everything() -> None:
    async def handler(_: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError
    async with serving(handler) as server:
        client = Client()
        waiting = asyncio.ensure_future(client.request("GET", server.url))
        await eventually(lambda: server.metrics.in_flight == 1)
        await client.close()
        with pytest.raises(ConnectionLost):
            await waiting
        await eventually(lambda: server.connections == 0)
