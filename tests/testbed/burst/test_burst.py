"""Many services at once: all become ready, for few requests each, and then the manager is silent."""
import asyncio

import pytest
from bench.burst import service

from tests.counts import COUNTS
from tests.kit.api import Api, condition
from tests.kit.installation import Installation
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.testbed, pytest.mark.stress]
REQUESTS = 9       # five children, status twice, and a little for what came in between
QUIET = 3.0


async def test_many_services_become_ready_for_few_requests(manager: Installation, api: Api, namespace: str) -> None:
    audit, user = manager.testbed.audit, manager.managers[-1].account
    if audit is None:
        pytest.skip("requests can only be counted on a control plane that the tests started themselves")
    since = audit.mark()
    made = [{**service(f"m{n}"), "metadata": {"name": f"m{n}", "namespace": namespace}} for n in range(COUNTS.burst)]
    await asyncio.gather(*map(api.create, made))

    async def all_ready() -> bool:
        found = await api.list("serving.kserve.io/v1beta1", "InferenceService", namespace)
        return len(found) == COUNTS.burst and all(condition(obj, "Ready") for obj in found)
    await eventually(all_ready, 60 + 2 * COUNTS.burst)
    counts = audit.counts(since, user=user, namespace=namespace)
    asked = {row: number for row, number in counts.items() if row[2] != "events"}
    assert sum(asked.values()) <= REQUESTS * COUNTS.burst, asked
    await asyncio.sleep(QUIET)
    since = audit.mark()
    await asyncio.sleep(QUIET)
    assert audit.counts(since, user=user, namespace=namespace) == {}
