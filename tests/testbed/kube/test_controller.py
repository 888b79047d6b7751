"""The example controller on a real API server: it converges, then costs nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from serveplane.http.client import Client as HttpClient
from serveplane.kube.apply import MANAGER
from serveplane.kube.client import Client
from serveplane.kube.config import load_config
from serveplane.kube.controller import Controller
from serveplane.kube.http_transport import HttpTransport
from serveplane.kube.lease import LEASE
from serveplane.kube.manager import Manager, ManagerOptions
from tests.counts import COUNTS
from tests.kit.processes import free_ports
from tests.kit.testbed import Testbed
from tests.kit.waiting import eventually
from tests.testbed.kube.example import CHILDREN, CONFIG_MAP, DEPLOYMENT, SERVICE, WIDGET, add_widgets, lease, widget

pytestmark = pytest.mark.testbed


@asynccontextmanager
async def running(
    testbed: Testbed, namespace: str, agent: str, kubeconfig: str = "", lease_seconds: float = 15, **more: Any
) -> AsyncIterator[tuple[Manager, Controller]]:
    """A manager with the Widget controller, leading."""
    transport = HttpTransport(load_config(kubeconfig or str(testbed.kubeconfig)))
    options = ManagerOptions(
        lease=lease(agent, namespace, lease_seconds), user_agent=agent, namespaces=[namespace], grace_seconds=5, **more
    )
    manager = Manager(transport, options)
    controller = add_widgets(manager)
    task = asyncio.create_task(manager.run())
    try:
        await asyncio.wait(
            {task, asyncio.create_task(manager.leading.wait())}, timeout=90, return_when=asyncio.FIRST_COMPLETED
        )
        if task.done():
            task.result()
        yield manager, controller
    finally:
        manager.stop()
        try:
            await asyncio.wait_for(task, 60)
        finally:
            await transport.close()


async def converged(client: Client, namespace: str, count: int) -> bool:
    widgets = await client.list(WIDGET, namespace)
    return len(widgets) == count and all(
        (item.get("status") or {}).get("observedGeneration") == item["metadata"]["generation"] for item in widgets
    )


async def make_widgets(client: Client, namespace: str, count: int) -> None:
    places = asyncio.Semaphore(16)

    async def one(n: int) -> None:
        async with places:
            await client.create(widget(f"w{n}", namespace, size=n, colour="red"))

    await asyncio.gather(*(one(n) for n in range(count)))


async def test_converges_and_then_resyncs_cost_no_request(widgets: Testbed, client: Client, namespace: str) -> None:
    agent, count = f"resync-{namespace}", COUNTS.primaries
    async with running(widgets, namespace, agent) as (_, controller):
        await make_widgets(client, namespace, count)
        await eventually(lambda: converged(client, namespace, count), 60 + count / 5)
        for kind in CHILDREN:
            names = {item["metadata"]["name"] for item in await client.list(kind, namespace)} - {"kube-root-ca.crt"}
            assert names == {f"w{n}" for n in range(count)}
        await eventually(lambda: controller.queue.is_idle)
        await asyncio.sleep(1)  # the API server writes its audit log a moment later
        mark = widgets.audit.mark()
        for _ in range(COUNTS.resyncs):
            controller.resync_all()
            await eventually(lambda: controller.queue.is_idle, 120)
        await asyncio.sleep(1)
        asked = [r for r in widgets.audit.requests(mark, agent=agent) if not r.is_lease and r.verb != "watch"]
        assert asked == []
    writes = [r for r in widgets.audit.requests(agent=agent) if r.is_write and not r.is_lease]
    assert len(writes) <= 4.2 * count, "three children and one status each"


async def test_an_edit_changes_only_what_it_should_and_prunes(widgets: Testbed, client: Client, namespace: str) -> None:
    async with running(widgets, namespace, "edit") as (_, _controller):
        await client.create(widget("a", namespace, size=1, extra=True))
        await eventually(lambda: client.find(CONFIG_MAP, "a-extra", namespace))
        before = await client.get(DEPLOYMENT, "a", namespace)
        await client.patch(WIDGET, "a", namespace, {"spec": {"size": 2, "extra": None}})

        async def settled() -> bool:
            gone = await client.find(CONFIG_MAP, "a-extra", namespace) is None
            return gone and (await client.get(CONFIG_MAP, "a", namespace))["data"] == {"size": "2"}

        await eventually(settled)
        after = await client.get(DEPLOYMENT, "a", namespace)
        assert after["metadata"]["generation"] == before["metadata"]["generation"]


async def test_drift_is_restored_and_told(widgets: Testbed, client: Client, namespace: str) -> None:
    async with running(widgets, namespace, "drift") as (_, _controller):
        await client.create(widget("a", namespace, size=1))
        await eventually(lambda: converged(client, namespace, 1))
        await client.patch(CONFIG_MAP, "a", namespace, {"data": {"size": "9"}}, field_manager="meddler")

        async def restored() -> bool:
            return (await client.get(CONFIG_MAP, "a", namespace))["data"] == {"size": "1"}

        await eventually(restored)
        service = await client.get(SERVICE, "a", namespace)
        await client.delete(SERVICE, "a", namespace)

        async def remade() -> bool:
            now = await client.find(SERVICE, "a", namespace)
            return now is not None and now["metadata"]["uid"] != service["metadata"]["uid"]

        await eventually(remade)

        async def messages() -> set[str]:
            events = await client.list(CONFIG_MAP._replace(kind="Event"), namespace)
            return {event["message"] for event in events if event["reason"] == "ChildRestored"}

        async def told() -> bool:
            said = "\n".join(await messages())
            return "meddler (.data.size)" in said and "Service" in said and "deleted" in said

        await eventually(told)


async def test_the_lease_is_released_on_a_clean_exit(widgets: Testbed, client: Client, namespace: str) -> None:
    async with running(widgets, namespace, "clean"):
        held = await client.get(LEASE, "widgets", namespace)
        assert held["spec"]["holderIdentity"] == "clean"
    assert (await client.get(LEASE, "widgets", namespace))["spec"]["holderIdentity"] == ""


async def test_children_are_owned_by_apply_alone(widgets: Testbed, client: Client, namespace: str) -> None:
    async with running(widgets, namespace, "owner"):
        await client.create(widget("a", namespace))
        await eventually(lambda: converged(client, namespace, 1))
        for kind in CHILDREN:
            child = await client.get(kind, "a", namespace)
            ours = [
                (entry["manager"], entry["operation"])
                for entry in child["metadata"]["managedFields"]
                if entry["manager"] == MANAGER
            ]
            assert ours == [(MANAGER, "Apply")]


async def test_health_and_metrics_are_served(widgets: Testbed, client: Client, namespace: str) -> None:
    health, metrics = free_ports(2)
    addresses = {"health_address": f"127.0.0.1:{health}", "metrics_address": f"127.0.0.1:{metrics}"}
    async with running(widgets, namespace, "health", **addresses), HttpClient() as http:
        await client.create(widget("a", namespace))
        await eventually(lambda: converged(client, namespace, 1))

        async def asked(port: int, path: str) -> tuple[int, str]:
            response = await http.request("GET", f"http://127.0.0.1:{port}{path}")
            return response.status, (await response.read()).decode()

        assert await asked(health, "/healthz") == (200, "ok")
        assert await asked(health, "/readyz") == (200, "ok")
        status, text = await asked(metrics, "/metrics")
        assert status == 200
        for line in (
            'controller_runtime_reconcile_total{controller="widget",result="success"}',
            'controller_runtime_max_concurrent_reconciles{controller="widget"} 16',
            'workqueue_depth{name="widget",controller="widget"}',
            'leader_election_master_status{name="widgets"} 1',
            'rest_client_requests_total{code="201",method="PATCH"',
            "process_resident_memory_bytes",
        ):
            assert line in text
