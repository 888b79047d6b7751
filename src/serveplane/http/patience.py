"""Slow peers: how a server connection is held back, watched and given up.

A peer may be slow in five ways (no request, an endless head, a trickling body, an unread answer, an idle connection); each has
a limit, and none costs a timer. Slowness of our own, a busy handler or one that has not asked for the body yet, is not counted.
"""
import asyncio

from serveplane.http import wire
from serveplane.http.body import Body
from serveplane.http.engine import Engine
from serveplane.http.errors import ProtocolViolation, StatusError
from serveplane.http.framing import Decoder
from serveplane.http.messages import Direct
from serveplane.http.output import Output
from serveplane.http.sweep import NEVER


class PatientConnection(asyncio.Protocol):
    """What is to come, what is held back, and until when. `EndingConnection` adds how it closes, `Connection` what the bytes mean."""

    __slots__ = ("_body", "_buffer", "_deaf", "_decoder", "_engine", "_expecting", "_held", "_limits", "_lost", "_mark", "_output",
                 "_task", "_transport", "deadline")
    _transport: asyncio.Transport
    _output: Output

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._limits = engine.limits
        self._buffer = b""
        self._body: Body | None = None
        self._decoder: Decoder | None = None
        self._task: asyncio.Task[None] | Direct | None = None
        self._expecting = False   # the client waits for 100 Continue
        self._held = False        # we stopped reading from the socket
        self._deaf = False        # whatever still comes is thrown away
        self._lost = False
        self._mark = 0            # progress at the last look
        self.deadline = NEVER

    def _cut_body(self, error: StatusError) -> None:
        raise NotImplementedError

    def _refuse(self, error: StatusError) -> None:
        raise NotImplementedError

    def _cancel(self) -> None:
        raise NotImplementedError

    # the body's Flow

    def hold(self) -> None:
        if not self._held:
            self._held = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        if self._held:
            self._held = False
            if not self._lost:
                self._transport.resume_reading()

    def wanted(self) -> None:
        if self._expecting:
            self._expecting = False
            self._transport.write(wire.CONTINUE)
            self._watch_pace()

    # deadlines

    def pause_writing(self) -> None:
        self._output.pause()
        self._mark = self._transport.get_write_buffer_size()
        self.deadline = self._engine.clock.monotonic() + self._limits.pace_seconds

    def _watch_pace(self) -> None:
        """From now on the peer has to make progress, if anything is still to come from it."""
        if self._body is not None:
            self._mark = self._body.received
            self.deadline = self._engine.clock.monotonic() + self._limits.pace_seconds
        else:
            self.deadline = NEVER

    def expire(self, now: float) -> None:
        self.deadline = now + self._limits.pace_seconds
        if self._lost:
            self._cancel()
        elif self._deaf or self._transport.is_closing():
            self._transport.abort()
        elif self._output.paused:
            self._expire_writing()
        elif self._body is not None:
            self._expire_reading(self._body)
        elif self._task is not None:
            self.deadline = NEVER
        elif self._buffer:
            self._refuse(ProtocolViolation("the request did not come in time", 408))
        elif self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    def _expire_writing(self) -> None:
        waiting = self._transport.get_write_buffer_size()
        if self._mark - waiting < self._limits.pace_bytes:
            self._transport.abort()
        self._mark = waiting

    def _expire_reading(self, body: Body) -> None:
        blameless = self._held or self._expecting
        if not blameless and body.received - self._mark < self._limits.pace_bytes:
            self._cut_body(StatusError(408, "the body came too slowly"))
        self._mark = body.received
