"""How much may wait for a model."""
from dataclasses import dataclass

QUEUE = 2048


@dataclass(frozen=True)
class BatchLimits:
    rows: int = 1024
    """In one predict, unless one request alone has more."""
    waiting_requests: int = QUEUE
    waiting_bytes: int = 64 << 20
    slow_seconds: float = 0.004
    """A predict that usually takes longer leaves the event loop alone."""
