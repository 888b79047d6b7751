"""The work queue: once at a time, people first, backoff, delays."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serveplane.kube.metrics import Registry
from serveplane.kube.queue import Closed, Priority, Queue
from serveplane.kube.retry import Backoff
from tests.unit.kube.clocks import FakeClock, settle


def queue(clock: FakeClock | None = None, **options: Any) -> Queue[str]:
    return Queue("test", clock or FakeClock(), **options)


async def test_a_key_is_handed_out_once() -> None:
    q = queue()
    q.add("a")
    q.add("a")
    assert await q.get() == "a"
    assert len(q) == 0


async def test_a_key_added_while_worked_on_comes_back_when_done() -> None:
    q = queue()
    q.add("a")
    await q.get()
    q.add("a")
    assert len(q) == 0
    q.done("a")
    assert await q.get() == "a"


async def test_users_overtake_routine_and_a_key_may_move_up() -> None:
    q = queue()
    for key in ("r1", "r2", "r3"):
        q.add(key, Priority.ROUTINE)
    q.add("u")
    q.add("r3")
    q.add("r1", Priority.ROUTINE)
    assert [await q.get() for _ in range(4)] == ["u", "r3", "r1", "r2"]
    assert q.is_idle is False
    for key in ("u", "r1", "r2", "r3"):
        q.done(key)
    assert q.is_idle


async def test_of_several_delays_the_earliest_counts() -> None:
    clock = FakeClock()
    q = queue(clock)
    q.add_after("a", 10)
    q.add_after("a", 5)
    q.add_after("a", 20)
    await clock.advance(4.9)
    assert len(q) == 0
    await clock.advance(0.2)
    assert await q.get() == "a"
    q.done("a")
    await clock.advance(60)
    assert len(q) == 0


async def test_failures_back_off_and_success_forgets_them() -> None:
    clock = FakeClock()
    q = queue(clock, backoff=Backoff(first=1.0, factor=2.0, longest=8.0))
    pauses = [q.add_failed("a") for _ in range(6)]
    for pause, full in zip(pauses, (1, 2, 4, 8, 8, 8), strict=True):
        assert full / 2 <= pause <= full
    q.forget("a")
    assert q.add_failed("a") <= 1
    assert q.add_failed("b", at_least=3) == 3


async def test_success_ends_earlier_wishes_to_come_back() -> None:
    clock = FakeClock()
    q = queue(clock)
    q.add_after("a", 1)
    q.add_after("b", 1)
    q.forget("a")
    await clock.advance(2)
    assert [await q.get()] == ["b"]
    assert len(q) == 0


async def test_a_backoff_survives_any_number_of_failures() -> None:
    assert Backoff().delay(10**6, FakeClock()) <= Backoff().longest


async def test_a_cancelled_reader_passes_its_turn_on() -> None:
    q = queue()
    first, second = asyncio.create_task(q.get()), asyncio.create_task(q.get())
    await settle()
    q.add("a")
    first.cancel()
    await settle()
    assert second.done()
    assert second.result() == "a"


async def test_closing_wakes_readers() -> None:
    q = queue()
    reader = asyncio.create_task(q.get())
    await settle()
    q.close()
    with pytest.raises(Closed):
        await reader
    q.add("a")
    assert len(q) == 0


async def test_metrics_carry_client_gos_names() -> None:
    registry, clock = Registry(), FakeClock()
    q = queue(clock, registry=registry)
    q.add("a")
    clock.time += 2
    await q.get()
    clock.time += 3
    text = registry.text()
    assert 'workqueue_depth{name="test",controller="test"} 0' in text
    assert 'workqueue_adds_total{name="test",controller="test"} 1' in text
    assert 'workqueue_queue_duration_seconds_sum{name="test",controller="test"} 2' in text
    assert 'workqueue_unfinished_work_seconds{name="test",controller="test"} 3' in text
    assert 'workqueue_longest_running_processor_seconds{name="test",controller="test"} 3' in text


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["add", "routine", "after", "get", "done", "advance"]), st.sampled_from("abc")),
    max_size=60,
)


@settings(max_examples=80, deadline=None)
@given(OPERATIONS)
def test_nothing_is_lost_and_nothing_runs_twice(operations: list[tuple[str, str]]) -> None:
    """Whatever happens, every wish is followed by a run that began after it, and no key runs twice at once."""

    async def scenario() -> None:
        clock = FakeClock()
        q, working, wished = queue(clock), set(), set()

        async def take() -> None:
            if len(q):
                key = await q.get()
                assert key not in working
                working.add(key)
                wished.discard(key)

        for operation, key in operations:
            match operation:
                case "add":
                    q.add(key), wished.add(key)
                case "routine":
                    q.add(key, Priority.ROUTINE), wished.add(key)
                case "after":
                    q.add_after(key, 1.0), wished.add(key)
                case "get":
                    await take()
                case "done" if key in working:
                    working.discard(key), q.done(key)
                case "advance":
                    await clock.advance(2.0)
        await clock.advance(5.0)
        while working or len(q):
            for key in list(working):
                working.discard(key)
                q.done(key)
            await take()
        assert wished == set()
        q.close()

    asyncio.run(scenario())
