"""Blocking HTTP for worker threads, on the standard library's client: one kept connection per origin and thread.

`readinto` of its response ends in `recv_into` of the socket, so nothing is copied on the way. Redirects are followed a
few hops, never from https to http, and credentials are not sent to another host.
"""
import base64
import http.client
import os
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from serveplane import pod
from serveplane.dataplane.storage.errors import Interrupted, StorageError, refusal, shown

REDIRECTS = 5
ERROR_BYTES = 2048
TICK_SECONDS = 1.0   # how long a thread may be deaf to stop and deadline
Headers = dict[str, str]
Authorize = Callable[[str, str, Headers], Headers]   # method, url, headers -> headers with credentials


def no_credentials(method: str, url: str, headers: Headers) -> Headers:
    return headers


@dataclass(frozen=True)
class Trust:
    """Which servers are believed."""

    ca_file: str = ""
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.ca_file:
            context.load_verify_locations(self.ca_file)   # beside the system's own
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


class Response:
    """An answer whose body is read into the caller's buffer.

    A plain body of known length is received straight from the socket, a whole buffer in one call: each call costs a turn of Python's
    lock, which many threads hand over slowly. Everything else (TLS, chunks) goes the standard library's way.
    """

    def __init__(self, raw: http.client.HTTPResponse, url: str, connection: http.client.HTTPConnection | None = None) -> None:
        self._raw, self.url = raw, url
        self.status = raw.status
        self._socket = _plain_socket(raw, connection)
        self._timeout = (self._socket.gettimeout() if self._socket is not None else None) or 30.0
        self._drained = False        # whether the body bytes that came with the head have been handed out

    def header(self, name: str, default: str = "") -> str:
        return self._raw.getheader(name) or default

    @property
    def length(self) -> int | None:
        """Bytes still to come, if the server said."""
        return self._raw.length

    def readinto(self, view: memoryview) -> int:
        """Bytes read; 0 at the end."""
        try:
            if self._socket is None:
                return self._raw.readinto(view)
            return self._received(self._socket, view)
        except BlockingIOError:
            raise Interrupted(f"{shown(self.url)} stalls: nothing came for a while") from None
        except (OSError, http.client.HTTPException) as error:
            raise Interrupted(f"{shown(self.url)}: the connection broke ({_name(error)})") from error

    def _received(self, sock: socket.socket, view: memoryview) -> int:
        raw = self._raw
        if raw.fp is None or not raw.length:
            return 0
        view = view[:raw.length]
        if self._drained:
            count = self._waited_for(sock, view)
        else:
            count = self._first_bytes(view)
        raw.length -= count
        if raw.length == 0:   # the connection may carry the next request
            sock.settimeout(self._timeout)
            raw.close()
        return count

    def _first_bytes(self, view: memoryview) -> int:
        """What was read along with the head; after it the socket blocks, with the kernel watching the time."""
        waiting = self._raw.fp.peek()
        count = min(len(waiting), len(view))
        view[:count] = self._raw.fp.read(count)
        if count == len(waiting) and self._socket is not None:
            self._drained, step = True, min(TICK_SECONDS, self._timeout)
            self._socket.settimeout(None)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(step), int(step % 1 * 1e6)))
        return count

    def _waited_for(self, sock: socket.socket, view: memoryview) -> int:
        """A full buffer, or what came within a tick; nothing at all for the whole timeout is a BlockingIOError."""
        for _ in range(max(1, round(self._timeout / TICK_SECONDS)) - 1):
            try:
                return sock.recv_into(view, len(view), socket.MSG_WAITALL)
            except BlockingIOError:
                continue
        return sock.recv_into(view, len(view), socket.MSG_WAITALL)

    def read(self, limit: int) -> bytes:
        """The whole body, for listings and tokens; longer than the limit is an error."""
        try:
            content = self._raw.read(limit + 1)
        except (OSError, http.client.HTTPException) as error:
            raise Interrupted(f"{shown(self.url)}: the connection broke ({_name(error)})") from error
        if len(content) > limit:
            raise StorageError(f"{shown(self.url)} answered with more than {limit} bytes where a short answer was expected")
        return content

    def close(self) -> None:
        self._raw.close()


