"""`pods/portforward`: each connection on the user's side is a pair of SPDY streams here and a socket to the pod.

Clients speak SPDY either bare (`Upgrade: SPDY/3.1`) or inside a WebSocket. A node here gives every pod an address on this machine, so the
API server connects to it itself; ports the node had to move are looked up in the pod's annotation.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from serveplane import http
from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.nodes import CONNECT_SECONDS
from serveplane.embedded.apiserver.reading import found
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.node.addresses import moved_by
from serveplane.embedded.streams import spdy
from serveplane.embedded.streams.spdy import PROTOCOL_ERROR, Pipe, Session, SpdyError, Stream, StreamReset
from serveplane.embedded.streams.websocket import WebSocket, agreed, words

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

PROTOCOL = "portforward.k8s.io"
TUNNELLED = f"{spdy.UPGRADE}+{PROTOCOL}"
PIECE_BYTES = 64 << 10

Socket = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[int], Awaitable[Socket]]


async def portforward(core: "Core", request: Request, resource: Resource) -> Answer:
    pod = found(core, resource, request.target.namespace, request.target.name).value()
    headers, wrapped = _agreed(request.headers)
    address = (pod.get("status") or {}).get("podIP")
    if not address:
        raise errors.bad_request(f"pod {request.target.name} has no address; is it running?")
    moved = moved_by(pod)

    async def dial(port: int) -> Socket:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncio.open_connection(address, moved.get(port, port), limit=PIECE_BYTES)

    async def run(tunnel: http.Tunnel) -> None:
        with contextlib.suppress(http.HttpError):  # the client went away, which is how these end
            if not wrapped:
                await forward(tunnel, dial)
                return
            pipe = WebSocket(tunnel)
            await forward(pipe, dial)
            await pipe.close()

    return Answer(101, b"", headers=headers, upgrade=run)


def _agreed(headers: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """How to say yes, and whether SPDY comes inside a WebSocket."""
    bare = spdy.is_asked(headers)
    if "upgrade" not in headers.get("connection", "").lower() or not (bare or headers.get("upgrade", "").lower() == "websocket"):
        raise errors.bad_request("Upgrade request required")
    if bare:
        if PROTOCOL not in words(headers.get("x-stream-protocol-version", PROTOCOL)):
            raise errors.Refusal(403, "Forbidden", f"the only protocol offered is {PROTOCOL}")
        return {"Upgrade": spdy.UPGRADE, "X-Stream-Protocol-Version": PROTOCOL}, False
    answer = agreed(headers, [TUNNELLED])
    if answer is None:
        raise errors.bad_request(f"a WebSocket of version 13 with {TUNNELLED} is required")
    return answer, True


async def forward(pipe: Pipe, dial: Dial) -> None:
    """Serve one client until it goes. Whatever is still open then is closed."""
    session = Session(pipe)
    waiting: dict[str, dict[str, Stream]] = {}
    async with asyncio.TaskGroup() as group:
        tasks: set[asyncio.Task[None]] = set()
        try:
            async for stream in session.streams():
                pair = _paired(waiting, stream)
                if pair is None:
                    await session.reset(stream.number, PROTOCOL_ERROR)
                elif len(pair) == 2:
                    task = group.create_task(_connection(pair["data"], pair["error"], dial))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
        except (SpdyError, http.HttpError):
            pass  # the client is gone, or closing is all there is to say to it
        finally:
            for task in tasks:
                task.cancel()


def _paired(waiting: dict[str, dict[str, Stream]], stream: Stream) -> dict[str, Stream] | None:
    """A request is a stream for data and one for errors, in either order; None for a stream that is neither."""
    headers = stream.headers
    kind, port = headers.get("streamtype", ""), headers.get("port", "")
    if kind not in ("data", "error") or not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) < 1 << 16:
        return None
    request = headers.get("requestid") or port
    pair = waiting.setdefault(request, {})
    if kind in pair:
        return None
    pair[kind] = stream
    if len(pair) == 2:
        del waiting[request]
    return pair


async def _connection(data: Stream, error: Stream, dial: Dial) -> None:
    port = int(data.headers["port"])
    try:
        try:
            reader, writer = await dial(port)
        except (OSError, TimeoutError) as trouble:
            await error.write(f"error forwarding port {port} to the pod: {trouble or 'timed out'}".encode())
        else:
            await _carry(data, reader, writer)
        await data.finish()
        await error.finish()
    except (StreamReset, http.HttpError):
        pass  # the client gave this connection up


async def _carry(data: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Both ways until the pod has sent its last."""
    upwards = asyncio.create_task(_to_pod(data, writer))
    try:
        while piece := await reader.read(PIECE_BYTES):
            await data.write(piece)
    except ConnectionError:
        pass  # the pod's process ended hard: for the client this is an end like others
    finally:
        upwards.cancel()
        await asyncio.gather(upwards, return_exceptions=True)
        writer.close()


async def _to_pod(data: Stream, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await data.read():
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
    except StreamReset:
        writer.transport.abort()  # nobody is left to hear the pod's answer
    except OSError:
        pass  # what the pod still has to say is read by the other side
