"""Prometheus text under KServe's names, kept as plain counters: an observation costs a bisect and an addition."""
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator

import msgspec

# The buckets that Prometheus client libraries use by default; KServe's histograms have these.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
HISTOGRAMS = {
    "preprocess": ("request_preprocess_seconds", "pre-process request latency"),
    "predict": ("request_predict_seconds", "predict request latency"),
    "postprocess": ("request_postprocess_seconds", "post-process request latency"),
    "explain": ("request_explain_seconds", "explain request latency"),
}


class _Histogram:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0


class Counts(msgspec.Struct):
    """What a worker tells the others: sums of them mean something, unlike sums of gauges."""

    histograms: list[tuple[str, str, list[int], float]] = []   # step, model, observations by bucket, seconds in all
    answers: list[tuple[str, int, int]] = []                   # endpoint, status, how often


class Metrics:
    """What one server counted since its start."""

    def __init__(self) -> None:
        self._histograms: dict[tuple[str, str], _Histogram] = {}
        self._plain: dict[str, tuple[_Histogram, _Histogram, _Histogram]] = {}   # those of a prediction, found by one look
        self._answers: dict[tuple[str, int], int] = {}
        self.loaded: dict[str, bool] = {}
        self.read_by: dict[str, str] = {}   # how each model's file was read, where there is more than one way

    def observe(self, step: str, model: str, seconds: float) -> None:
        histogram = self._histogram(step, model)
        histogram.counts[bisect_left(BUCKETS, seconds)] += 1
        histogram.total += seconds

    def predicted(self, model: str, seconds: float) -> None:
        """A prediction by a model that has neither pre- nor postprocess, which KServe counts all the same."""
        three = self._plain.get(model)
        if three is None:
            three = self._plain[model] = (self._histogram("preprocess", model), self._histogram("predict", model),
                                          self._histogram("postprocess", model))
        before, predict, after = three
        before.counts[0] += 1
        predict.counts[bisect_left(BUCKETS, seconds)] += 1
        predict.total += seconds
        after.counts[0] += 1

    def _histogram(self, step: str, model: str) -> _Histogram:
        histogram = self._histograms.get((step, model))
        if histogram is None:
            histogram = self._histograms[step, model] = _Histogram()
        return histogram

    def answered(self, endpoint: str, status: int) -> None:
        key = endpoint, status
        self._answers[key] = self._answers.get(key, 0) + 1

    def forget(self, model: str) -> None:
        """An unloaded model leaves no series behind, else names would pile up for ever."""
        self._histograms = {key: value for key, value in self._histograms.items() if key[1] != model}
        self._plain.pop(model, None)
        self.loaded.pop(model, None)
        self.read_by.pop(model, None)

    def counts(self) -> Counts:
        histograms = [(step, model, histogram.counts, histogram.total) for (step, model), histogram in self._histograms.items()]
        return Counts(histograms, [(*key, count) for key, count in self._answers.items()])

    def add(self, counts: Counts, models: Container[str] | None = None) -> None:
        """What another has counted on top; of these models only, if they are given."""
        for step, model, observed, total in counts.histograms:
            if models is None or model in models:
                histogram = self._histogram(step, model)
                histogram.counts = [ours + theirs for ours, theirs in zip(histogram.counts, observed, strict=True)]
                histogram.total += total
        for endpoint, status, count in counts.answers:
            self._answers[endpoint, status] = self._answers.get((endpoint, status), 0) + count

    def together(self, all_counts: Iterable[Counts]) -> "Metrics":
        """The sum of what all workers counted. Of what is no count, each knows the whole."""
        told = Metrics()
        told.loaded, told.read_by = self.loaded, self.read_by
        for counts in all_counts:
            told.add(counts, self.loaded)
        return told

    def text(self) -> str:
        return "\n".join([*self._histogram_lines(), *self._counter_lines(), *self._gauge_lines()]) + "\n"

    def _histogram_lines(self) -> Iterator[str]:
        for step, (name, summary) in HISTOGRAMS.items():
            yield f"# HELP {name} {summary}"
            yield f"# TYPE {name} histogram"
            for (of, model), histogram in sorted(self._histograms.items()):
                if of == step:
                    yield from _series(name, _escaped(model), histogram)

    def _counter_lines(self) -> Iterator[str]:
        yield "# HELP serveplane_requests_total answers by endpoint and status"
        yield "# TYPE serveplane_requests_total counter"
        for (endpoint, status), count in sorted(self._answers.items()):
            yield f'serveplane_requests_total{{endpoint="{endpoint}",code="{status}"}} {count}'

    def _gauge_lines(self) -> Iterator[str]:
        yield "# HELP serveplane_model_ready whether a model can be asked"
        yield "# TYPE serveplane_model_ready gauge"
        for model, ready in sorted(self.loaded.items()):
            yield f'serveplane_model_ready{{model_name="{_escaped(model)}"}} {int(ready)}'
        yield "# HELP serveplane_model_info how the file of a model was read"
        yield "# TYPE serveplane_model_info gauge"
        for model, way in sorted(self.read_by.items()):
            yield f'serveplane_model_info{{model_name="{_escaped(model)}",read_by="{_escaped(way)}"}} 1'


def _series(name: str, model: str, histogram: _Histogram) -> Iterator[str]:
    reached = 0
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), histogram.counts, strict=True):
        reached += count
        yield f'{name}_bucket{{le="{bound}",model_name="{model}"}} {reached}'
    yield f'{name}_count{{model_name="{model}"}} {reached}'
    yield f'{name}_sum{{model_name="{model}"}} {histogram.total}'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