class Connections:
    """One thread's connections. Not to be shared."""

    def __init__(self, trust: Trust | None = None, timeout: float = 30.0) -> None:
        self._trust, self._timeout = trust or Trust(), timeout
        self._open: dict[tuple[str, str], http.client.HTTPConnection] = {}
        self._context: ssl.SSLContext | None = None

    def get(self, url: str, headers: Mapping[str, str] = {}, authorize: Authorize = no_credentials,
            accept: tuple[int, ...] = (200, 206)) -> Response:
        """A GET, redirects followed; any status not in `accept` is raised as what it means."""
        return self.request("GET", url, headers, None, authorize, accept)

    def request(self, method: str, url: str, headers: Mapping[str, str] = {}, body: bytes | None = None,
                authorize: Authorize = no_credentials, accept: tuple[int, ...] = (200, 206)) -> Response:
        first, origin = url, urlsplit(url)
        for _ in range(REDIRECTS + 1):
            same_host = urlsplit(url).hostname == origin.hostname
            response = self._send(method, url, authorize(method, url, dict(headers)) if same_host else dict(headers), body)
            if response.status not in (301, 302, 303, 307, 308):
                break
            url = _next_hop(url, response)
            self._drop(response)
        else:
            raise StorageError(f"{shown(first)} redirects more than {REDIRECTS} times")
        if response.status not in accept:
            said = _said(response)
            self._drop(response)
            raise refusal(response.status, url, said)
        return response

    def forget(self, response: Response) -> None:
        """Close the connection of an answer that was not read to its end."""
        self._drop(response)

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def _send(self, method: str, url: str, headers: Headers, body: bytes | None) -> Response:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise StorageError(f"{shown(url)} is not an http(s) address")
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            headers.setdefault("Authorization", "Basic " + base64.b64encode(user).decode())
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        key = parts.scheme, parts.netloc.rpartition("@")[2]
        if parts.scheme == "http" and _proxy("http", parts.hostname):
            target = f"http://{key[1]}{target}"   # a proxy is asked for the whole address
        kept = self._open.pop(key, None)
        for connection in (kept, None) if kept else (None,):
            connection = connection or self._connection(parts.scheme, parts.hostname, parts.port)
            try:
                if connection is not kept:
                    connection.connect()
                    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.request(method, target, body, {"Accept-Encoding": "identity", "User-Agent": "serveplane", **headers})
                raw = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if connection is kept and not isinstance(error, TimeoutError):
                    continue   # a kept connection may have been closed meanwhile: once more on a new one
                raise _unreachable(url, error) from error
            self._open[key] = connection
            return Response(raw, url, connection)
        raise AssertionError("unreachable")

    def _connection(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        proxy = _proxy(scheme, host)
        address = (proxy[0], proxy[1]) if proxy else (host, port)
        if scheme == "http":
            connection = http.client.HTTPConnection(*address, timeout=self._timeout, blocksize=1 << 20)
        else:
            self._context = self._context or self._trust.context()
            connection = http.client.HTTPSConnection(*address, timeout=self._timeout, context=self._context, blocksize=1 << 20)
        if proxy and scheme == "https":
            connection.set_tunnel(host, port or 443)
        return connection

    def _drop(self, response: Response) -> None:
        response.close()
        parts = urlsplit(response.url)
        connection = self._open.pop((parts.scheme, parts.netloc.rpartition("@")[2]), None)
        if connection is not None:
            connection.close()


def _plain_socket(raw: http.client.HTTPResponse, connection: http.client.HTTPConnection | None) -> socket.socket | None:
    """The socket, if the body's bytes on it are just the body's bytes."""
    sock = connection.sock if connection is not None else None
    if sock is None or isinstance(sock, ssl.SSLSocket) or raw.chunked or raw.length is None or raw.will_close:
        return None
    return sock


def _next_hop(url: str, response: Response) -> str:
    target = urljoin(url, response.header("Location"))
    if not response.header("Location"):
        raise StorageError(f"{shown(url)} redirects to nowhere")
    if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
        raise StorageError(f"{shown(url)} redirects to an unencrypted address, {shown(target)}")
    return target


def _said(response: Response) -> str:
    """The server's own words, if they are short text."""
    if "json" not in (kind := response.header("Content-Type")) and "xml" not in kind and not kind.startswith("text/plain"):
        return ""
    try:
        return " ".join(response.read(ERROR_BYTES).decode(errors="replace").split())[:200]
    except StorageError:
        return ""


def _unreachable(url: str, error: Exception) -> StorageError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return StorageError(f"{shown(url)}: its certificate is not trusted ({error.verify_message}); give a CA bundle")
    if isinstance(error, TimeoutError):
        return Interrupted(f"{shown(url)} did not answer in time")
    return Interrupted(f"{shown(url)} cannot be reached ({_name(error)})")


def _name(error: Exception) -> str:
    return str(error) or type(error).__name__


def _proxy(scheme: str, host: str) -> tuple[str, int | None] | None:
    """From http_proxy, https_proxy and no_proxy, as everything else in a company's container has it."""
    if not any(os.environ.get(name) for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")):
        return None
    import urllib.request
    address: Any = urllib.request.getproxies().get(scheme)
    if not address or urllib.request.proxy_bypass(host):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    cluster = pod.cluster_proxy()
    if cluster is not None and (parts.hostname, parts.port) == cluster.address and not pod.is_cluster_name(host):
        return None   # the one-machine cluster's own proxy is there for names of Services; models come directly
    return (parts.hostname, parts.port) if parts.hostname else None
