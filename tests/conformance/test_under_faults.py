"""The same recorded outcomes over a bad connection: whatever the network does, the same objects come out, none lost, none doubled."""
import asyncio
from collections.abc import Iterator

import pytest

from tests.conformance.baseline import put_baseline
from tests.conformance.recorded import GOLDEN, Case, cases
from tests.conformance.replay import Result, replay
from tests.counts import SEED
from tests.kit.api import Api, Login
from tests.kit.faults import FaultProxy, Faults
from tests.kit.installation import NAMESPACE, PROGRAMS, Installation
from tests.kit.plugin import run_apart
from tests.kit.processes import tail
from tests.kit.testbed import Testbed

pytestmark = [pytest.mark.testbed, pytest.mark.stress,
              pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no recorded cases in {GOLDEN} (set SERVEPLANE_GOLDEN)")]
CHOSEN = {"format-lightgbm", "canary-two", "stop-resume", "update-autoscaler-class", "storage-spec-minio"}
TROUBLE = Faults(errors=0.1, busy=0.05, conflicts=0.05, gone=0.1, lost=0.03, dropped=0.03, watch_seconds=2,
                 spare=lambda method, path: path.endswith("/leases/kserve-controller-manager-leader-lock"))


@pytest.fixture
def unmanaged(manager: Installation) -> Iterator[Installation]:
    """The recorded cluster with our manager stopped for the time of the test."""
    run_apart(lambda: put_baseline(manager.testbed))
    for running in manager.managers:
        running.stop()
    yield manager
    manager.run("kserve", "--leader-elect").await_ready()


async def test_outcomes_are_as_recorded(world: Testbed, unmanaged: Installation, api: Api) -> None:
    token = Login.read(world.service_account(NAMESPACE, PROGRAMS["kserve"].account)).token
    problems: dict[str, list[str]] = {}

    def report(case: Case, result: Result) -> None:
        if result.problems:
            problems[str(case)] = result.problems
    async with FaultProxy(world.kubeconfig, TROUBLE, SEED) as proxy:
        flaky = unmanaged.run("kserve", "--leader-elect", kubeconfig=proxy.kubeconfig_for(token))
        try:
            await asyncio.to_thread(flaky.await_ready, 240)
            await replay(api, [case for case in cases() if case.name in CHOSEN], report, slowness=3)
        finally:
            await asyncio.to_thread(flaky.stop)
    assert not problems, "\n".join([*(f"{case}: {line}" for case, lines in problems.items() for line in lines), tail(flaky.log, 40)])
    assert sum(proxy.counts.values()) > 30, f"too little happened to show anything: {proxy.counts}"
