"""Leader election by the clock: who may write when."""

import asyncio

import pytest

from serveplane.kube.errors import LeaseLost
from serveplane.kube.lease import LEASE, LeaderElection, LeaseOptions
from tests.unit.kube.clocks import FakeClock, settle
from tests.unit.kube.fake_server import FakeServer


def election(server: FakeServer, clock: FakeClock, identity: str) -> LeaderElection:
    return LeaderElection(server.client(clock), LeaseOptions("lock", "ns", identity), clock)


async def test_the_first_takes_it_and_the_second_waits_until_it_runs_out() -> None:
    server, clock = FakeServer(), FakeClock()
    a, b = election(server, clock, "a"), election(server, clock, "b")
    await a.acquire()
    assert a.is_leader
    task = asyncio.create_task(b.acquire())
    await clock.advance(14.9)
    assert not b.is_leader
    await clock.advance(4)
    assert task.done()
    assert b.is_leader
    assert not a.is_leader, "it gave up at its renew deadline, five seconds before anyone could take over"


async def test_a_holder_that_renews_keeps_it() -> None:
    server, clock = FakeServer(), FakeClock()
    a, b = election(server, clock, "a"), election(server, clock, "b")
    await a.acquire()
    keep, wait = asyncio.create_task(a.keep()), asyncio.create_task(b.acquire())
    await clock.advance(120)
    assert a.is_leader
    assert not wait.done()
    for task in (keep, wait):
        task.cancel()
    await asyncio.gather(keep, wait, return_exceptions=True)


async def test_a_holder_that_cannot_renew_loses_it_before_others_may_take_it() -> None:
    server, clock = FakeServer(), FakeClock()
    a = election(server, clock, "a")
    await a.acquire()
    keep = asyncio.create_task(a.keep())
    await clock.advance(1.9)
    server.fail = [503] * 1000
    await clock.advance(8.0)
    a.guard()
    await clock.advance(0.2)
    with pytest.raises(LeaseLost):
        a.guard()
    await clock.advance(10)
    with pytest.raises(LeaseLost):
        await keep


async def test_time_that_passed_unnoticed_counts() -> None:
    """A paused process wakes with its deadline long gone: the guard says no before anything else runs."""
    server, clock = FakeServer(), FakeClock()
    a = election(server, clock, "a")
    await a.acquire()
    clock.time += 11
    with pytest.raises(LeaseLost):
        a.guard()


async def test_a_lease_taken_by_another_is_noticed() -> None:
    server, clock = FakeServer(), FakeClock()
    a = election(server, clock, "a")
    await a.acquire()
    keep = asyncio.create_task(a.keep())
    await settle()
    path = next(iter(server.objects))
    lease = server.objects[path]
    server._store(path, {**lease, "spec": {**lease["spec"], "holderIdentity": "b", "renewTime": "later"}})
    await clock.advance(12)
    with pytest.raises(LeaseLost):
        await keep


@pytest.mark.parametrize("trouble", ["an answer that was lost", "an error"])
async def test_a_renewal_that_fails_is_made_good_at_once(trouble: str) -> None:
    """Not a retry period later: a few such in a row, and the lease would be gone with everybody well."""
    server, clock = FakeServer(), FakeClock()
    a = election(server, clock, "a")
    await a.acquire()
    keep = asyncio.create_task(a.keep())
    await clock.advance(1.9)
    if trouble == "an error":
        server.fail = [500]
    else:
        path, lease = next(iter(server.objects.items()))
        server._store(path, {**lease, "spec": {**lease["spec"], "renewTime": "of the lost one"}})
    await clock.advance(0.2)
    server.fail = [500] * 1000
    await clock.advance(9.8)
    a.guard()
    keep.cancel()
    await asyncio.gather(keep, return_exceptions=True)


async def test_release_lets_another_in_at_once() -> None:
    server, clock = FakeServer(), FakeClock()
    a, b = election(server, clock, "a"), election(server, clock, "b")
    await a.acquire()
    await a.release()
    assert not a.is_leader
    await b.acquire()
    assert b.is_leader
    spec = (await server.client(clock).get(LEASE, "lock", "ns"))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("b", 1, 15)


def test_write_timeouts_fit_between_giving_up_and_taking_over() -> None:
    options = LeaseOptions("lock", "ns", "a")
    assert options.write_timeout < options.duration - options.renew_deadline
    with pytest.raises(ValueError, match="renew deadline"):
        LeaseOptions("lock", "ns", "a", duration=5, renew_deadline=5)
