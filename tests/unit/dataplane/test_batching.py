"""Many requests, one predict: order, errors, limits."""
import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from serveplane.dataplane.modelserver.batching import Batcher
from serveplane.dataplane.modelserver.errors import InvalidInput, Overloaded
from serveplane.dataplane.modelserver.limits import BatchLimits


class Doubling:
    """Remembers how many rows each call had."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.threads: set[str] = set()

    def __call__(self, rows: Any) -> Any:
        self.calls.append(len(rows))
        self.threads.add(threading.current_thread().name)
        if (rows < 0).any():
            raise ValueError("no negative numbers")
        return rows[:, 0] * 2


async def test_requests_of_one_turn_are_one_call_and_answered_in_order() -> None:
    predict = Doubling()
    batcher = Batcher(predict)
    answers = await asyncio.gather(*(batcher(np.array([[float(number)], [number + 0.5]])) for number in range(50)))
    assert [answer.tolist() for answer in answers] == [[2.0 * number, 2.0 * number + 1] for number in range(50)]
    assert predict.calls == [100]


async def test_a_lone_request_is_predicted_at_once() -> None:
    predict = Doubling()
    assert (await Batcher(predict)(np.array([[1.0]]))).tolist() == [2.0]
    assert predict.calls == [1]


async def test_one_bad_request_fails_nobody_else() -> None:
    batcher = Batcher(Doubling())
    good, bad, other = await asyncio.gather(*(batcher(np.array([[value]])) for value in (1.0, -1.0, 3.0)), return_exceptions=True)
    assert (good.tolist(), other.tolist()) == ([2.0], [6.0])
    assert isinstance(bad, InvalidInput)


async def test_rows_that_do_not_fit_together_are_separate_calls() -> None:
    predict = Doubling()
    batcher = Batcher(predict)
    wide, narrow = await asyncio.gather(batcher(np.ones((2, 3))), batcher(np.ones((1, 2), np.float32)))
    assert (wide.tolist(), narrow.tolist(), predict.calls) == ([2.0, 2.0], [2.0], [2, 1])


async def test_batches_stay_within_the_limit_but_a_large_request_goes_whole() -> None:
    predict = Doubling()
    batcher = Batcher(predict, BatchLimits(rows=4))
    await asyncio.gather(*(batcher(np.ones((size, 1))) for size in (2, 2, 1, 9, 1)))
    assert predict.calls == [4, 1, 9, 1]


async def test_a_model_that_answers_something_else_than_one_result_per_row_is_asked_alone() -> None:
    batcher = Batcher(lambda rows: np.array([rows.sum()]))
    one, two = await asyncio.gather(batcher(np.ones((2, 1))), batcher(np.ones((3, 1))))
    assert (one.tolist(), two.tolist()) == ([2.0], [3.0])


async def test_a_full_queue_refuses() -> None:
    batcher = Batcher(Doubling(), BatchLimits(waiting_requests=3))
    answers = await asyncio.gather(*(batcher(np.ones((1, 1))) for _ in range(5)), return_exceptions=True)
    assert [isinstance(answer, Overloaded) for answer in answers] == [False, False, False, True, True]


async def test_waiting_bytes_are_bounded_and_given_back() -> None:
    batcher = Batcher(Doubling(), BatchLimits(waiting_bytes=1000))
    answers = await asyncio.gather(*(batcher(np.ones((100, 1))) for _ in range(4)), return_exceptions=True)
    assert [isinstance(answer, Overloaded) for answer in answers] == [False, False, True, True]
    assert len(await batcher(np.ones((100, 1)))) == 100


async def test_a_slow_model_moves_to_a_thread_and_the_loop_stays_free() -> None:
    release = threading.Event()
    predict = Doubling()
    slow = Batcher(lambda rows: (release.wait(5), predict(rows))[1], BatchLimits(slow_seconds=-1.0))
    first = asyncio.create_task(slow(np.ones((1, 1))))
    await asyncio.sleep(0.01)
    later = [asyncio.create_task(slow(np.ones((1, 1)))) for _ in range(5)]
    await asyncio.sleep(0.01)
    assert not first.done()
    release.set()
    await asyncio.gather(first, *later)
    assert predict.calls == [1, 5]
    assert all(name.startswith("predict") for name in predict.threads)
    slow.close()


async def test_a_request_whose_client_left_is_not_predicted() -> None:
    predict = Doubling()
    batcher = Batcher(predict)
    gone = asyncio.create_task(batcher(np.ones((1, 1))))
    stays = asyncio.create_task(batcher(np.ones((2, 1))))
    await asyncio.sleep(0)
    gone.cancel()
    await stays
    assert predict.calls in ([2], [3])   # [3] if the batch had already run when the client left
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_every_request_leaving_leaves_a_working_batcher() -> None:
    batcher = Batcher(Doubling())
    gone = asyncio.create_task(batcher(np.ones((1, 1))))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0.01)
    assert (await batcher(np.ones((1, 1)))).tolist() == [2.0]


async def test_who_waits_when_the_batcher_closes_is_answered_all_the_same() -> None:
    release = threading.Event()
    slow = Batcher(lambda rows: (release.wait(5), rows[:, 0])[1], BatchLimits(slow_seconds=-1.0))
    first = asyncio.create_task(slow(np.ones((1, 1))))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(slow(np.ones((1, 1))))
    await asyncio.sleep(0.01)
    slow.close()
    release.set()
    assert [answer.tolist() for answer in await asyncio.gather(first, second)] == [[1.0], [1.0]]
    assert (await slow(np.ones((2, 1)))).tolist() == [1.0, 1.0]   # one that had found the model before it was replaced
    assert slow._thread is None
