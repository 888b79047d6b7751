"""Counters of one server in the Prometheus text form. Adding is a dict lookup; text is made only when somebody asks."""
from bisect import bisect_left
from collections.abc import Iterator

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Series:
    """Requests of one method and status."""

    __slots__ = ("buckets", "count", "seconds", "sent")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.sent = 0
        self.buckets = [0] * (len(BUCKETS) + 1)


class Metrics:
    """Handed to `serve`; several servers may share one."""

    def __init__(self, prefix: str = "serveplane_http") -> None:
        self._prefix = prefix
        self._series: dict[tuple[str, int], Series] = {}
        self.connections = 0
        self.in_flight = 0
        self.refused: dict[int, int] = {}
        self.tls_reload_failures = 0

    def observe(self, method: str, status: int, seconds: float, sent: int) -> None:
        key = (method, status)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series()
        series.count += 1
        series.seconds += seconds
        series.sent += sent
        series.buckets[bisect_left(BUCKETS, seconds)] += 1

    def refuse(self, status: int) -> None:
        """A message that never reached a handler."""
        self.refused[status] = self.refused.get(status, 0) + 1

    def total(self, status: int | None = None) -> int:
        """Requests answered so far (with that status)."""
        return sum(series.count for (_, code), series in self._series.items() if status in (None, code))

    def render(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        prefix = self._prefix
        yield from _gauge(f"{prefix}_connections", "Open connections.", self.connections)
        yield from _gauge(f"{prefix}_requests_in_flight", "Requests a handler is working on.", self.in_flight)
        yield f"# HELP {prefix}_refused_total Messages refused before any handler saw them."
        yield f"# TYPE {prefix}_refused_total counter"
        for status, count in sorted(self.refused.items()):
            yield f'{prefix}_refused_total{{code="{status}"}} {count}'
        yield f"# HELP {prefix}_response_bytes_total Bytes of bodies sent."
        yield f"# TYPE {prefix}_response_bytes_total counter"
        for (method, status), series in sorted(self._series.items()):
            yield f'{prefix}_response_bytes_total{{method="{method}",code="{status}"}} {series.sent}'
        yield f"# HELP {prefix}_request_duration_seconds From the request's head to the last byte written."
        yield f"# TYPE {prefix}_request_duration_seconds histogram"
        for (method, status), series in sorted(self._series.items()):
            yield from self._histogram(f'method="{method}",code="{status}"', series)

    def _histogram(self, labels: str, series: Series) -> Iterator[str]:
        name, running = f"{self._prefix}_request_duration_seconds", 0
        for bound, count in zip((*BUCKETS, "+Inf"), series.buckets, strict=True):
            running += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {running}'
        yield f"{name}_sum{{{labels}}} {series.seconds:.6f}"
        yield f"{name}_count{{{labels}}} {series.count}"


def _gauge(name: str, text: str, value: int) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} gauge"
    yield f"{name} {value}"
