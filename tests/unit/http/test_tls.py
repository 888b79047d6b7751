"""TLS: versions, client certificates, reloading without losing a connection."""
import asyncio
import ssl
from pathlib import Path

import pytest

from serveplane.http import Client, ClientTls, ConnectFailed, Request, Response, TlsConfig
from tests.unit.http.certificates import Authority
from tests.unit.http.wires import echo, eventually, serving


async def who(request: Request) -> Response:
    peer = request.peer
    return Response.json({"tls": peer.tls, "shown": peer.certificate is not None, "subject": peer.subject})


async def test_verified_both_ways(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    server_pair, good, bad = ours.issue("server", "server"), ours.issue("good", "admin", "system:masters"), theirs.issue("bad", "mallory")
    tls = TlsConfig(*server_pair, client_ca=ours.file)
    async with serving(who, tls=tls) as server:
        async with Client(tls=ClientTls(ca=ours.file)) as client:
            assert await (await client.request("GET", server.url)).json() == {"tls": True, "shown": False, "subject": {}}
        showing = ClientTls(ca_data=ours.file.read_text(), certificate=good[0], key=good[1], server_name="localhost")
        async with Client(tls=showing) as client:
            told = await (await client.request("GET", server.url)).json()
            assert told["subject"] == {"commonName": ["admin"], "organizationName": ["system:masters"]}
        async with Client(tls=ClientTls(ca=theirs.file)) as client:
            with pytest.raises(ConnectFailed, match="certificate"):
                await client.request("GET", server.url)
        async with Client(tls=ClientTls(ca=ours.file, certificate=bad[0], key=bad[1])) as client:
            with pytest.raises(Exception, match=r"127\.0\.0\.1|closed"):   # TLS 1.3 tells only after the handshake
                await client.request("GET", server.url)
        async with Client(tls=ClientTls(ca=ours.file, server_name="other.example")) as client:
            with pytest.raises(ConnectFailed, match="ostname"):
                await client.request("GET", server.url)
        async with Client(tls=ClientTls(verify=False)) as client:
            assert (await client.request("GET", server.url)).status == 200


async def test_required_client_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = TlsConfig(*authority.issue("server", "server"), client_ca=authority.file, require_client_certificate=True)
    async with serving(who, tls=tls) as server, Client(tls=ClientTls(ca=authority.file)) as client:
        with pytest.raises(Exception, match=r"closed|connect"):
            await client.request("GET", server.url)


async def test_old_versions_are_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with serving(who, tls=TlsConfig(*authority.issue("server", "server"))) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.warns(DeprecationWarning, match="TLS"):
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", server.port, ssl=context)


async def test_certificates_are_reloaded(tmp_path: Path) -> None:
    """A rotated certificate is shown to new connections; an open one goes on; a broken file changes nothing."""
    first = Authority(tmp_path, "first")
    pair = first.issue("server", "server")
    async with serving(echo, tls=TlsConfig(*pair, watch_seconds=0.05)) as server, Client(tls=ClientTls(ca=first.file)) as old:
        assert (await old.request("GET", server.url)).status == 200
        pair[1].write_text("broken")
        await eventually(lambda: server.metrics.tls_reload_failures > 0)
        assert (await old.request("GET", server.url)).status == 200
        second = Authority(tmp_path, "second")
        second.issue("server", "server")

        async def new_shown() -> bool:
            async with Client(tls=ClientTls(ca=second.file)) as client:
                try:
                    return (await client.request("GET", server.url)).status == 200
                except ConnectFailed:
                    return False
        async with asyncio.timeout(30):
            while not await new_shown():   # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert (await old.request("GET", server.url)).status == 200
        async with Client(tls=ClientTls(ca=first.file)) as late:
            with pytest.raises(ConnectFailed):
                await late.request("GET", server.url)


async def test_a_context_of_the_callers_own(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(*authority.issue("server", "server"))
    trusting = ssl.create_default_context(cafile=str(authority.file))
    async with serving(echo, tls=served) as server, Client(tls=trusting) as client:
        assert server.url.startswith("https:")
        assert (await client.request("GET", server.url)).status == 200


async def test_streams_and_refusals_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with serving(echo, tls=TlsConfig(*authority.issue("server", "server"))) as server:
        context = ssl.create_default_context(cafile=str(authority.file))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        writer.write(b"nonsense\r\n\r\n" + b"x" * 100_000)
        assert b" 400 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        writer.close()
        async with Client(tls=context) as client:
            told = await (await client.request("POST", server.url, body=b"x" * 1_000_000)).json()
            assert len(told["body"]) == 1_000_000


async def test_a_connection_given_up_at_any_moment_is_not_left_open(tmp_path: Path) -> None:
    """Not even where the loop has just handed it over: what comes of it then has no owner."""
    authority = Authority(tmp_path)
    async with serving(echo, tls=TlsConfig(*authority.issue("server", "server"))) as server:
        for turns in range(40):
            client = Client(tls=ClientTls(ca=authority.file))
            asking = asyncio.ensure_future(client.request("GET", server.url))
            for _ in range(turns):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await client.close()
        await asyncio.sleep(0.3)   # one that is left would have come to stand by now
        assert server.connections == 0
