"""Two replicas as real processes: the leader is killed or paused, and never writes after the other has begun to."""

import asyncio
import datetime
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from serveplane.kube import Client
from serveplane.kube.lease import LEASE
from tests.counts import COUNTS
from tests.kit.audit import Request
from tests.kit.processes import start, stop
from tests.kit.testbed import Testbed
from tests.kit.waiting import eventually
from tests.testbed.kube.example import WIDGET, lease, widget

pytestmark = [pytest.mark.testbed, pytest.mark.stress]
SECONDS = float(COUNTS.lease_seconds)
WIDGETS = 10


class Replicas:
    """Processes by identity; each gets a name of its own, so that the audit log tells them apart."""

    def __init__(self, testbed: Testbed, namespace: str, client: Client) -> None:
        self.testbed, self.namespace, self.client = testbed, namespace, client
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._number = 0

    def add(self) -> str:
        self._number += 1
        identity = f"{self.namespace}-{self._number}"
        command = [
            sys.executable,
            "-m",
            "tests.testbed.kube.example",
            str(self.testbed.kubeconfig),
            identity,
            self.namespace,
            str(SECONDS),
        ]
        self.processes[identity] = start(command, self.testbed.folder / f"{identity}.log")
        return identity

    async def holder(self) -> str:
        lease = await self.client.find(LEASE, "widgets", self.namespace)
        return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")

    async def leader(self, other_than: str = "", seconds: float = 90) -> str:
        async def found() -> str:
            self.refill(other_than)
            holder = await self.holder()
            return holder if holder in self.processes and holder != other_than else ""

        return await eventually(found, seconds)

    def refill(self, spare: str) -> None:
        """Replace replicas that ended by themselves: on a busy machine a short lease may be lost for want of CPU."""
        for identity, process in list(self.processes.items()):
            if identity != spare and process.poll() is not None:
                del self.processes[identity]
                self.add()

    async def standing_by(self) -> None:
        """Every replica has seen the lease, so that it knows from when on to count."""
        for identity in self.processes:
            await eventually(lambda name=identity: any(r.is_lease for r in self.testbed.audit.requests(agent=name)), 60)

    def writes(self, identity: str, since: int) -> list[Request]:
        every = self.testbed.audit.requests(since, agent=identity)
        return [request for request in every if request.is_write and not request.is_lease and request.status < 400]

    def claims(self, identity: str) -> list[Request]:
        every = self.testbed.audit.requests(agent=identity)
        return [request for request in every if request.is_write and request.is_lease and request.status < 400]

    async def wrote(self, identity: str, since: int) -> list[Request]:
        return await eventually(lambda: self.writes(identity, since), 60)


@contextmanager
def two_replicas(testbed: Testbed, namespace: str, client: Client) -> Iterator[Replicas]:
    replicas = Replicas(testbed, namespace, client)
    try:
        replicas.add()
        replicas.add()
        yield replicas
    finally:
        for process in replicas.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                stop(process)


@asynccontextmanager
async def constant_work(client: Client, namespace: str) -> AsyncIterator[None]:
    """Somebody edits Widgets all the time, so the leader always has something to write."""
    for n in range(WIDGETS):
        await client.create(widget(f"w{n}", namespace, size=0))

    async def edit() -> None:
        size = 0
        while True:
            size += 1
            await client.patch(WIDGET, f"w{size % WIDGETS}", namespace, {"spec": {"size": size}})
            await asyncio.sleep(0.02)

    task = asyncio.create_task(edit())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def assert_no_overlap(replicas: Replicas, old: str, new: str, since: int) -> None:
    first = replicas.writes(new, since)[0].received
    late = [request for request in replicas.writes(old, since) if request.received > first]
    assert late == [], f"{old} wrote after {new} had begun at {first}"


def assert_in_time(replicas: Replicas, old: str, new: str) -> None:
    """From the old holder's last renewal to the new one's claim: the lease, one look of a waiting replica, and the machine's slowness."""
    claimed, renewed = (datetime.datetime.fromisoformat(at) for at in (replicas.claims(new)[0].received, replicas.claims(old)[-1].received))
    took = (claimed - renewed).total_seconds()
    print(f"takeover {took:.1f} s after the last renewal, lease {SECONDS:.0f} s")
    assert took <= SECONDS + 1.2 * lease("", "", SECONDS).retry_period + COUNTS.takeover_slack


async def test_a_killed_leader_is_replaced_in_time(widgets: Testbed, client: Client, namespace: str) -> None:
    with two_replicas(widgets, namespace, client) as replicas:
        async with constant_work(client, namespace):
            for _ in range(COUNTS.leader_kills):
                old = await replicas.leader()
                await replicas.wrote(old, 0)
                await replicas.standing_by()
                mark = widgets.audit.mark()
                os.kill(replicas.processes[old].pid, signal.SIGKILL)
                new = await replicas.leader(other_than=old, seconds=90)
                await replicas.wrote(new, mark)
                assert_no_overlap(replicas, old, new, mark)
                assert_in_time(replicas, old, new)
                replicas.processes.pop(old).wait()
                replicas.add()


async def test_a_paused_leader_writes_nothing_when_it_wakes(widgets: Testbed, client: Client, namespace: str) -> None:
    with two_replicas(widgets, namespace, client) as replicas:
        async with constant_work(client, namespace):
            for _ in range(COUNTS.leader_pauses):
                old = await replicas.leader()
                await replicas.wrote(old, 0)
                await replicas.standing_by()
                mark = widgets.audit.mark()
                process = replicas.processes[old]
                os.kill(process.pid, signal.SIGSTOP)
                new = await replicas.leader(other_than=old, seconds=90)
                await replicas.wrote(new, mark)
                os.kill(process.pid, signal.SIGCONT)
                status = await asyncio.wait_for(asyncio.to_thread(process.wait), 60)
                assert status != 0, "a replica that lost the lease must not end as if all were well"
                await asyncio.sleep(0.5)
                assert_no_overlap(replicas, old, new, mark)
                del replicas.processes[old]
                replicas.add()
