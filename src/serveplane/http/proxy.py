"""Forwarding one request to an origin, as gateway, agent and router do it.

What belongs to the connection is removed, what belongs to the message is kept, framing is made anew. Bodies stream both ways
with back-pressure; whichever side goes away first takes the other with it.
"""
from collections.abc import Iterable
from functools import lru_cache

from serveplane.http import wire
from serveplane.http.client import Client, request_head
from serveplane.http.forwarding import Forwarding, Otherwise, named
from serveplane.http.headers import Headers, RawHeader
from serveplane.http.limits import ClientLimits, Timeouts
from serveplane.http.messages import Request
from serveplane.http.origin import Origin

POOL = ClientLimits(connections_per_origin=1024, idle_per_origin=256, idle_seconds=4.0)
"""For proxies: model servers keep idle connections for 5 seconds and up, and a POST that meets their close cannot be repeated."""

UPGRADES = frozenset(("websocket", "spdy/3.1"))
"""What may be tunnelled. Never h2c: behind it a client would speak to the origin past every check made here."""

_FORWARDED = frozenset((b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"))
_NOT_FORWARDED = wire.CONNECTION_FIELDS | _FORWARDED | {b"expect"}


class Proxy:
    """Forwards requests over a client's pools.

    `trust_forwarded` keeps the X-Forwarded-* of a peer that is itself a proxy of ours; otherwise they start here.
    """

    def __init__(self, client: Client | None = None, *, via: str = "serveplane", trust_forwarded: bool = False,
                 timeouts: Timeouts | None = None, upgrades: Iterable[str] = UPGRADES) -> None:
        self.client = Client(limits=POOL) if client is None else client
        self._via = (b"Via", b"1.1 " + via.encode("ascii"))
        self._trust = trust_forwarded
        self._timeouts = timeouts or Timeouts(connect=10.0, read=300.0)
        self._upgrades = frozenset(upgrades)

    def forward(self, request: Request, origin: Origin, *, target: str | None = None, host: str | None = None,
                add: Iterable[tuple[str, str]] = (), timeouts: Timeouts | None = None, otherwise: Otherwise | None = None,
                fresh: bool = False) -> Forwarding:
        """The origin's answer, or 502/503/504 if there is none.

        `target` replaces path and query, `host` the Host (kept as the client sent it otherwise), `add` sets further fields. A handler
        that returns this instead of awaiting it spares the engine a task (see `forwarding`). `fresh` wants a new connection.
        """
        if host is not None and host.encode("ascii") == request.headers.index.get(b"host"):
            host = None
        head = None if host is not None or add else self._unchanged(request, target)
        if head is None:
            head = self._rewritten(request, origin, target, host, add)
        return Forwarding(self.client, request, origin, head, timeouts or self._timeouts, otherwise, fresh)

    def _unchanged(self, request: Request, target: str | None) -> bytes | None:
        """The fields as the client sent them plus where they came from, if nothing else has to change: the usual request."""
        headers = request.headers
        block, index = headers.block, headers.index
        if block is None or type(request.body) is not bytes or not _NOT_FORWARDED.isdisjoint(index):
            return None
        length, host = index.get(b"content-length"), index.get(b"host")
        if host is None or (length is not None and length != b"%d" % request.length):
            return None
        if target is None:
            target = request.target
        if target[0] != "/":
            return None
        peer = request.peer
        return b"%b %b HTTP/1.1\r\n%bX-Forwarded-Host: %b\r\n%b\r\n" % (
            request.method.encode("ascii"), target.encode("ascii"), block, host, _trail(peer.address, peer.tls, self._via[1]))

    def _rewritten(self, request: Request, origin: Origin, target: str | None, host: str | None, add: Iterable[tuple[str, str]]) -> bytes:
        fields = self._fields(request, host, self._upgrade(request))
        if add:
            fields = _with(fields, add)
        body = request.body
        if not isinstance(body, bytes) and request.length >= 0:
            fields.append((b"Content-Length", b"%d" % request.length))
        path = _origin_form(request) if target is None else target.encode("ascii")
        return request_head(request.method.encode("ascii"), path, fields, None if request.length == 0 else body, origin.authority)

    def _upgrade(self, request: Request) -> bytes | None:
        wanted = request.headers.index.get(b"upgrade")
        if wanted is None or request.length or wanted.decode("latin-1").lower() not in self._upgrades:
            return None
        return wanted if "upgrade" in request.headers.tokens("connection") else None

    def _fields(self, request: Request, host: str | None, upgrade: bytes | None) -> list[RawHeader]:
        """The request's own fields without those of the connection, plus who it came from and through."""
        headers = request.headers
        index = headers.index
        if _NOT_FORWARDED.isdisjoint(index):   # the usual case; Host and Content-Length are the client's to write
            fields = headers.raw.copy()
        else:
            dropped = _NOT_FORWARDED if b"connection" not in index else _NOT_FORWARDED | named(headers)
            fields = [field for field in headers.raw if field[0].lower() not in dropped]
        if host is not None:
            fields.append((b"Host", host.encode("ascii")))
        self._forwarded(request, fields)
        fields.append(self._via)
        if upgrade is not None:
            fields += ((b"Connection", b"Upgrade"), (b"Upgrade", upgrade))
        return fields

    def _forwarded(self, request: Request, fields: list[RawHeader]) -> None:
        index, peer = request.headers.index, request.peer
        chain, proto, host = peer.address.encode("ascii") or b"unknown", b"https" if peer.tls else b"http", index.get(b"host", b"")
        if self._trust:
            before = request.headers.get_all("x-forwarded-for")
            chain = b", ".join([*(part.encode("latin-1") for part in before), chain])
            proto = index.get(b"x-forwarded-proto", proto)
            host = index.get(b"x-forwarded-host", host)
        fields += ((b"X-Forwarded-For", chain), (b"X-Forwarded-Proto", proto), (b"X-Forwarded-Host", host))


@lru_cache(maxsize=4096)
def _trail(address: str, tls: bool, via: bytes) -> bytes:
    """Where a request came from and through, as far as it is the same for all requests of a peer."""
    return b"X-Forwarded-For: %b\r\nX-Forwarded-Proto: %b\r\nVia: %b\r\n" % (
        address.encode("ascii") or b"unknown", b"https" if tls else b"http", via)


def _with(fields: list[RawHeader], add: Iterable[tuple[str, str]]) -> list[RawHeader]:
    headers = Headers.parsed(fields)
    for name, value in add:
        headers.set(name, value)
    return headers.raw


def _origin_form(request: Request) -> bytes:
    """The target as an origin expects it, also if a client sent it in absolute form."""
    if request.target.startswith("/"):
        return request.target.encode("ascii")
    return (f"{request.path}?{request.query}" if request.query else request.path).encode("ascii")
