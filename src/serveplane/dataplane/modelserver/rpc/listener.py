"""The gRPC port. Most servers are never called over gRPC, so its library is imported at the first connection.

Until then a plain listener holds the port. The first caller's connection is relayed to the gRPC server, which has
meanwhile taken over the same port (SO_REUSEPORT); everyone after that reaches it directly.
"""
import asyncio
import importlib.util
import logging
import socket
from contextlib import suppress
from typing import Any

from serveplane.dataplane.modelserver.server import Application

log = logging.getLogger(__name__)
_PIECE = 64 << 10


class LazyListener:
    """Use `start`, then `close`."""

    def __init__(self, application: Application, host: str, port: int, max_message: int) -> None:
        self._application, self._host, self._max_message = application, host, max_message
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        self._listener: asyncio.Server | None = None
        self._server: Any = None
        self._starting: asyncio.Task[None] | None = None
        self._relays: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._listener = await asyncio.start_server(self._relay, sock=self._socket)

    async def close(self, grace: float) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._starting is not None:
            with suppress(Exception):
                await self._starting
        if self._server is not None:
            await self._server.stop(grace)
        for relay in list(self._relays):
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        task.add_done_callback(self._relays.discard)
        try:
            if self._starting is None:
                self._starting = asyncio.create_task(self._take_over(), name="grpc start")
            await asyncio.shield(self._starting)
            await _piped(reader, writer, self._host, self.port)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _take_over(self) -> None:
        service = await asyncio.to_thread(importlib.import_module, "serveplane.dataplane.modelserver.rpc.service")
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._server = await service.start(self._application, f"{host}:{self.port}", self._max_message)
        if self._listener is not None:
            self._listener.close()
        log.info("gRPC is served on port %d", self.port)


def is_available() -> bool:
    return importlib.util.find_spec("grpc") is not None


def _bound(host: str, port: int) -> socket.socket:
    family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    bound = socket.socket(family, kind, proto)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
        bound.setblocking(False)
    except OSError:
        bound.close()
        raise
    return bound


async def _piped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
    near = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    far_reader, far_writer = await asyncio.open_connection(near, port)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copied(reader, far_writer))
            group.create_task(_copied(far_reader, writer))
    except* OSError:
        pass
    finally:
        far_writer.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()
