"""One client connection: a request out, its answer in, then the next. The pool decides who uses it when."""
import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol, cast

from serveplane.clock import Clock
from serveplane.http import heads
from serveplane.http.body import Body
from serveplane.http.errors import (
    BadResponse,
    ClientTimeout,
    ConnectionLost,
    HttpError,
    PayloadTooLarge,
    ProtocolViolation,
)
from serveplane.http.framing import ChunkedDecoder, Decoder, EofDecoder, LengthDecoder
from serveplane.http.headers import Headers
from serveplane.http.limits import ClientLimits
from serveplane.http.output import TURN_BYTES, turn
from serveplane.http.sweep import NEVER
from serveplane.http.tunnel import Tunnel

if TYPE_CHECKING:
    from serveplane.http.pool import OriginPool

DRAIN_SECONDS = 2.0


class ClientResponse:
    """An answer whose head has come. Read it, stream it or close it; then the connection goes back to the pool."""

    __slots__ = ("_body", "_connection", "_limit", "headers", "length", "status", "tunnel")

    def __init__(self, head: heads.ResponseHead, body: bytes | Body, connection: "ClientConnection | None", limit: int) -> None:
        self.status = head.status
        self.headers: Headers = head.headers
        self.length = head.length
        """Of the body; negative if it is not known in advance."""
        self.tunnel: Tunnel | None = None
        """After a 101, or a 2xx to a CONNECT: the raw byte stream."""
        self._body = body
        self._connection = connection
        self._limit = limit

    @property
    def body(self) -> bytes | Body:
        """Bytes if all of it is here, for those who pass it on."""
        body = self._body
        if not isinstance(body, bytes):
            whole = body.taken()
            if whole is None:
                return body
            self._body = body = whole
        return body

    async def read(self, limit: int | None = None) -> bytes:
        """The whole body; longer than the limit is a PayloadTooLarge."""
        limit = self._limit if limit is None else limit
        body = self._body
        if not isinstance(body, bytes):
            try:
                self._body = body = await body.read(limit)
            except BaseException:
                await self.close()
                raise
        elif len(body) > limit:
            raise PayloadTooLarge(limit)
        return body

    async def stream(self) -> AsyncIterator[bytes]:
        """The body piece by piece; the sender is held back meanwhile. Leaving early gives the connection up."""
        body = self._body
        if isinstance(body, bytes):
            if body:
                yield body
            return
        try:
            while piece := await body.next():
                yield piece
        finally:
            await self.close()

    async def json(self) -> Any:
        from msgspec import json  # as in `messages`
        return json.decode(await self.read())

    async def close(self) -> None:
        """No more of this is wanted. A short rest is skipped so that the connection can be used again, a long one closes it."""
        self._give_up()

    def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        if self.tunnel is not None:
            self.tunnel.close()
        elif connection is not None and isinstance(self._body, Body) and not self._body.complete:
            connection.abandon(self._body)

    def __del__(self) -> None:
        if self._connection is not None:
            self._give_up()

    async def __aenter__(self) -> "ClientResponse":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<ClientResponse {self.status}>"


class Receiver(Protocol):
    """Who gets the answer: a future, or somebody who does without one."""

    def done(self) -> bool: ...

    def set_result(self, answer: ClientResponse, /) -> None: ...

    def set_exception(self, error: Exception, /) -> None: ...


