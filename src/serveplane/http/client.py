"""The client: requests over per-origin pools of keep-alive connections."""
import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterable, Callable
from typing import Literal

from serveplane import pod
from serveplane.clock import SYSTEM, Clock
from serveplane.http import wire
from serveplane.http.body import Body
from serveplane.http.client_connection import ClientConnection, ClientResponse, Receiver
from serveplane.http.connect import ProxyServer
from serveplane.http.errors import ClientError, ConnectionLost, HttpError
from serveplane.http.headers import Headers, RawHeader
from serveplane.http.limits import ClientLimits, Timeouts
from serveplane.http.messages import HeaderItems
from serveplane.http.origin import Origin, split_url
from serveplane.http.pool import OriginPool
from serveplane.http.sweep import NEVER, Sweeper
from serveplane.http.tls import ClientTls

IDEMPOTENT = frozenset((b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"TRACE"))
SHORT_SECONDS = 8.0    # deadlines below this are announced to the sweeper
ANNOUNCED_PARTS = 8

_WRITTEN_HERE = frozenset((b"host", b"content-length", b"transfer-encoding"))

RequestBody = bytes | AsyncIterable[bytes] | None
Default = Literal["default"]
BeforeSend = Callable[[], None]


class Client:
    """Use as an async context manager, or call `close` at the end.

    `timeout` is a number (the total), a `Timeouts`, or None for no deadline at all; without it the client's own applies.
    """

    def __init__(self, *, limits: ClientLimits | None = None, tls: ClientTls | ssl.SSLContext | None = None,
                 timeouts: Timeouts | None = None, clock: Clock = SYSTEM, proxy: ProxyServer | None = None) -> None:
        self.limits = limits or ClientLimits()
        self.tls = ClientTls() if tls is None else tls
        """May be replaced (a rotated client certificate): connections made from then on use the new one."""
        self.cluster_proxy = pod.cluster_proxy()
        self.proxy = proxy
        """Where every connection is tunnelled through, if anywhere."""
        self.timeouts = timeouts or Timeouts()
        self.clock = clock
        self.closed = False
        self._pools: dict[Origin, OriginPool] = {}
        self._uploads: set[asyncio.Task[None]] = set()
        self._sweeper: Sweeper | None = None
        self._loop: asyncio.AbstractEventLoop   # known with the first request

    @property
    def sweeper(self) -> Sweeper:
        if self._sweeper is None:
            self._sweeper = Sweeper(asyncio.get_running_loop(), self.clock, tick=1.0)
        return self._sweeper

    async def request(self, method: str, url: str, *, headers: HeaderItems = (), body: RequestBody = None,
                      timeout: float | Timeouts | Default | None = "default", unix: str | None = None,
                      before_send: BeforeSend | None = None) -> ClientResponse:
        """Send a request and wait for the head of its answer; the body is then read, streamed or closed.

        `before_send` is called when the connection stands, right before the first byte goes out; it may refuse by raising.
        """
        origin, target = split_url(url)
        if unix is not None:
            origin = origin._replace(unix=unix)
        fields = headers if isinstance(headers, Headers) else Headers(headers)
        line = (method.encode("ascii"), target.encode("ascii"))
        return await self.send(origin, *line, fields.raw, body, self._deadlines(timeout), before_send)

    def _deadlines(self, timeout: float | Timeouts | Default | None) -> Timeouts:
        if isinstance(timeout, Timeouts):
            return timeout
        if timeout == "default":
            return self.timeouts
        if timeout is None:
            return Timeouts(None, None, None)
        return Timeouts(self.timeouts.connect, None, float(timeout))

    async def send(self, origin: Origin, method: bytes, target: bytes, fields: list[RawHeader], body: RequestBody,
                   timeouts: Timeouts, before_send: BeforeSend | None = None) -> ClientResponse:
        """The same for those who have it as bytes already. Host is added if it is not there; framing fields are ours."""
        if self.cluster_proxy is not None and origin.scheme == "http" and origin.unix is None and pod.is_cluster_name(origin.host):
            target = b"http://%b%b" % (origin.authority.encode("ascii"), target)   # as a proxy is asked, which the pool connects to
            fields = [*fields, (b"Proxy-Authorization", self.cluster_proxy.authorization())]
        head = request_head(method, target, fields, body, origin.authority)
        return await self.exchange(origin, head, body, timeouts, _may_repeat(method, fields, body), before_send)

    async def exchange(self, origin: Origin, head: bytes, body: RequestBody, timeouts: Timeouts, may_repeat: bool,
                       before_send: BeforeSend | None = None, *, fresh: bool = False) -> ClientResponse:
        """Send a head that is complete, framing included, and wait for the answer's.

        If a kept connection turns out stale and the request may be repeated, it is sent once more, on a new one.
        """
        pool = self._pools.get(origin) or self._pool(origin)
        read, total = self._deadlines_of(timeouts)
        connection = (None if fresh else pool.take()) or await pool.acquire(self._connect_seconds(timeouts, total), fresh=fresh)
        while True:
            if before_send is not None:
                _ask(before_send, pool, connection)
            answer: asyncio.Future[ClientResponse] = self._loop.create_future()
            if body is None or isinstance(body, bytes):
                connection.send(head, body or b"", read, total, answer)
            else:
                connection.send(head, b"", read, total, answer)
                self._upload(connection, body, chunked=b"\r\nTransfer-Encoding: chunked\r\n" in head)
            try:
                return await answer
            except asyncio.CancelledError:
                connection.fail(ConnectionLost("the request was cancelled"))
                raise
            except ConnectionLost as error:
                if not error.replayable or not may_repeat:
                    raise
                may_repeat = False   # once
            connection = await pool.acquire(self._connect_seconds(timeouts, total), fresh=True)

    def exchange_now(self, origin: Origin, head: bytes, body: bytes, timeouts: Timeouts, answer: Receiver) -> ClientConnection | None:
        """Send on a connection that is kept and be called back, without waiting for anything; None (and nothing sent) if there is none."""
        pool = self._pools.get(origin)
        connection = None if pool is None else pool.take()
        if connection is not None:
            connection.send(head, body, *self._deadlines_of(timeouts), answer)
        return connection

    def _deadlines_of(self, timeouts: Timeouts) -> tuple[float, float]:
        """Seconds between two arrivals, and the point in time when all must be over."""
        read, total = timeouts.read, timeouts.total
        if read is None:
            read = NEVER
        if total is None:
            if read < SHORT_SECONDS:
                self._announce(read)
            return read, NEVER
        if read < SHORT_SECONDS or total < SHORT_SECONDS:
            self._announce(min(read, total))
        return read, self.clock.monotonic() + total

    def _pool(self, origin: Origin) -> OriginPool:
        if self.closed:
            raise ClientError("the client is closed")
        self._loop = asyncio.get_running_loop()
        pool = self._pools[origin] = OriginPool(self, origin)
        return pool

    def _connect_seconds(self, timeouts: Timeouts, total: float) -> float | None:
        if total == NEVER:
            return timeouts.connect
        left = max(total - self.clock.monotonic(), 0.0)
        return left if timeouts.connect is None else min(left, timeouts.connect)

    def _announce(self, shortest: float) -> None:
        self.sweeper.soon(max(shortest / ANNOUNCED_PARTS, 0.01))

    def _upload(self, connection: ClientConnection, body: AsyncIterable[bytes], chunked: bool) -> None:
        """Send a streaming body beside waiting for the answer: a server may refuse before it has read all."""
        task = asyncio.get_running_loop().create_task(_send_body(connection, body, chunked), name="http upload")
        connection.upload = task
        self._uploads.add(task)
        task.add_done_callback(self._uploads.discard)

    async def close(self) -> None:
        """Close every connection; running requests fail."""
        self.closed = True
        for pool in self._pools.values():
            pool.close_idle()
        self._pools = {}
        if self._sweeper is not None:
            for member in tuple(self._sweeper.members):
                if isinstance(member, ClientConnection):
                    member.fail(ConnectionLost("the client was closed"))
            self._sweeper.stop()
        for task in tuple(self._uploads):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, HttpError):
                await task

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _ask(before_send: BeforeSend, pool: OriginPool, connection: ClientConnection) -> None:
    try:
        before_send()
    except BaseException:
        pool.release(connection, None)
        raise


