"""Listening: `serve` starts a server, `Server` drains, reloads and closes it."""
import asyncio
import contextlib
import logging
import os
import socket
import ssl
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any

from serveplane.clock import SYSTEM, Clock
from serveplane.http.accesslog import AccessLog
from serveplane.http.connection import Connection
from serveplane.http.engine import Engine, PassOn
from serveplane.http.limits import Limits
from serveplane.http.messages import Handler
from serveplane.http.metrics import Metrics
from serveplane.http.tls import TlsConfig

LOG = logging.getLogger(__name__)
BACKLOG = 1024
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")


async def serve(handler: Handler, host: str = "127.0.0.1", port: int = 0, *, tls: TlsConfig | ssl.SSLContext | None = None,
                limits: Limits | None = None, hosts: Collection[str] | None = None, reuse_port: bool = False,
                unix: str | Path | None = None, sock: socket.socket | None = None, metrics: Metrics | None = None,
                access_log: AccessLog | None = None, http2: PassOn | None = None, clock: Clock = SYSTEM) -> "Server":
    """Listen and answer with `handler`.

    `port=0` takes a free one (`server.port`). `hosts` is the allow-list of Host names, 421 for others. `reuse_port` lets several
    processes share a port. `unix` listens on a socket file, `sock` on a socket already bound. `http2` takes connections that
    begin with the HTTP/2 preface. A `TlsConfig` is watched for changed files; an `SSLContext` is the caller's to keep fresh.
    """
    engine = Engine(handler, limits or Limits(), clock, hosts=hosts, metrics=metrics, access_log=access_log, http2=http2)
    if sock is None:
        sock = _unix_socket(unix) if unix is not None else _socket(host, port, reuse_port)
    server = Server(engine, sock, tls, None if unix is None else Path(unix))
    await server.start()
    return server


def _socket(host: str, port: int, reuse_port: bool) -> socket.socket:
    family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            with contextlib.suppress(OSError):   # "::" serves IPv4 too, as Kubernetes' programs do
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def _unix_socket(path: str | Path) -> socket.socket:
    """A socket file only its owner may connect to; one left behind by a crash is replaced, any other file is not."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(path))
        os.chmod(path, 0o600)
    except OSError:
        sock.close()
        raise
    return sock


class Server:
    """A listening server."""

    def __init__(self, engine: Engine, sock: socket.socket, tls: TlsConfig | ssl.SSLContext | None, unix: Path | None) -> None:
        self._engine = engine
        self._sock = sock
        self._tls = tls
        self._unix = unix
        self._listener: asyncio.AbstractServer | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._fingerprint: object = None
        sock.setblocking(False)

    @property
    def port(self) -> int:
        """The port listened on; 0 for a socket file."""
        name = self._sock.getsockname()
        return int(name[1]) if isinstance(name, tuple) else 0

    @property
    def address(self) -> str:
        name = self._sock.getsockname()
        return str(name[0]) if isinstance(name, tuple) else str(name)

    @property
    def url(self) -> str:
        """Where a client on this machine finds it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.address, self.address)
        return f"http{'s' if self._tls else ''}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def metrics(self) -> Metrics:
        return self._engine.metrics

    @property
    def connections(self) -> int:
        return len(self._engine.connections)

    async def start(self) -> None:
        await self._listen()
        self._watch_tls()

    async def _listen(self) -> None:
        """Accept on a duplicate of our socket, so that the listener can be replaced without losing the queue of the old one."""
        options: dict[str, Any] = {}
        if self._tls is not None:
            options = {"ssl": self._context(self._tls), "ssl_handshake_timeout": self._engine.limits.handshake_seconds}
        loop, engine = self._engine.loop, self._engine
        old = self._listener
        self._listener = await loop.create_server(lambda: Connection(engine), sock=self._sock.dup(), backlog=BACKLOG, **options)
        if old is not None:
            old.close()

    def _context(self, tls: TlsConfig | ssl.SSLContext) -> ssl.SSLContext:
        if isinstance(tls, ssl.SSLContext):
            return tls
        self._fingerprint = tls.fingerprint()
        return tls.context()

    async def reload_tls(self) -> None:
        """Read the certificate files again: new connections get the new ones, open connections stay."""
        await self._listen()

    def _watch_tls(self) -> None:
        if isinstance(self._tls, TlsConfig) and self._tls.watch_seconds is not None:
            self._watch = self._engine.loop.call_later(self._tls.watch_seconds, self._look_at_tls)

    def _look_at_tls(self) -> None:
        tls = self._tls
        try:
            changed = isinstance(tls, TlsConfig) and tls.fingerprint() != self._fingerprint
        except OSError:
            changed = False   # between two files of a rotation; look again later
        if changed:
            self._reloading = self._engine.loop.create_task(self._reload_and_report(), name="tls reload")
        self._watch_tls()

    async def _reload_and_report(self) -> None:
        try:
            await self.reload_tls()
        except Exception:   # a bad certificate must not take the old one down
            self._engine.metrics.tls_reload_failures += 1
            LOG.exception("the new certificate cannot be used; keeping the one in use")

    async def drain(self, grace: float = 30.0) -> None:
        """Take no new connections, let running requests finish for `grace` seconds, then end the rest."""
        engine = self._engine
        engine.draining = True
        self._stop_listening()
        for connection in tuple(engine.connections):
            connection.retire()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._emptied()
        await self.close()

    async def _emptied(self) -> None:
        engine = self._engine
        while engine.connections:
            engine.changed.clear()
            await engine.changed.wait()

    async def close(self) -> None:
        """End everything now: handlers are cancelled and waited for."""
        self._engine.draining = True
        self._stop_listening()
        for connection in tuple(self._engine.connections):
            connection.abort()
        await self._emptied()
        self._engine.sweeper.stop()
        if self._engine.access_log is not None:
            await self._engine.access_log.flush()

    def _stop_listening(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            self._sock.close()
            if self._unix is not None:
                self._unix.unlink(missing_ok=True)

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
