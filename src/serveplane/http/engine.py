"""What all connections of one server share."""
import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from serveplane.clock import Clock
from serveplane.http.limits import Limits
from serveplane.http.messages import Handler, Peer, Request, Response
from serveplane.http.metrics import Metrics
from serveplane.http.sweep import Sweeper
from serveplane.http.wire import DateLine

if TYPE_CHECKING:
    from serveplane.http.accesslog import AccessLog
    from serveplane.http.connection import Connection
    from serveplane.http.tunnel import Tunnel

PassOn = Callable[["Tunnel", Peer], Awaitable[None]]
"""Takes over a connection that began with the HTTP/2 preface (which is still in the tunnel)."""


class Engine:
    """Settings, counters and the set of open connections."""

    __slots__ = ("access_log", "changed", "clock", "connections", "dates", "draining", "handler", "hosts", "http2", "limits", "loop",
                 "metrics", "sweeper")

    def __init__(self, handler: Handler, limits: Limits, clock: Clock, *, hosts: Collection[str] | None = None,
                 metrics: Metrics | None = None, access_log: "AccessLog | None" = None, http2: PassOn | None = None) -> None:
        self.handler = handler
        self.limits = limits
        self.clock = clock
        self.hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self.metrics = Metrics() if metrics is None else metrics
        self.access_log = access_log
        self.http2 = http2
        self.loop = asyncio.get_running_loop()
        self.dates = DateLine(clock)
        self.draining = False
        self.changed = asyncio.Event()
        self.connections: set[Connection] = set()
        shortest = min(limits.head_seconds, limits.idle_seconds, limits.pace_seconds, limits.linger_seconds)
        self.sweeper = Sweeper(self.loop, clock, tick=min(max(shortest / 4, 0.02), 1.0))

    @property
    def full(self) -> bool:
        return self.limits.connections is not None and len(self.connections) >= self.limits.connections

    def admit(self, connection: "Connection") -> None:
        self.connections.add(connection)
        self.sweeper.add(connection)
        self.metrics.connections += 1

    def forget(self, connection: "Connection") -> None:
        """The connection is closed and its handler has ended."""
        if connection in self.connections:
            self.connections.discard(connection)
            self.sweeper.discard(connection)
            self.metrics.connections -= 1
            self.changed.set()

    def allows(self, request: Request) -> bool:
        """Whether the Host is one of ours: a page of another site that rebinds its name to us is not served."""
        if self.hosts is None:
            return True
        host = request.headers.index.get(b"host", b"").decode("latin-1").lower()
        name = host[:host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
        return name in self.hosts

    def record(self, request: Request, response: Response, sent: int, started: float, now: float) -> None:
        self.metrics.observe(request.method, response.status, now - started, sent)
        if self.access_log is not None:
            self.access_log.add(request, response.status, sent, now - started)
