"""What can go wrong between two HTTP peers, drawn once.

    HttpError
    ├── StatusError            server side: answer with this status; a handler may raise it to answer early
    │   ├── ProtocolViolation  the message itself is at fault: answer, then close, for its framing cannot be trusted
    │   └── PayloadTooLarge    the body is longer than the reader allows: 413
    └── ClientError            client side: there is no (whole) answer
        ├── ConnectFailed      nothing was sent, so anyone may try again
        ├── ConnectionLost     the peer went away midway
        ├── BadResponse        what came back is not the HTTP we accept
        ├── PoolExhausted      every connection to that origin is busy and the queue is full
        └── ClientTimeout      a deadline passed (also a TimeoutError)
"""


class HttpError(Exception):
    """Anything this package raises on purpose."""


class StatusError(HttpError):
    """Answer the request with this status and sentence."""

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class ProtocolViolation(StatusError):
    """The peer's bytes are no request we may act on; after the answer the connection closes."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(status, message)


class PayloadTooLarge(StatusError):
    """The body is longer than the reader allows."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the body is longer than {limit} bytes")


class ClientError(HttpError):
    """A request of ours got no (whole) answer."""


class ConnectFailed(ClientError):
    """No connection could be made; nothing was sent."""


class ConnectionLost(ClientError):
    """The peer closed before the message was complete.

    `replayable` says that not a byte of the answer had come on a connection that had already served others: the usual
    case of a peer closing an idle connection just as we wrote.
    """

    def __init__(self, message: str, *, replayable: bool = False) -> None:
        super().__init__(message)
        self.replayable = replayable


class BadResponse(ClientError):
    """The answer is not the HTTP we accept."""


class PoolExhausted(ClientError):
    """Every connection to the origin is busy and the waiting line is full."""


class ClientTimeout(ClientError, TimeoutError):
    """A connect, read or total deadline passed."""
