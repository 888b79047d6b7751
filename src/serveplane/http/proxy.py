"""Forwarding one request to an origin, as gateway, agent and router do it.

What belongs to the connection is removed, what belongs to the message is kept, framing is made anew. Bodies stream both ways
with back-pressure; whichever side goes away first takes the other with it.
"""
from collections.abc import AsyncIterator, Iterable

from serveplane.http import wire
from serveplane.http.client import IDEMPOTENT, Client
from serveplane.http.client_connection import ClientResponse
from serveplane.http.errors import ClientError, ClientTimeout, ConnectFailed
from serveplane.http.headers import Headers, RawHeader
from serveplane.http.limits import ClientLimits, Timeouts
from serveplane.http.messages import Request, Response, Upgrade
from serveplane.http.origin import Origin
from serveplane.http.tunnel import Tunnel, splice

POOL = ClientLimits(connections_per_origin=1024, idle_per_origin=256, idle_seconds=4.0)
"""For proxies: model servers keep idle connections for 5 seconds and up, and a POST that meets their close cannot be repeated."""

UPGRADES = frozenset(("websocket", "spdy/3.1"))
"""What may be tunnelled. Never h2c: behind it a client would speak to the origin past every check made here."""

_REPEATABLE = frozenset(method.decode() for method in IDEMPOTENT)
_FORWARDED = frozenset((b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"))
_NOT_FORWARDED = wire.CONNECTION_FIELDS | _FORWARDED | {b"expect"}
_NOT_RETURNED = wire.CONNECTION_FIELDS - {b"proxy-authenticate"}
_NEVER_NAMED = frozenset((b"host", b"content-length", b"authorization", b"cookie", b"content-type"))


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

    async def forward(self, request: Request, origin: Origin, *, target: str | None = None, host: str | None = None,
                      add: Iterable[tuple[str, str]] = (), timeouts: Timeouts | None = None) -> Response:
        """The origin's answer, or 502/503/504 if there is none.

        `target` replaces path and query, `host` the Host (kept as the client sent it otherwise), `add` sets further fields.
        """
        timeouts = timeouts or self._timeouts
        try:
            head = self._unchanged(request) if target is None and host is None and not add else None
            if head is not None:
                body = request.body
                assert isinstance(body, bytes)
                answer = await self.client.exchange(origin, head, body, timeouts, request.method in _REPEATABLE)
            else:
                answer = await self._rewritten(request, origin, target, host, add, timeouts)
        except ClientError as error:
            return failure(error)
        if answer.tunnel is not None:
            return _joined(answer, answer.tunnel)
        content = answer.body
        return Response(answer.status, _returned(answer.headers), content if isinstance(content, bytes) else _stream(answer))

    def _unchanged(self, request: Request) -> bytes | None:
        """The head as the client sent it plus where it came from, if nothing else has to change: the usual request."""
        headers = request.headers
        index = headers.index
        if headers.block is None or request.length < 0 or not isinstance(request.body, bytes) or not _NOT_FORWARDED.isdisjoint(index):
            return None
        length = index.get(b"content-length", b"")
        if b"host" not in index or request.target[0] != "/" or (length != b"%d" % request.length and length):
            return None
        peer = request.peer
        return b"".join((
            b"%b %b HTTP/1.1\r\n" % (request.method.encode("ascii"), request.target.encode("ascii")), headers.block,
            b"X-Forwarded-For: %b\r\nX-Forwarded-Proto: %b\r\nX-Forwarded-Host: %b\r\n" % (
                peer.address.encode("ascii") or b"unknown", b"https" if peer.tls else b"http", index[b"host"]),
            b"Via: %b\r\n\r\n" % self._via[1]))

    async def _rewritten(self, request: Request, origin: Origin, target: str | None, host: str | None, add: Iterable[tuple[str, str]],
                         timeouts: Timeouts) -> ClientResponse:
        fields = self._fields(request, host, self._upgrade(request))
        if add:
            fields = _with(fields, add)
        body = request.body
        content = (body or None if request.length == 0 else body) if isinstance(body, bytes) else request.stream()
        if not isinstance(body, bytes) and request.length >= 0:
            fields.append((b"Content-Length", b"%d" % request.length))
        path = _origin_form(request) if target is None else target.encode("ascii")
        return await self.client.send(origin, request.method.encode("ascii"), path, fields, content, timeouts)

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
            dropped = _NOT_FORWARDED if b"connection" not in index else _NOT_FORWARDED | _named(headers)
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


def _named(headers: Headers) -> set[bytes]:
    """Fields the sender declares to be of the connection; what the message needs cannot be taken away like that."""
    return {token.encode("latin-1") for token in headers.tokens("connection")} - _NEVER_NAMED


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


def _returned(headers: Headers) -> Headers:
    if _NOT_RETURNED.isdisjoint(headers.index):
        return headers
    dropped = _NOT_RETURNED if b"connection" not in headers.index else _NOT_RETURNED | _named(headers)
    return Headers.parsed([field for field in headers.raw if field[0].lower() not in dropped])


async def _stream(answer: ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.stream():
            yield piece
    finally:
        await answer.close()


def _joined(answer: ClientResponse, origin: Tunnel) -> Response:
    """Both agreed to speak something else: their bytes are joined until one of them ends."""
    headers = _returned(answer.headers)
    headers.remove("content-length")
    agreed = answer.headers.get("upgrade")
    if agreed is not None:
        headers.add("Upgrade", agreed)

    async def run(client: Tunnel) -> None:
        try:
            await splice(client, origin)
        finally:
            await answer.close()
    return Upgrade(run, headers, answer.status)


def failure(error: ClientError) -> Response:
    """What a client is told when its origin gave no answer."""
    if isinstance(error, ClientTimeout):
        return Response.text("the origin did not answer in time\n", 504)
    if isinstance(error, ConnectFailed):
        return Response.text("the origin cannot be reached\n", 503)
    return Response.text("the origin gave no valid answer\n", 502)
