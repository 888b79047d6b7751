"""Counters, gauges and histograms in Prometheus' text format, with the names controller-runtime uses.

Dashboards and alerts written for KServe's Go managers read the same series here. The registry is handed in; nothing is global.
"""

import bisect
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.15,
    0.2,
    0.25,
    0.3,
    0.35,
    0.4,
    0.45,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    1.0,
    1.25,
    1.5,
    1.75,
    2.0,
    2.5,
    3.0,
    3.5,
    4.0,
    4.5,
    5.0,
    6.0,
    7.0,
    8.0,
    9.0,
    10.0,
    15.0,
    20.0,
    25.0,
    30.0,
    40.0,
    50.0,
    60.0,
)
DECADES = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)

Labels = tuple[str, ...]


@dataclass
class Series:
    """One metric with its label names; values are kept per tuple of label values."""

    name: str
    help: str
    labels: Labels = ()
    type: str = "counter"
    values: dict[Labels, float] = field(default_factory=dict)

    def inc(self, *labels: str, by: float = 1.0) -> None:
        self.values[labels] = self.values.get(labels, 0.0) + by

    def dec(self, *labels: str) -> None:
        self.inc(*labels, by=-1.0)

    def set(self, value: float, *labels: str) -> None:
        self.values[labels] = value

    def get(self, *labels: str) -> float:
        return self.values.get(labels, 0.0)

    def forget(self, *labels: str) -> None:
        self.values.pop(labels, None)

    def plus(self, other: "Series") -> "Series":
        summed = {labels: self.get(*labels) + other.get(*labels) for labels in {**self.values, **other.values}}
        return replace(self, values=summed)

    def lines(self) -> Iterator[str]:
        for labels, value in self.values.items():
            yield f"{self.name}{_braced(self.labels, labels)} {_number(value)}"


@dataclass
class Histogram:
    """Counts per bucket, with sum and count, per tuple of label values."""

    name: str
    help: str
    labels: Labels = ()
    buckets: Sequence[float] = SECONDS
    type: str = "histogram"
    counts: dict[Labels, list[int]] = field(default_factory=dict)
    sums: dict[Labels, float] = field(default_factory=dict)

    def observe(self, value: float, *labels: str) -> None:
        counts = self.counts.get(labels)
        if counts is None:
            counts = self.counts[labels] = [0] * (len(self.buckets) + 1)
        counts[bisect.bisect_left(self.buckets, value)] += 1
        self.sums[labels] = self.sums.get(labels, 0.0) + value

    def plus(self, other: "Histogram") -> "Histogram":
        """Of histograms with the same buckets, as those of one name are."""
        none = [0] * (len(self.buckets) + 1)
        every = {**self.counts, **other.counts}
        pairs = {labels: zip(self.counts.get(labels, none), other.counts.get(labels, none), strict=True) for labels in every}
        sums = {labels: self.sums.get(labels, 0.0) + other.sums.get(labels, 0.0) for labels in every}
        return replace(self, counts={labels: [sum(pair) for pair in found] for labels, found in pairs.items()}, sums=sums)

    def lines(self) -> Iterator[str]:
        for labels, counts in self.counts.items():
            total = 0
            for bound, count in zip((*map(_number, self.buckets), "+Inf"), counts, strict=True):
                total += count
                yield f"{self.name}_bucket{_braced((*self.labels, 'le'), (*labels, bound))} {total}"
            yield f"{self.name}_sum{_braced(self.labels, labels)} {_number(self.sums[labels])}"
            yield f"{self.name}_count{_braced(self.labels, labels)} {total}"


@dataclass
class Snapshot:
    """The metrics of a process at one moment, fit to be sent to another."""

    series: list[Series] = field(default_factory=list)
    histograms: list[Histogram] = field(default_factory=list)


class Registry:
    """All metrics of one process. Asking twice for a name gives the same metric."""

    def __init__(self) -> None:
        self._metrics: dict[str, Series | Histogram] = {}
        self._collectors: list[Callable[[], None]] = []
        self._elsewhere: list[Callable[[], Awaitable[Snapshot | None]]] = []
        self.requests = self.counter(
            "rest_client_requests_total", "HTTP requests by status code, method and host.", "code", "method", "host"
        )
        self.request_seconds = self.histogram(
            "rest_client_request_duration_seconds", "Request latency by verb and host.", "verb", "host"
        )

    def counter(self, name: str, help: str, *labels: str) -> Series:
        return self._series(name, help, labels, "counter")

    def gauge(self, name: str, help: str, *labels: str) -> Series:
        return self._series(name, help, labels, "gauge")

    def histogram(self, name: str, help: str, *labels: str, buckets: Sequence[float] = SECONDS) -> Histogram:
        metric = self._metrics.setdefault(name, Histogram(name, help, labels, buckets))
        assert isinstance(metric, Histogram), name
        return metric

    def on_collect(self, collector: Callable[[], None]) -> None:
        """Have gauges that are read rather than counted (queue ages, cache sizes) set just before they are shown."""
        self._collectors.append(collector)

    def include(self, elsewhere: Callable[[], Awaitable[Snapshot | None]]) -> None:
        """Count a process that belongs to this one in with it."""
        self._elsewhere.append(elsewhere)

    def snapshot(self) -> Snapshot:
        for collect in self._collectors:
            collect()
        every = list(self._metrics.values())
        return Snapshot([m for m in every if isinstance(m, Series)], [m for m in every if isinstance(m, Histogram)])

    async def whole_text(self) -> str:
        """This process and those that belong to it, summed."""
        return self.text([found for ask in self._elsewhere if (found := await ask()) is not None])

    def text(self, others: Sequence[Snapshot] = ()) -> str:
        own = self.snapshot()
        series = {metric.name: metric for metric in own.series}
        histograms = {metric.name: metric for metric in own.histograms}
        for other in others:
            for single in other.series:
                series[single.name] = series[single.name].plus(single) if single.name in series else single
            for spread in other.histograms:
                histograms[spread.name] = histograms[spread.name].plus(spread) if spread.name in histograms else spread
        every: dict[str, Series | Histogram] = {**series, **histograms}
        return "".join(f"{line}\n" for name in sorted(every) for line in _described(every[name]))

    def _series(self, name: str, help: str, labels: Labels, type: str) -> Series:
        metric = self._metrics.setdefault(name, Series(name, help, labels, type))
        assert isinstance(metric, Series), name
        return metric


def observe_process(registry: Registry) -> None:
    """What Prometheus' own clients tell of every process; only where the kernel tells it."""
    cpu = registry.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.")
    memory = registry.gauge("process_resident_memory_bytes", "Resident memory size in bytes.")

    def collect() -> None:
        times = os.times()
        cpu.set(times.user + times.system)
        with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/statm") as statm:
            memory.set(int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))

    registry.on_collect(collect)


def _described(metric: Series | Histogram) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.type}"
    yield from metric.lines()


def _braced(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
