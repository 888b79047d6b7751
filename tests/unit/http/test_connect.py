"""Origins behind a proxy: a tunnel per connection, TLS inside of it, and refusals told in words."""
import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from serveplane.http import Client, ClientTls, ConnectFailed, TlsConfig
from serveplane.http.connect import ProxyServer
from tests.unit.http.certificates import Authority
from tests.unit.http.wires import echo, serving


class Tunnels:
    """A proxy that opens tunnels, or answers with something else."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self.answer = answer
        self.heads: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError), contextlib.closing(writer):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            host, port = head.split(" ")[1].rsplit(":", 1)
            writer.write(self.answer)
            if b" 200 " in self.answer:
                there, back = await asyncio.open_connection(host, int(port))
                with contextlib.closing(back):
                    await asyncio.gather(pump(reader, back), pump(there, writer))


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.close()


@contextlib.asynccontextmanager
async def tunnels(tls: ssl.SSLContext | None = None, **given: bytes) -> AsyncIterator[Tunnels]:
    proxy = Tunnels(**given)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await asyncio.sleep(0.02)      # for the tunnels to notice that both ends left


async def test_requests_go_through_the_tunnel(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = TlsConfig(*authority.issue("server", "server"))
    async with serving(echo, tls=tls) as encrypted, serving(echo) as plain, tunnels() as proxy:
        through = ProxyServer.of(f"http://user:p%40ss@127.0.0.1:{proxy.port}")
        async with Client(tls=ClientTls(ca=authority.file), proxy=through) as client:
            for server in (encrypted, plain):
                for _ in range(3):
                    assert len(await (await client.request("POST", server.url, body=b"x" * 100_000)).read()) >= 100_000
        assert [head.split("\r\n")[0] for head in proxy.heads] == [
            f"CONNECT 127.0.0.1:{encrypted.port} HTTP/1.1", f"CONNECT 127.0.0.1:{plain.port} HTTP/1.1"]
        assert "Proxy-Authorization: Basic dXNlcjpwQHNz\r\n" in proxy.heads[0]


async def test_the_origins_certificate_is_checked(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    async with serving(echo, tls=TlsConfig(*ours.issue("server", "server"))) as server, tunnels() as proxy, \
            Client(tls=ClientTls(ca=theirs.file), proxy=ProxyServer("127.0.0.1", proxy.port)) as client:
        with pytest.raises(ConnectFailed, match="certificate"):
            await client.request("GET", server.url)


async def test_the_way_to_the_proxy_may_be_encrypted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server", "server")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    outer = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    outer.load_cert_chain(*pair)
    async with serving(echo, tls=TlsConfig(*pair)) as server, tunnels(outer) as proxy, \
            Client(tls=ClientTls(ca=authority.file), proxy=ProxyServer.of(f"https://127.0.0.1:{proxy.port}")) as client:
        assert len(await (await client.request("POST", server.url, body=b"x" * 100_000)).read()) >= 100_000


@pytest.mark.parametrize(("answer", "says"), [
    (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "it answers 407"),
    (b"SSH-2.0-OpenSSH\r\n\r\n", "does not answer in HTTP"),
    (b"HTTP/1.1 200 OK\r\n\r\nand more", "more than the head"),
    (b"HTTP/1.1 502", "closed"),
    (b"HTTP/1.1 502 x\r\n" + b"a: b\r\n" * 4000, "it answers 502"),
])
async def test_refusals_are_told(answer: bytes, says: str) -> None:
    async with serving(echo) as server, tunnels(answer=answer) as proxy, Client(proxy=ProxyServer("127.0.0.1", proxy.port)) as client:
        with pytest.raises(ConnectFailed, match=says):
            await client.request("GET", server.url)


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1080", "proxy:3128", "http://", ""])
def test_other_proxies_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="http"):
        ProxyServer.of(url)
