"""Reaching an origin through an HTTP proxy: a CONNECT first, then the origin's own TLS inside of the tunnel."""
import asyncio
import base64
import ssl
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from serveplane.http.errors import ConnectFailed

LONGEST_HEAD = 16 * 1024
_PORTS = {"http": 80, "https": 443}


class ProxyServer(NamedTuple):
    """A proxy that opens tunnels."""

    host: str
    port: int
    tls: bool = False
    """Whether the way to the proxy itself is encrypted."""
    authorization: str = ""

    @classmethod
    def of(cls, url: str) -> "ProxyServer":
        """From a URL, which may carry a user and a password; other schemes are ValueErrors.

        >>> ProxyServer.of("http://proxy.acme:3128")
        ProxyServer(host='proxy.acme', port=3128, tls=False, authorization='')
        """
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError("a proxy is named by an http:// or https:// URL")
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
        basic = f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""
        return cls(parts.hostname, parts.port or _PORTS[parts.scheme], parts.scheme == "https", basic)


async def tunnelled(proxy: ProxyServer, host: str, port: int, made: asyncio.Protocol, context: ssl.SSLContext | None,
                    name: str | None) -> None:
    """Connect the protocol to host and port, through the proxy; returns when it has its transport."""
    loop = asyncio.get_running_loop()
    outer = ssl.create_default_context() if proxy.tls else None
    transport, asked = await loop.create_connection(lambda: _Asked(loop), proxy.host, proxy.port, ssl=outer)
    try:
        transport.write(_question(proxy, host, port))
        status = await asked.answer
        if status // 100 != 2:
            raise ConnectFailed(f"the proxy {proxy.host}:{proxy.port} does not connect to {host}:{port}: it answers {status}")
        inner: asyncio.BaseTransport | None = transport
        if context is None:
            transport.set_protocol(made)
        else:
            inner = await loop.start_tls(transport, made, context, server_hostname=name)
    except BaseException:
        transport.abort()
        raise
    if inner is None:
        raise ConnectFailed(f"the proxy {proxy.host}:{proxy.port} closed the connection to {host}:{port}")
    made.connection_made(inner)


def _question(proxy: ProxyServer, host: str, port: int) -> bytes:
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


class _Asked(asyncio.Protocol):
    """Waits for the proxy's answer. Whoever is behind the tunnel speaks only when spoken to, so nothing may follow the head."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answer: asyncio.Future[int] = loop.create_future()
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if end or len(self._head) > LONGEST_HEAD:
            self._settle(head, bool(end) and not rest)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc or ConnectionResetError("the proxy closed the connection"))

    def _settle(self, head: bytes, whole: bool) -> None:
        if self.answer.done():
            return
        version, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            self.answer.set_exception(ConnectionError("the proxy does not answer in HTTP"))
        elif rest[:1] == b"2" and not whole:
            self.answer.set_exception(ConnectionError("the proxy sent more than the head of its answer"))
        else:
            self.answer.set_result(int(rest[:3]))