class ClientConnection(asyncio.Protocol):
    """The protocol object of one connection to an origin."""

    __slots__ = ("_answer", "_body", "_buffer", "_clock", "_decoder", "_drained", "_held", "_keep", "_limits", "_paused",
                 "_read", "_request", "_total", "_unbroken", "deadline", "lost", "pool", "served", "transport", "upload")

    def __init__(self, pool: "OriginPool", limits: ClientLimits, clock: Clock) -> None:
        self.pool = pool
        self._limits = limits
        self._clock = clock
        self._buffer = b""
        self._answer: Receiver | None = None
        self._body: Body | None = None
        self._decoder: Decoder | None = None
        self._keep = False
        self._held = False
        self._paused = False
        self._unbroken = 0
        self._drained: asyncio.Future[None] | None = None
        self._request = b""       # its head, to judge the answer by
        self._read = self._total = NEVER
        self.upload: asyncio.Task[None] | None = None
        self.lost = False
        self.served = 0
        self.deadline = NEVER

    # the pool's and the client's side

    @property
    def usable(self) -> bool:
        return not self.lost and not self.transport.is_closing()

    def send(self, head: bytes, body: bytes, read: float, total: float, answer: Receiver) -> None:
        """Write a request; `answer` gets the response, or the reason why there is none. `total` is a point in time."""
        self._answer = answer
        self._request = head
        self._read, self._total = read, total
        self.deadline = min(self._clock.monotonic() + read, total)
        self.transport.write(head + body if body else head)

    async def write(self, data: bytes) -> None:
        """More of a request body, as fast as the peer takes it."""
        if not self.usable:
            raise ConnectionLost("the connection closed while the request was being sent")
        self.transport.write(data)
        self._unbroken += len(data)
        if self._unbroken > TURN_BYTES and not self._paused:   # a body that never waits must not keep the loop to itself
            self._unbroken = 0
            await turn()
        if self._paused:
            self._drained = asyncio.get_running_loop().create_future()
            try:
                await self._drained
            finally:
                self._drained = None
        self._wait_for_peer()

    def uploaded(self) -> None:
        """The request body is out; if the answer was quicker the connection is free now."""
        self.upload = None
        if self._answer is None and self._decoder is None:
            self._free()

    def fail(self, error: HttpError) -> None:
        """End the exchange with this error, and the connection with it."""
        answer, self._answer = self._answer, None
        body, self._decoder, self._body = self._body, None, None
        upload, self.upload = self.upload, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
        if body is not None:
            body.fail(error)
        if upload is not None:
            upload.cancel()
        self.transport.abort()

    def abandon(self, body: Body) -> None:
        decoder = self._decoder
        if body is not self._body:
            return
        if isinstance(decoder, LengthDecoder) and decoder.remaining <= self._limits.drain_bytes and self._keep and self.upload is None:
            self._read = DRAIN_SECONDS
            body.discard()
            self._wait_for_peer()
        else:
            self.fail(ConnectionLost("the response was closed before its end"))

    def expire(self, now: float) -> None:
        if self._answer is None and self._decoder is None:
            self.transport.close()   # idle long enough
        elif self._held and now < self._total:
            self._wait_for_peer()    # it is we who are slow
        else:
            what = "the request took too long" if now >= self._total else f"nothing came from {self.pool.name} for {self._read:g} s"
            self.fail(ClientTimeout(what))

    def _wait_for_peer(self) -> None:
        self.deadline = min(self._clock.monotonic() + self._read, self._total)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            if self._decoder is not None:
                rest = self._feed(data)
            else:
                rest = self._heads(self._buffer + data if self._buffer else data)
        except (ProtocolViolation, BadResponse) as error:
            self.fail(error if isinstance(error, BadResponse) else BadResponse(str(error)))
            return
        if rest:   # bytes nobody asked for: whose answer are they?
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        body = self._body
        if isinstance(self._decoder, EofDecoder) and exc is None and body is not None:
            self._decoder = self._body = None
            body.finish()
        fresh = self._answer is not None and not self._buffer
        error = ConnectionLost(f"{self.pool.name} closed the connection{f': {exc}' if exc else ''}", replayable=fresh and self.served > 0)
        self.fail(error)
        self.pool.closed(self)

    def eof_received(self) -> None:
        """The transport closes itself, and connection_lost sorts out what that means."""

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # the answer

    def _heads(self, data: bytes) -> bytes:
        """Read heads until a final one; returns what does not belong to this answer."""
        while self._answer is not None and self._decoder is None:
            end = data.find(b"\r\n\r\n")
            if end < 0 or end > self._limits.head_bytes:
                if len(data) > self._limits.head_bytes:
                    raise BadResponse("the response head is too long")
                self._buffer = data
                return b""
            head = heads.response_head(data[:end + 4], self._limits, to_head=self._request.startswith(b"HEAD "))
            data = data[end + 4:]
            if head.status >= 200 or head.status == 101:
                return self._begin(head, data)
        self._buffer = b""
        return data

    def _begin(self, head: heads.ResponseHead, data: bytes) -> bytes:
        self._buffer = b""
        length = head.length
        if head.status == 101 or (head.status < 300 and self._request.startswith(b"CONNECT ")):
            return self._switch(head, data)
        self._keep = head.keep_alive
        if 0 <= length <= len(data):   # the usual small answer is all here
            self._deliver(ClientResponse(head, data[:length], None, self._limits.body_bytes))
            self._free(head)
            return data[length:]
        body = self._body = Body(self, self._limits.buffer_bytes)
        if length > 0:
            self._decoder = LengthDecoder(body, length)
        else:
            self._decoder = ChunkedDecoder(body) if length == heads.CHUNKED else EofDecoder(body)
        rest = self._feed(data) if data else b""
        self._deliver(ClientResponse(head, body, self, self._limits.body_bytes))
        return rest

    def _feed(self, data: bytes) -> bytes:
        decoder = cast(Decoder, self._decoder)
        rest = decoder.feed(data)
        if decoder.done:
            self._decoder = self._body = None
            self._free()
        else:
            self._wait_for_peer()
        return rest

    def _switch(self, head: heads.ResponseHead, data: bytes) -> bytes:
        """The peer agreed to speak something else from here on, if it was asked."""
        if head.status == 101 and b"\nupgrade:" not in self._request.lower():
            raise BadResponse("an upgrade nobody asked for")
        response = ClientResponse(head, b"", self, 0)
        self.deadline = NEVER
        response.tunnel = Tunnel.over(self.transport, data, on_lost=lambda: self.pool.closed(self))
        self._deliver(response)
        return b""

    def _deliver(self, response: ClientResponse) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(response)

    def _free(self, head: heads.ResponseHead | None = None) -> None:
        """The exchange is over; another may follow if both sides are in step."""
        if self.upload is not None:
            return
        self.served += 1
        self._read = self._total = self.deadline = NEVER
        if self._keep and not self.transport.is_closing():
            self.pool.release(self, None if head is None else head.headers)
        else:
            self.transport.close()

    # the body's Flow

    def hold(self) -> None:
        self._held = True
        self.transport.pause_reading()

    def go_on(self) -> None:
        self._held = False
        if not self.lost and not self.transport.is_closing():
            self.transport.resume_reading()
            self._wait_for_peer()

    def wanted(self) -> None: ...
