"""Blocking HTTP for worker threads: one kept connection per origin and thread, on `wire`.

Redirects are followed a few hops, never from https to http, and credentials are not sent to another host.
"""
import base64
import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from serveplane.dataplane.storage.errors import Interrupted, StorageError, refusal, shown
from serveplane.dataplane.storage.wire import Answer, Broken, Idle, TooLate, Wire, nothing

REDIRECTS = 5
ERROR_BYTES = 8192
_CLEAN = re.compile(r"[!-~]*")                  # what may stand in the first line of a request as it is
_VALUE = re.compile(r"[\t -~\x80-\xff]*")       # what may stand in a header
Headers = dict[str, str]
Authorize = Callable[[str, str, Headers], Headers]   # method, url, headers -> headers with credentials


def no_credentials(method: str, url: str, headers: Headers) -> Headers:
    return headers


@dataclass(frozen=True)
class Trust:
    """Which servers are believed."""

    ca_file: str = ""
    verify: bool = True

    @cached_property
    def context(self) -> ssl.SSLContext:
        """Made once, as reading every authority of the system takes longer than many a download; threads share it."""
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.ca_file:
            context.load_verify_locations(self.ca_file)   # beside the system's own
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


class Response:
    """An answer whose body is read into the caller's buffer, or goes through a pipe without being seen."""

    def __init__(self, answer: Answer, wire: Wire, url: str) -> None:
        self._answer, self.wire, self.url, self.status = answer, wire, url, answer.status

    def header(self, name: str, default: str = "") -> str:
        return self._answer.headers.get(name.lower()) or default

    @property
    def length(self) -> int | None:
        """Bytes still to come, if the server said."""
        return self._answer.left

    @property
    def direct(self) -> bool:
        """Whether `splice` can be used for what is left."""
        return self._answer.direct

    def readinto(self, view: memoryview) -> int:
        """Bytes read; 0 at the end."""
        try:
            return self._answer.readinto(view)
        except OSError as error:
            raise self._broken(error) from error

    def splice(self, pipe: int, count: int) -> int:
        """Up to so many bytes into a pipe; 0 at the end. An OSError of the call itself (not of the connection) passes."""
        try:
            return self._answer.splice(pipe, count)
        except (Broken, ConnectionError) as error:
            raise self._broken(error) from error

    def read(self, limit: int) -> bytes:
        """The whole body, for listings and tokens; longer than the limit is an error."""
        content, buffer = bytearray(), memoryview(bytearray(64 << 10))
        while count := self.readinto(buffer):
            content += buffer[:count]
            if len(content) > limit:
                raise StorageError(f"{shown(self.url)} answered with more than {limit} bytes where a short answer was expected")
        return bytes(content)

    def _broken(self, error: OSError) -> Interrupted:
        if isinstance(error, TooLate):
            return Interrupted(f"{shown(self.url)} stalls: nothing came for a while")
        return Interrupted(f"{shown(self.url)}: the connection broke ({_name(error)})")


