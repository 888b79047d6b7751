"""Many requests, one predict.

Most of what a small model costs is the call, not the rows. So all requests that one turn of the event loop brings are
stacked and predicted together; nothing ever waits for company, hence a lone request is as fast as without. A model that
turns out to be slow is called in a thread, so that health checks stay prompt; what arrives meanwhile is the next batch.
The queue is bounded.
"""
import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from serveplane.clock import SYSTEM, Clock
from serveplane.dataplane.modelserver.errors import InvalidInput, Overloaded
from serveplane.dataplane.modelserver.limits import BatchLimits
from serveplane.dataplane.modelserver.tensors import Array

Predict = Callable[[Array], Array]
_NOT_A_NUMBER = re.compile("nan|infinit", re.IGNORECASE)


class Waiting:
    """Rows in the queue, and whoever wants to know about them. Exactly one of the methods is called, in the loop's thread."""

    __slots__ = ("at", "rows")
    at: str       # what the request calls its rows, for the path of a mistake
    rows: Array

    @property
    def gone(self) -> bool:
        """Nobody wants the answer any more."""
        raise NotImplementedError

    def deliver(self, result: Array | Exception) -> None:
        raise NotImplementedError

    def dropped(self) -> None:
        """It was gone when its turn came."""


class _Awaited(Waiting):
    __slots__ = ("answer",)

    def __init__(self, rows: Array, at: str, answer: "asyncio.Future[Array]") -> None:
        self.rows, self.at, self.answer = rows, at, answer

    @property
    def gone(self) -> bool:
        return self.answer.done()

    def deliver(self, result: Array | Exception) -> None:
        if self.answer.done():
            return
        if isinstance(result, Exception):
            self.answer.set_exception(result)
        else:
            self.answer.set_result(result)


class Batcher:
    """Calls `predict` for stacked rows and deals the results out again, in order."""

    def __init__(self, predict: Predict, limits: BatchLimits | None = None, clock: Clock = SYSTEM) -> None:
        self._predict, self._limits, self._clock = predict, limits or BatchLimits(), clock
        self._waiting: list[Waiting] = []
        self._waiting_bytes = 0
        self._usual_seconds = 0.0
        self._running = False      # a flush is scheduled or a thread is predicting
        self._closed = False
        self._thread: ThreadPoolExecutor | None = None
        self.largest = 0           # rows of the largest batch so far

    async def __call__(self, rows: Array, at: str = "instances") -> Array:
        """The prediction for these rows, at least one."""
        answer: asyncio.Future[Array] = asyncio.get_running_loop().create_future()
        self.submit(_Awaited(rows, at, answer))
        return await answer

    def submit(self, waiting: Waiting) -> None:
        """Predict these rows, at least one, with all that this turn of the loop brings; never before this returns."""
        limits = self._limits
        if len(self._waiting) >= limits.waiting_requests or self._waiting_bytes > limits.waiting_bytes:
            raise Overloaded(f"{len(self._waiting)} requests are waiting already")
        self._waiting.append(waiting)
        self._waiting_bytes += waiting.rows.nbytes
        if not self._running:
            self._running = True
            asyncio.get_running_loop().call_soon(self._flush)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def close(self) -> None:
        """Let the thread go, as soon as those who wait have their answers: a model may be replaced under load."""
        self._closed = True
        if not self._running:
            self._let_go()

    def _let_go(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None

    def _flush(self) -> None:
        batch = self._take()
        if self._usual_seconds > self._limits.slow_seconds:
            asyncio.get_running_loop().create_task(self._predict_in_thread(batch))
            return
        try:
            self._finish(batch, *self._run(batch))
        finally:
            self._again()

    def _again(self) -> None:
        self._running = bool(self._waiting)
        if self._running:
            asyncio.get_running_loop().call_soon(self._flush)
        elif self._closed:
            self._let_go()

    def _take(self) -> list[Waiting]:
        """The oldest requests whose rows can be stacked: same width, same type, within the limit."""
        first, total, count = self._waiting[0].rows, 0, 0
        for waiting in self._waiting:
            rows = waiting.rows
            total += len(rows)
            if rows.shape[1:] != first.shape[1:] or rows.dtype != first.dtype or (count and total > self._limits.rows):
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        self._waiting_bytes -= sum([waiting.rows.nbytes for waiting in batch])
        return _without_those_gone(batch)

    async def _predict_in_thread(self, batch: list[Waiting]) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "predict")
        try:
            outcome = await asyncio.get_running_loop().run_in_executor(self._thread, self._run, batch)
            self._finish(batch, *outcome)
        except BaseException as error:
            _fail(batch, error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._again()

    def _run(self, batch: list[Waiting]) -> tuple[list[Array | Exception], float]:
        """One result or error per request. If the stack fails, each is tried alone: one bad request fails nobody else."""
        began = self._clock.monotonic()
        results = self._together(batch) if len(batch) > 1 else None
        if results is None:
            results = [self._alone(waiting.rows) for waiting in batch]
        return results, self._clock.monotonic() - began

    def _together(self, batch: list[Waiting]) -> list[Array | Exception] | None:
        stack = np.concatenate([waiting.rows for waiting in batch])
        self.largest = max(self.largest, len(stack))
        try:
            result = self._predict(stack)
        except Exception:
            return None
        if len(result) != len(stack):   # not one result per row: this model cannot be batched
            return None
        parts: list[Array | Exception] = []
        start = 0
        for waiting in batch:
            end = start + len(waiting.rows)
            parts.append(result[start:end])
            start = end
        return parts

    def _alone(self, rows: Array) -> Array | Exception:
        try:
            return self._predict(rows)
        except Exception as error:
            return error

    def _finish(self, batch: list[Waiting], results: list[Array | Exception], seconds: float) -> None:
        self._usual_seconds += 0.2 * (seconds - self._usual_seconds)
        for waiting, result in zip(batch, results, strict=True):
            waiting.deliver(_as_input_error(result, waiting) if isinstance(result, Exception) else result)


def _without_those_gone(batch: list[Waiting]) -> list[Waiting]:
    """The client may have left; then nobody pays for its rows."""
    kept = [waiting for waiting in batch if not waiting.gone]
    if len(kept) < len(batch):
        for waiting in batch:
            if waiting.gone:
                waiting.dropped()
    return kept


def _fail(batch: list[Waiting], error: BaseException) -> None:
    for waiting in batch:
        waiting.deliver(error if isinstance(error, Exception) else Overloaded("the server is stopping"))


def _as_input_error(error: Exception, waiting: Waiting) -> Exception:
    """Libraries say ValueError for rows that do not suit the model; anything else is the model's own trouble."""
    if not isinstance(error, ValueError):
        return error
    sentence = _one_line(error)
    return InvalidInput(sentence, _place(waiting) if _NOT_A_NUMBER.search(sentence) else "")


def _place(waiting: Waiting) -> str:
    """The first value that is no finite number: libraries say that there is one, but not where."""
    rows = waiting.rows
    if rows.dtype.kind != "f" or not len(odd := np.argwhere(~np.isfinite(rows))):
        return ""
    return waiting.at + "".join(f"[{index}]" for index in odd[0])


def _one_line(error: Any) -> str:
    return " ".join(str(error).split())[:500]
