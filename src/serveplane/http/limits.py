"""How much a peer may send, and how slowly. The defaults are safe on an open port; `math.inf` switches a time limit off."""
from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Limits:
    """The server's patience."""

    head_bytes: int = 64 * KIB
    """Request line and fields together, else 431."""
    target_bytes: int = 16 * KIB
    """The request target, else 414."""
    header_count: int = 128
    """Fields in one head, else 431."""
    body_bytes: int = 64 * MIB
    """What `Request.read` collects, else 413. `Request.stream` is not bounded by it: the handler sees each piece."""
    buffer_bytes: int = 256 * KIB
    """How much of a body, or of later pipelined requests, waits in memory before we stop reading from the socket."""
    write_buffer_bytes: int = 256 * KIB
    """How much of an answer waits for a slow reader before a streaming handler is made to wait."""
    drain_bytes: int = 256 * KIB
    """An unread body up to this long is skipped to keep the connection; with a longer one it closes."""

    head_seconds: float = 10.0
    """From the first byte of a request (or the accept) to the end of its head, else 408."""
    idle_seconds: float = 75.0
    """Between two requests on one connection."""
    pace_seconds: float = 15.0
    """The window in which a body, or a reader of ours, has to make `pace_bytes` of progress."""
    pace_bytes: int = 1 * KIB
    linger_seconds: float = 2.0
    """How long a refused sender is still listened to, so that it can read why."""
    handshake_seconds: float = 10.0

    connections: int | None = 20_000
    """Open connections of one server; one more is answered with 503 and closed."""


@dataclass(frozen=True)
class ClientLimits:
    """The client's patience and greed."""

    connections_per_origin: int = 128
    idle_per_origin: int = 64
    waiting_per_origin: int = 10_000
    idle_seconds: float = 30.0
    """Idle connections close after this; a `Keep-Alive: timeout=` of the peer shortens it."""
    head_bytes: int = 64 * KIB
    header_count: int = 256
    body_bytes: int = 256 * MIB
    """What `ClientResponse.read` collects."""
    buffer_bytes: int = 256 * KIB
    drain_bytes: int = 64 * KIB
    """An unwanted rest up to this long is skipped to keep the connection."""


@dataclass(frozen=True)
class Timeouts:
    """Deadlines of one client request, in seconds; None waits for ever."""

    connect: float | None = 10.0
    """Until a connection (from the pool or new) is ours, TLS included."""
    read: float | None = 60.0
    """Between two arrivals of bytes while we are waiting for some."""
    total: float | None = None
    """From the call to the last byte of the answer."""
