"""One client connection: bytes in, requests to the handler one after the other, answers out in order.

The protocol object reads; `Output` writes; slow peers are the business of `patience`, closing that of `ending`. Only one request
is parsed at a time: what a pipelining client sends ahead waits as bytes, so order is kept for free and nothing is parsed for a
connection that will close. A handler runs in a task of its own, which the loss of the connection cancels.
"""
import asyncio
import logging
import socket
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine
from typing import Any, cast

from serveplane.http import heads, wire
from serveplane.http.body import Body
from serveplane.http.ending import EndingConnection
from serveplane.http.engine import Engine, PassOn
from serveplane.http.errors import ConnectionLost, HttpError, ProtocolViolation, StatusError
from serveplane.http.framing import ChunkedDecoder, Decoder, LengthDecoder
from serveplane.http.messages import Direct, Peer, Request, Response, Upgrade
from serveplane.http.output import Output
from serveplane.http.refusals import first_look, refusal
from serveplane.http.sweep import NEVER
from serveplane.http.tls import peer_of
from serveplane.http.tunnel import Tunnel

LOG = logging.getLogger(__name__)
PREFACE_HEAD = b"PRI * HTTP/2.0\r\n\r\n"


class Connection(EndingConnection):
    """A server-side connection. States: idle, reading a head, handling (body coming or not), lingering, tunnelled, lost."""

    __slots__ = ("_begun", "_peer", "_scanned", "_served", "_started")

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._scanned = 0
        self._peer: Peer | None = None
        self._begun = False       # whether the task has run its first step
        self._served = 0
        self._started = 0.0

    # asyncio.Protocol: the connection itself

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        self._output = Output(transport)
        transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes)
        if self._engine.full:
            self._engine.admit(self)
            self._refuse(StatusError(503, "too many connections"))
            return
        self._engine.admit(self)
        self.deadline = self._engine.clock.monotonic() + self._limits.head_seconds

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self._body is not None:
            self._body.fail(ConnectionLost("the client went away"))
        self._cancel()

    def eof_received(self) -> None:
        """The peer will send no more. HTTP clients that still want their answer do not half-close, so this is a goodbye."""

    def resume_writing(self) -> None:
        self._output.resume()
        self._watch_pace()
        if self._task is None and not self._deaf:
            self._idle()

    # bytes in

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._decoder is not None:
            data = self._feed_body(data)
            if not data:
                return
        self._buffer = self._buffer + data if self._buffer else data
        if self._task is None and not self._output.paused:
            self._next()
        elif len(self._buffer) > self._limits.buffer_bytes:
            self.hold()

    def _feed_body(self, data: bytes) -> bytes:
        """Give the body its part; what is left over belongs to the next request."""
        decoder = cast(Decoder, self._decoder)
        try:
            data = decoder.feed(data)
        except ProtocolViolation as error:
            self._engine.metrics.refuse(error.status)
            self._cut_body(error)
            return b""
        if decoder.done:
            self._decoder = self._body = None
            self.deadline = NEVER
            if self._task is None:
                self._idle()
        return data

    def _next(self) -> None:
        """Start on the next request, if its head is all there."""
        data = self._buffer
        if not self._scanned and data.startswith(b"\r\n"):
            data = self._buffer = data[2:]   # one stray empty line before a request is forgiven (RFC 9112, 2.2)
        end = data.find(b"\r\n\r\n", self._scanned)
        if end < 0 or end > self._limits.head_bytes:
            self._incomplete(data)
            return
        self._scanned = 0
        self._started = self._engine.clock.monotonic()
        try:
            request = heads.request_head(data[:end + 4], self._limits, self._peer or self._meet())
            if self._engine.hosts is not None and not self._engine.allows(request):
                raise ProtocolViolation("this Host is not served here", 421)
        except ProtocolViolation as error:
            self._violated(error, data, end)
            return
        self._buffer = data[end + 4:]
        self.deadline = NEVER
        if request.length and not self._expect_body(request):
            return
        self._handle(request)

    def _handle(self, request: Request) -> None:
        """Ask the handler. What it returns is awaited in a task, unless it is an answer already or one that comes by itself.

        An answer at once only where no further request waits: a pipelining client must not keep the loop to itself.
        """
        self._engine.metrics.in_flight += 1
        try:
            answer = self._engine.handler(request)
            if isinstance(answer, Direct):
                self._task = answer
                if answer.start(self):
                    return
        except Exception as error:
            answer = _failing(error)
        if isinstance(answer, Response) and not self._buffer:
            self.answered(request, answer)
        else:
            self._start(self._run(request, answer))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._begun = False
        self._task = self._engine.loop.create_task(work)

    def _incomplete(self, data: bytes) -> None:
        try:
            first_look(data, self._limits)
        except ProtocolViolation as error:
            self._refuse(error)
            return
        if data and not self._scanned:
            self.deadline = self._engine.clock.monotonic() + self._limits.head_seconds
        self._scanned = max(len(data) - 3, 0)

    def _violated(self, error: ProtocolViolation, data: bytes, end: int) -> None:
        if data[:end + 4] == PREFACE_HEAD and self._engine.http2 is not None and not self._served:
            self._engine.metrics.in_flight += 1
            self._start(self._pass_on())
        else:
            self._refuse(error)

    def _meet(self) -> Peer:
        self._peer = peer_of(self._transport)
        raw = self._transport.get_extra_info("socket")
        if raw is not None and raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)   # a peer that vanished must not hold a watch for ever
        return self._peer

    def _expect_body(self, request: Request) -> bool:
        """Give the request its body, as far as it has come; False if that was enough to refuse it."""
        buffer, length = self._buffer, request.length
        if 0 < length <= len(buffer):   # the usual small request is all here: no stream needed
            request._body = buffer[:length]
            self._buffer = buffer[length:]
            return True
        body = request._body = Body(self, self._limits.buffer_bytes)
        decoder = LengthDecoder(body, length) if length > 0 else ChunkedDecoder(body)
        if buffer:
            try:
                self._buffer = decoder.feed(buffer)
            except ProtocolViolation as error:
                self._refuse(error)
                return False
            if decoder.done:
                request._body = body.taken() or b""
                return True
        self._body, self._decoder = body, decoder
        expect = request.headers.index.get(b"expect")
        self._expecting = expect is not None and expect.lower() == b"100-continue" and not buffer and not request.http10
        self._watch_pace()
        return True

    # handling

    async def _run(self, request: Request, answer: Awaitable[Response]) -> None:
        self._begun, response = True, None
        try:
            if self._lost:   # before the first step
                _forgo(answer)
                return
            try:
                response = await answer
            except Exception as error:
                response = self._failed(request, error)
            body = response.body
            if isinstance(response, Upgrade):
                await self._upgrade(request, response)
            elif isinstance(body, bytes):
                self._send(request, response, body)
            else:
                await self._stream(request, response, body)
        except asyncio.CancelledError:
            if not self._lost:
                self._transport.abort()
            raise
        except Exception as error:
            self._broke_off(request, error)
        finally:
            self._finished(request, response)

    def answered(self, request: Request, response: Response) -> None:
        """The answer to a request that needed no task: written at once if it is all there."""
        body = response.body
        if type(body) is not bytes or type(response) is not Response:
            self.awaits(request, response)
            return
        try:
            self._send(request, response, body)
        except Exception as error:
            self._broke_off(request, error)
        self._finished(request, response)

    def awaits(self, request: Request, answer: Awaitable[Response]) -> None:
        self._start(self._run(request, answer))

    def _broke_off(self, request: Request, error: Exception) -> None:
        if not self._lost:
            expected = isinstance(error, HttpError)   # an origin that breaks off needs no stack trace of ours
            LOG.warning("%s %s: the answer broke off: %r", request.method, request.path, error, exc_info=not expected)
        self._transport.abort()

    def _failed(self, request: Request, error: Exception) -> Response:
        if isinstance(error, StatusError):
            return refusal(error)
        LOG.error("%s %s: the handler failed", request.method, request.path, exc_info=error)
        return Response.text("internal error\n", 500)

    def _send(self, request: Request, response: Response, body: bytes) -> None:
        keep = request.keep_alive = self._may_keep(request, response)
        self._output.whole(request, response, body, keep, self._date())

    async def _stream(self, request: Request, response: Response, body: AsyncIterable[bytes]) -> None:
        keep = self._may_keep(request, response)
        try:
            request.keep_alive = await self._output.stream(request, response, body, keep, self._date())
        finally:
            await _close(body)

    def _may_keep(self, request: Request, response: Response) -> bool:
        """Whether another request may follow: both sides want it, and the end of this one's body will be found."""
        if not request.keep_alive or self._engine.draining or self._deaf:
            return False
        headers = response.headers
        if b"connection" in headers.index and "close" in headers.tokens("connection"):
            return False
        decoder = self._decoder
        if decoder is None:
            return True
        return not self._expecting and isinstance(decoder, LengthDecoder) and decoder.remaining <= self._limits.drain_bytes

    def _finished(self, request: Request, response: Response | None) -> None:
        engine = self._engine
        self._task = None
        self._served += 1
        engine.metrics.in_flight -= 1
        if response is not None:
            engine.record(request, response, self._output.sent, self._started, engine.clock.monotonic())
        if self._body is not None:
            self._body.discard()
        if self._lost:
            engine.forget(self)
        elif self._tunnel is not None:
            self._transport.close()
        elif not request.keep_alive:
            self._linger()
        else:
            self._idle()

    def _idle(self) -> None:
        """Ready for the next request: it may be here already."""
        if self._decoder is not None:   # still skipping a body nobody read
            self._watch_pace()
            return
        if self._output.paused:
            return
        if self._held:
            self.go_on()
        if self._buffer:
            self.deadline = self._engine.clock.monotonic() + self._limits.head_seconds
            self._next()
        elif self._engine.draining:
            self._linger()
        else:
            self.deadline = self._engine.clock.monotonic() + self._limits.idle_seconds

    def _cancel(self) -> None:
        """Nobody is left to answer. A task cancelled before its first step would run none of its code, so that one finds out itself."""
        task = self._task
        if task is None:
            self._engine.forget(self)
        elif isinstance(task, Direct):
            task.cancel()
            self._finished(task.request, None)
        elif self._begun:
            task.cancel()

    # upgrades

    async def _upgrade(self, request: Request, response: Upgrade) -> None:
        if self._decoder is not None:   # where would the body end and the new protocol begin?
            self._send(request, refusal(ProtocolViolation("an upgrade with a body")), b"")
            return
        framing = b"Connection: Upgrade\r\n" if response.status == 101 else b""
        self._transport.write(wire.response_head(response.status, response.headers, framing, self._date()))
        await self._tunnelled(response.run)

    async def _pass_on(self) -> None:
        """The peer speaks HTTP/2: another party takes the bytes, preface included."""
        self._begun = True
        try:
            if self._lost:
                return
            pass_on, peer = cast(PassOn, self._engine.http2), self._peer or self._meet()
            await self._tunnelled(lambda tunnel: pass_on(tunnel, peer))
        except Exception:
            LOG.exception("passing HTTP/2 on failed")
        finally:
            self._engine.metrics.in_flight -= 1
            self._task = None
            self._transport.close()
            if self._lost:
                self._engine.forget(self)

    async def _tunnelled(self, run: Callable[[Tunnel], Awaitable[None]]) -> None:
        already, self._buffer = self._buffer, b""
        self.deadline = NEVER
        self._tunnel = Tunnel.over(self._transport, already, on_lost=self._tunnel_lost)
        await run(self._tunnel)

    def _tunnel_lost(self) -> None:
        """Whoever runs the tunnel may still read what had come; a little later it is told to stop."""
        self._lost = True
        if self._task is None:
            self._engine.forget(self)
        else:
            self.deadline = self._engine.clock.monotonic() + self._limits.linger_seconds


async def _failing(error: Exception) -> Response:
    raise error


def _forgo(answer: Awaitable[Response]) -> None:
    """A coroutine that will not be awaited has to be told so."""
    close = getattr(answer, "close", None)
    if close is not None:
        close()


async def _close(body: AsyncIterable[bytes]) -> None:
    """Let a generator run its clean-up now, not when the garbage collector finds it."""
    close = getattr(body, "aclose", None)
    if close is not None:
        await close()
