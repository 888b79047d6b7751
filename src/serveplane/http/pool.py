"""Keep-alive connections to one origin: bounded, last used first, with a fair line for those who wait."""
import asyncio
import re
import ssl
from collections import deque
from typing import TYPE_CHECKING

from serveplane import pod
from serveplane.http.client_connection import ClientConnection
from serveplane.http.connect import tunnelled
from serveplane.http.errors import ClientTimeout, ConnectFailed, PoolExhausted
from serveplane.http.headers import Headers
from serveplane.http.origin import Origin
from serveplane.http.tls import ClientTls

if TYPE_CHECKING:
    from serveplane.http.client import Client

_KEEP_ALIVE = re.compile(rb"timeout=(\d{1,6})", re.IGNORECASE)


class OriginPool:
    """All connections of one client to one origin."""

    __slots__ = ("_client", "_context", "_idle", "_limits", "_open", "_waiting", "name", "origin")

    def __init__(self, client: "Client", origin: Origin) -> None:
        self._client = client
        self._limits = client.limits
        self._context: tuple[ClientTls, ssl.SSLContext] | None = None
        self._idle: list[ClientConnection] = []
        self._open = 0
        self._waiting: deque[asyncio.Future[ClientConnection | None]] = deque()
        self.origin = origin
        self.name = origin.unix or origin.authority

    @property
    def open(self) -> int:
        return self._open

    @property
    def idle(self) -> int:
        return len(self._idle)

    def take(self) -> ClientConnection | None:
        """An idle connection, if there is one that still stands."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
        return None

    async def acquire(self, seconds: float | None, *, fresh: bool = False) -> ClientConnection:
        """A connection, within so many seconds: idle, new, or handed over by whoever is done first."""
        connection = None if fresh else self.take()
        if connection is not None:
            return connection
        try:
            async with asyncio.timeout(seconds):
                if self._open >= self._limits.connections_per_origin:
                    connection = await self._wait()
                    if connection is not None:
                        return connection
                return await self._connect()
        except TimeoutError:
            raise ClientTimeout(f"no connection to {self.name} within {seconds:g} s") from None

    async def _wait(self) -> ClientConnection | None:
        """Until a connection is handed over (usable or None: then there is room for a new one)."""
        if len(self._waiting) >= self._limits.waiting_per_origin:
            raise PoolExhausted(f"too many requests wait for {self.name}")
        waiter: asyncio.Future[ClientConnection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():   # it came just as we left: pass it on
                connection = waiter.result()
                self._pass_on() if connection is None else self.release(connection, None)
            raise
        finally:
            if not waiter.done() or waiter.cancelled():
                self._waiting = deque(other for other in self._waiting if other is not waiter)

    async def _connect(self) -> ClientConnection:
        self._open += 1
        try:
            connection = await self._dial()
        except BaseException as error:
            self._open -= 1
            self._pass_on()
            if isinstance(error, OSError | ssl.SSLError) and not isinstance(error, TimeoutError):
                raise ConnectFailed(f"cannot connect to {self.name}: {error}") from error
            raise
        self._client.sweeper.add(connection)
        return connection

    async def _dial(self) -> ClientConnection:
        loop, origin, client = asyncio.get_running_loop(), self.origin, self._client
        context, name = self._tls() if origin.scheme == "https" else (None, None)
        made = ClientConnection(self, self._limits, client.clock)
        if origin.unix is not None:
            await loop.create_unix_connection(lambda: made, origin.unix, ssl=context, server_hostname=name)
            return made
        host, port = origin.host, origin.port
        if client.cluster_proxy is not None and context is None and pod.is_cluster_name(host):
            host, port = client.cluster_proxy.address
        if client.proxy is not None:
            await tunnelled(client.proxy, host, port, made, context, name)
            return made
        await loop.create_connection(lambda: made, host, port, ssl=context, server_hostname=name)
        return made

    def _tls(self) -> tuple[ssl.SSLContext, str]:
        """The context (made once per settings, for that is expensive) and the name to ask for and verify."""
        settings = self.origin.tls or self._client.tls
        if isinstance(settings, ssl.SSLContext):
            return settings, self.origin.host
        if self._context is None or self._context[0] is not settings:
            self._context = (settings, settings.context())
        return self._context[1], settings.server_name or self.origin.host

    def release(self, connection: ClientConnection, headers: Headers | None) -> None:
        """An exchange ended well: the connection goes to who waits longest, or rests."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if len(self._idle) >= self._limits.idle_per_origin or self._client.closed:
            connection.transport.close()
            return
        connection.deadline = self._client.clock.monotonic() + self._idle_seconds(headers)
        self._idle.append(connection)

    def _idle_seconds(self, headers: Headers | None) -> float:
        """Ours, or a little less than the peer announces: a request must not cross with its close."""
        seconds = self._limits.idle_seconds
        hint = None if headers is None else headers.index.get(b"keep-alive")
        match = None if hint is None else _KEEP_ALIVE.search(hint)
        return seconds if match is None else min(seconds, max(int(match[1]) - 1.0, 0.0))

    def closed(self, connection: ClientConnection) -> None:
        """A connection is gone; there is room for another."""
        self._open -= 1
        self._client.sweeper.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def close_idle(self) -> None:
        for connection in self._idle:
            connection.transport.close()
