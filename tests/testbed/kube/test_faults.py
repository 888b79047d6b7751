"""A bad network and an overloaded server: the same children result, none lost, none doubled."""

import asyncio

import pytest

from serveplane.kube import Client
from tests.counts import COUNTS, SEED
from tests.kit.faults import Fault, FaultProxy, Faults
from tests.kit.testbed import Testbed
from tests.kit.waiting import eventually
from tests.testbed.kube.example import CHILDREN, CONFIG_MAP, WIDGET
from tests.testbed.kube.test_controller import converged, make_widgets, running

pytestmark = [pytest.mark.testbed, pytest.mark.stress]
TROUBLE = Faults(errors=0.1, busy=0.05, gone=0.1, conflicts=0.03, lost=0.02, dropped=0.02, watch_seconds=1)
MET = {Fault.ERROR, Fault.BUSY, Fault.GONE, Fault.CUT}


async def test_the_same_children_result(widgets: Testbed, client: Client, namespace: str) -> None:
    count, agent = COUNTS.primaries, f"faults-{namespace}"
    async with (
        FaultProxy(widgets.kubeconfig, TROUBLE, SEED) as proxy,
        # A lease that outlasts a busy machine: client, proxy and controller share one thread here.
        running(widgets, namespace, agent, str(proxy.kubeconfig), lease_seconds=60) as (manager, _),
    ):
        await make_widgets(client, namespace, count)
        await asyncio.gather(*(change(client, namespace, n) for n in range(0, count, 2)))
        await asyncio.gather(*(client.delete(WIDGET, f"w{n}", namespace) for n in range(0, count, 5)))
        left = {n for n in range(count) if n % 5}
        await eventually(lambda: converged(client, namespace, len(left)), 60 + count / 2)

        async def exact() -> bool:
            known = {item.key.name for item in manager.informers.informer(WIDGET).items()}
            assert known == {f"w{n}" for n in left}, "no delete was missed"
            for kind in CHILDREN:  # those of deleted Widgets go when the garbage collector gets to them
                names = {item["metadata"]["name"] for item in await client.list(kind, namespace)} - {
                    "kube-root-ca.crt"
                }
                assert {f"w{n}" for n in left} <= names <= {f"w{n}" for n in range(count)}, kind
            sizes = {
                item["metadata"]["name"]: item.get("data") for item in await client.list(CONFIG_MAP, namespace)
            }
            assert all(sizes[f"w{n}"] == {"size": str(1000 + n if n % 2 == 0 else n)} for n in left)
            return True

        # A quick machine is done before every fault has come up; watches are cut and opened again all the time.
        await eventually(lambda: set(proxy.counts) >= MET, 60, lambda: str(proxy.counts))
        await eventually(exact, 60)
    deleted = [r for r in widgets.audit.requests(agent=agent) if r.verb == "delete"]
    assert deleted == [], "nothing of ours was ever deleted and made anew"


async def change(client: Client, namespace: str, n: int) -> None:
    await client.patch(WIDGET, f"w{n}", namespace, {"spec": {"size": 1000 + n}})