def request_head(method: bytes, target: bytes, fields: list[RawHeader], body: RequestBody | Body, authority: str) -> bytes:
    """The request's head with exactly one Host and one framing."""
    kept, declared, host = [], None, b""
    for field in fields:
        key = field[0].lower()
        if key not in _WRITTEN_HERE:
            kept.append(field)
        elif key == b"host":   # the last one counts: a proxy puts its own after the client's
            host = field[1]
        elif key == b"content-length":
            declared = field[1]
    if isinstance(body, bytes):
        framing = b"Content-Length: %d\r\n" % len(body)
    elif body is not None:
        framing = b"Transfer-Encoding: chunked\r\n" if declared is None else b"Content-Length: %b\r\n" % declared
    else:
        framing = b"Content-Length: 0\r\n" if method in (b"POST", b"PUT", b"PATCH") else b""
    return wire.request_head(method, target, [(b"Host", host or authority.encode("ascii")), *kept], framing)


def _may_repeat(method: bytes, fields: list[RawHeader], body: RequestBody) -> bool:
    """RFC 9110, 9.2.2: only what does the same when done twice, and only if we still have its body."""
    if body is not None and not isinstance(body, bytes):
        return False
    return method in IDEMPOTENT or any(name.lower() == b"idempotency-key" for name, _ in fields)


async def _send_body(connection: ClientConnection, body: AsyncIterable[bytes], chunked: bool) -> None:
    try:
        async for piece in body:
            if piece:
                await connection.write(wire.chunk(piece) if chunked else piece)
        if chunked:
            await connection.write(wire.LAST_CHUNK)
    except Exception as error:
        connection.upload = None   # this task: it ends by itself
        connection.fail(error if isinstance(error, HttpError) else ClientError(f"the request body could not be read: {error!r}"))
    else:
        connection.uploaded()