class Connections:
    """One thread's connections. Not to be shared."""

    def __init__(self, trust: Trust | None = None, timeout: float = 30.0, idle: Idle = nothing) -> None:
        self._trust, self._timeout, self._idle = trust or Trust(), timeout, idle
        self._open: dict[tuple[str, str], Wire] = {}

    def get(self, url: str, headers: Mapping[str, str] = {}, authorize: Authorize = no_credentials,
            accept: tuple[int, ...] = (200, 206)) -> Response:
        """A GET, redirects followed; any status not in `accept` is raised as what it means."""
        return self.request("GET", url, headers, None, authorize, accept)

    def request(self, method: str, url: str, headers: Mapping[str, str] = {}, body: bytes | None = None,
                authorize: Authorize = no_credentials, accept: tuple[int, ...] = (200, 206)) -> Response:
        first = url
        for _ in range(REDIRECTS + 1):
            sent = authorize(method, url, dict(headers)) if _same_server(first, url) else _harmless(headers)
            response = self._send(method, url, sent, body)
            if response.status not in (301, 302, 303, 307, 308) or response.status in accept:
                break
            url = _next_hop(url, response)
            self._drop(response)
        else:
            raise StorageError(f"{shown(first)} redirects more than {REDIRECTS} times")
        if response.status not in accept:
            said = words_of(response)
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
        key = parts.scheme, parts.netloc.rpartition("@")[2]
        proxy = _proxy(parts.scheme, parts.hostname)
        target, headers = _request_head(parts, key[1], headers, proxy)
        kept = self._open.pop(key, None)
        if kept is not None and not kept.free:   # its last answer was not read to the end
            kept.close()
            kept = None
        for wire in (kept, None) if kept else (None,):
            try:
                wire = wire or self._connected(parts, proxy)
                answer = wire.exchange(method, target, headers, body)
            except OSError as error:
                if wire is not None:
                    wire.close()
                if wire is kept and wire is not None and not isinstance(error, TooLate):
                    continue   # a kept connection may have been closed meanwhile: once more on a new one
                raise _unreachable(url, error) from error
            except StorageError:   # somebody wants to stop
                if wire is not None:
                    wire.close()
                raise
            self._open[key] = wire
            return Response(answer, wire, url)
        raise AssertionError("unreachable")

    def _connected(self, parts: SplitResult, proxy: "Proxy | None") -> Wire:
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        sock = socket.create_connection((proxy.host, proxy.port) if proxy else (host, port), self._timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if parts.scheme == "https":
                if proxy:
                    _tunnel(sock, self._timeout, host, port, proxy)
                sock.settimeout(self._timeout)
                sock = self._trust.context.wrap_socket(sock, server_hostname=host)
            return Wire(sock, self._timeout, self._idle)
        except BaseException:
            sock.close()
            raise

    def _drop(self, response: Response) -> None:
        response.wire.close()
        parts = urlsplit(response.url)
        key = parts.scheme, parts.netloc.rpartition("@")[2]
        if self._open.get(key) is response.wire:
            del self._open[key]


class Proxy(NamedTuple):
    host: str
    port: int
    authorization: str   # "" if it asks for none


def _request_head(parts: SplitResult, host: str, headers: Headers, proxy: Proxy | None) -> tuple[str, Headers]:
    """The target and every header of a request; nothing in them can end a line."""
    head = {"Host": host, "User-Agent": "serveplane", "Accept-Encoding": "identity", **headers}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        head.setdefault("Authorization", "Basic " + base64.b64encode(user).decode())
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _CLEAN.fullmatch(target):
        target = quote(target, safe="/?&=%:;,+$!*'()@~[]#")
    if proxy is not None and parts.scheme == "http":
        target = f"http://{host}{target}"   # a proxy is asked for the whole address
        head |= {"Proxy-Authorization": proxy.authorization} if proxy.authorization else {}
    for name, value in head.items():
        if not _VALUE.fullmatch(value) or not _CLEAN.fullmatch(name) or ":" in name:
            raise StorageError(f"the header {name[:40]!r} has characters that no header can have")
    return target, head


def _tunnel(sock: socket.socket, timeout: float, host: str, port: int, proxy: Proxy) -> None:
    """Through a proxy to the other side, before TLS begins."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    headers = {"Host": address, **({"Proxy-Authorization": proxy.authorization} if proxy.authorization else {})}
    answer = Wire(sock, timeout).exchange("CONNECT", address, headers)
    if answer.status != 200:
        raise Broken(f"the proxy answered {answer.status}")


def _same_server(first: str, url: str) -> bool:
    """Whether credentials for the first address may go to the second: the same port, or https instead of http."""
    if first == url:
        return True
    one, other = urlsplit(first), urlsplit(url)
    encrypted = (one.scheme, other.scheme, one.port, other.port) == ("http", "https", None, None)
    return one.hostname == other.hostname and (encrypted or (one.scheme, one.port) == (other.scheme, other.port))


def _harmless(headers: Mapping[str, str]) -> Headers:
    """What a stranger may see. A user's own headers may be a secret under any name."""
    return {name: value for name, value in headers.items() if name.lower() in ("range", "accept", "content-type")}


def _next_hop(url: str, response: Response) -> str:
    target = urljoin(url, response.header("Location"))
    if not response.header("Location"):
        raise StorageError(f"{shown(url)} redirects to nowhere")
    if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
        raise StorageError(f"{shown(url)} redirects to an unencrypted address, {shown(target)}")
    return target


def words_of(response: Response) -> str:
    """The server's own words, if they are short text. Of XML only code and message: the rest repeats what we sent, keys among it."""
    kind = response.header("Content-Type")
    if "json" not in kind and "xml" not in kind and not kind.startswith("text/plain"):
        return ""
    try:
        text = response.read(ERROR_BYTES).decode(errors="replace")
    except StorageError:
        return ""
    if "xml" in kind or text.lstrip().startswith("<"):
        text = ": ".join(re.findall(r"<(?:Code|Message)>([^<]*)<", text))
    return " ".join(text.split())[:200]


def _unreachable(url: str, error: Exception) -> StorageError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return StorageError(f"{shown(url)}: its certificate is not trusted ({error.verify_message}); give a CA bundle")
    if isinstance(error, (TimeoutError, BlockingIOError, TooLate)):
        return Interrupted(f"{shown(url)} did not answer in time")
    return Interrupted(f"{shown(url)} cannot be reached ({_name(error)})")


def _name(error: Exception) -> str:
    return str(error) or type(error).__name__


def _proxy(scheme: str, host: str) -> Proxy | None:
    """From http_proxy, https_proxy and no_proxy, as everything else in a company's container has it."""
    if not any(os.environ.get(name) for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")):
        return None
    import urllib.request
    address = urllib.request.getproxies().get(scheme)
    if not address or urllib.request.proxy_bypass(host):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if not parts.hostname:
        return None
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    authorization = "Basic " + base64.b64encode(user.encode()).decode() if parts.username else ""
    return Proxy(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80), authorization)
