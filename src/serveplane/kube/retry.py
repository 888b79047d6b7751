"""When a failed request is sent again, and after how long.

Three facts decide: whether the server certainly did nothing (429, or an answer that carries Retry-After), whether
sending twice does no harm
(reads, server-side apply, a delete of one uid), and whether time is left before the request's deadline.
"""

from dataclasses import dataclass

from serveplane.clock import Clock
from serveplane.kube.errors import ApiError, ConnectionFailed, KubeError, Unreachable

# A server asking for more gets asked again sooner; the caller's own queue is the better place to wait
LONGEST_RETRY_AFTER = 30.0


@dataclass(frozen=True)
class Backoff:
    """Exponential delays with full jitter on the upper half, so that clients that failed together do not come back together."""

    first: float = 0.1
    factor: float = 2.0
    longest: float = 5.0

    def delay(self, attempt: int, clock: Clock) -> float:
        """Seconds before the attempt after the `attempt`-th failure (counted from 0)."""
        # The exponent is capped before the power is taken: a key that failed for a week must not overflow a float.
        full = min(self.longest, self.first * self.factor ** min(attempt, 64))
        return full * (0.5 + 0.5 * clock.random())


@dataclass(frozen=True)
class RetryPolicy:
    attempts: int = 5
    backoff: Backoff = Backoff()

    def delay(self, error: KubeError, attempt: int, *, idempotent: bool, clock: Clock) -> float | None:
        """How long to wait before sending again, or None when the error is the caller's."""
        if attempt + 1 >= self.attempts or not is_worth_repeating(error, idempotent=idempotent):
            return None
        asked = min(getattr(error, "retry_after", None) or 0.0, LONGEST_RETRY_AFTER)
        return max(asked, self.backoff.delay(attempt, clock))


def is_worth_repeating(error: KubeError, *, idempotent: bool) -> bool:
    """Whether the same request may succeed later and cannot do harm now."""
    if isinstance(error, ConnectionFailed):
        return idempotent or isinstance(error, Unreachable)
    if not isinstance(error, ApiError):
        return False
    if error.code == 429 or (error.code in (500, 503, 504) and error.retry_after):
        return True  # the server says it did nothing yet
    return idempotent and error.code in (500, 502, 503, 504)


def parse_retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header; the date form is not used by API servers and reads as absent."""
    try:
        return max(0.0, float(value)) if value else None
    except ValueError:
        return None
