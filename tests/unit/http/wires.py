"""Raw connections for tests: bytes in, bytes out, nothing interpreted on the way."""
import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from serveplane.http import Request, Response, Server, serve


class Wire:
    """A client that says exactly what it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, server: Server | int) -> "Wire":
        port = server if isinstance(server, int) else server.port
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 30)

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        """One answer with a Content-Length."""
        head = (await self.head()).decode("latin-1")
        lines = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        body = await asyncio.wait_for(self.reader.readexactly(int(headers.get("content-length", "0"))), 30)
        return int(lines[0].split(" ")[1]), headers, body

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        return await asyncio.wait_for(self.reader.read(-1), 30)

    async def close(self) -> None:
        if self.writer.transport.get_write_buffer_size():
            self.writer.transport.abort()   # the server may never read it
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


def reset(client: Wire) -> None:
    """Go away as a crashed peer does: with a RST instead of a FIN."""
    client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()


@asynccontextmanager
async def serving(handler: Callable[[Request], Awaitable[Response]], **options: Any) -> AsyncIterator[Server]:
    server = await serve(handler, **options)
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def wire(server: Server | int) -> AsyncIterator[Wire]:
    connection = await Wire.to(server)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def origin(script: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    """A server that does whatever the script says; gives its port."""
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def echo(request: Request) -> Response:
    """What arrived, told back."""
    body = await request.read()
    return Response.json({"method": request.method, "path": request.path, "query": request.query, "body": body.decode("latin-1"),
                          "headers": request.headers.items()})


def answer(status: int = 200, body: bytes = b"ok", fields: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(body), fields, body)


async def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for something that happens on the other side of a socket."""
    async with asyncio.timeout(seconds):
        while not condition():   # noqa: ASYNC110
            await asyncio.sleep(0.01)
