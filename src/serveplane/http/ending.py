"""How a server connection ends: with a refusal, in the middle of a body, by and by, or at once.

Closing while the peer's bytes are unread would reset the connection and take our answer from it, so it lingers until they are.
"""
from serveplane.http import wire
from serveplane.http.engine import Engine
from serveplane.http.errors import StatusError
from serveplane.http.patience import PatientConnection
from serveplane.http.sweep import NEVER
from serveplane.http.tunnel import Tunnel


class EndingConnection(PatientConnection):
    """A connection that can be ended from all of its states."""

    __slots__ = ("_tunnel",)

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._tunnel: Tunnel | None = None

    def _refuse(self, error: StatusError) -> None:
        """Answer what never became a request, and close."""
        self._engine.metrics.refuse(error.status)
        text = f"{error.message}\n".encode()
        framing = b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n" % len(text)
        self._transport.write(b"".join((wire.status_line(error.status), self._date(), framing, b"\r\n", text)))
        self._linger()

    def _cut_body(self, error: StatusError) -> None:
        """The rest of the body is not to be had: whoever reads it learns why, and the connection ends with this request."""
        body, self._decoder, self._body = self._body, None, None
        self._deaf = True
        if body is not None:
            body.fail(error)
        if self._task is None:
            self._linger()
        else:
            self.deadline = NEVER

    def _linger(self) -> None:
        """Close so that the peer can still read our answer: closing with its bytes unread would reset the connection under it."""
        unread = self._deaf or self._buffer or self._decoder is not None
        self._deaf = True
        self._buffer, self._decoder, self._body = b"", None, None
        self.deadline = self._engine.clock.monotonic() + self._limits.linger_seconds
        if not unread:
            self._transport.close()
            return
        self.go_on()
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def retire(self) -> None:
        """The server is draining: go now if idle, else after the current answer."""
        if self._task is None and not self._deaf and not self._output.paused:
            self._linger()

    def abort(self) -> None:
        """End at once; a running handler is cancelled by the loss of its connection."""
        self._transport.abort()
        if self._tunnel is not None and self._task is not None:
            self._task.cancel()

    def _date(self) -> bytes:
        return self._engine.dates.at(self._engine.clock.monotonic())
