"""A controller that dies after any of its writes: its successor ends at the same objects, on the embedded API server in this process."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from serveplane.embedded.testing import TestServer, api_server
from serveplane.kube.client import Client
from serveplane.kube.controller import Controller
from serveplane.kube.errors import ConnectionFailed, LeaseLost
from serveplane.kube.manager import Manager, ManagerOptions
from serveplane.kube.transport import Call, Reply, Transport
from tests.counts import SEED
from tests.kit.waiting import eventually
from tests.testbed.kube.example import CHILDREN, CONFIG_MAP, CRD, SERVICE, WIDGET, add_widgets, widget

Json = dict[str, Any]
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}


class Dying:
    """A transport whose process dies with its n-th write: before it is carried out, or after, with the answer lost."""

    host = "dying"

    def __init__(self, inner: Transport, last: int, *, carried_out: bool) -> None:
        self._inner, self._left, self._carried_out = inner, last, carried_out
        self.writes = 0

    async def send(self, call: Call) -> Reply:
        if self._left <= 0:
            raise LeaseLost("dead")
        if call.method != "GET":
            self.writes += 1
            self._left -= 1
            if self._left == 0:
                if self._carried_out:
                    await self._inner.send(call)
                raise LeaseLost("dead")
        return await self._inner.send(call)

    async def close(self) -> None:
        await self._inner.close()


class Late:
    """A transport through which news of the cluster comes late, and each kind's by another delay: every read of a cache is stale."""

    host = "late"

    def __init__(self, inner: Transport, chance: random.Random) -> None:
        self._inner, self._chance = inner, chance
        self.writes = 0

    async def send(self, call: Call) -> Reply:
        self.writes += call.method != "GET"
        reply = await self._inner.send(call)
        if isinstance(reply.body, bytes):
            return reply
        return reply._replace(body=self._delayed(reply.body, self._chance.uniform(0, 0.15)))

    async def _delayed(self, body: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
        async for chunk in body:
            await asyncio.sleep(seconds)
            yield chunk

    async def close(self) -> None:
        await self._inner.close()


@asynccontextmanager
async def world() -> AsyncIterator[tuple[TestServer, Client]]:
    async with api_server() as server:
        client = Client(server.transport())
        await client.create(NAMESPACE)
        await client.create(CRD)
        await eventually(lambda: client.discovery.served(WIDGET))
        yield server, client


@asynccontextmanager
async def controlling(transport: Transport) -> AsyncIterator[tuple[asyncio.Task[None], Controller]]:
    manager = Manager(transport, ManagerOptions(grace_seconds=1))
    controller = add_widgets(manager)
    task = asyncio.create_task(manager.run())
    try:
        yield task, controller
    finally:
        manager.stop()
        with suppress(LeaseLost, ConnectionFailed):
            await asyncio.wait_for(task, 60)


async def story(client: Client, task: asyncio.Task[None]) -> None:
    """What users do meanwhile: create, and once that has settled (or the controller is dead) edit and take something away."""
    await client.create(widget("a", "ns", size=1, extra=True))
    await client.create(widget("b", "ns", size=2))
    await eventually(lambda: task.done() or settled(client))
    await client.patch(WIDGET, "a", "ns", {"spec": {"size": 3, "extra": None}})


async def settled(client: Client) -> bool:
    widgets = await client.list(WIDGET, "ns")
    return all(
        (item.get("status") or {}).get("observedGeneration") == item["metadata"]["generation"] for item in widgets
    )


async def outcome(client: Client) -> dict[str, Json]:
    """Every object as it ends, less what differs between any two runs."""
    found: dict[str, Json] = {}
    for kind in (WIDGET, *CHILDREN):
        for obj in await client.list(kind, "ns"):
            metadata = {name: obj["metadata"].get(name) for name in ("name", "labels", "generation")}
            if kind is not WIDGET:
                metadata.pop("generation")
                metadata["owners"] = [owner["name"] for owner in obj["metadata"].get("ownerReferences", ())]
            found[f"{kind.kind}/{obj['metadata']['name']}"] = {
                **{name: value for name, value in obj.items() if name not in ("metadata", "status")},
                "metadata": metadata,
            }
    return found


async def ending(client: Client, controller: Controller) -> dict[str, Json]:
    await eventually(lambda: controller.queue.is_idle and settled(client))
    await eventually(lambda: controller.queue.is_idle)
    return await outcome(client)


@pytest.mark.parametrize("carried_out", [False, True], ids=["not carried out", "answer lost"])
async def test_a_crash_after_any_write_changes_nothing_in_the_end(carried_out: bool) -> None:
    async with world() as (server, client):
        counting = Dying(server.transport(), 10**6, carried_out=True)
        async with controlling(counting) as (task, controller):
            await story(client, task)
            expected = await ending(client, controller)
    assert set(expected) >= {"Deployment/a", "Service/a", "ConfigMap/a", "Deployment/b"}
    assert "ConfigMap/a-extra" not in expected
    assert counting.writes >= 12
    for last in range(1, counting.writes + 1):
        async with world() as (server, client):
            async with controlling(Dying(server.transport(), last, carried_out=carried_out)) as (task, _):
                await story(client, task)
                await asyncio.wait({task}, timeout=60)
                assert task.done() or last > 12, "it must have died, unless this run needed fewer writes"
            async with controlling(server.transport()) as (_, controller):
                assert await ending(client, controller) == expected, f"died with write {last}"


async def test_stale_views_change_nothing_in_the_end_and_cost_no_more_writes() -> None:
    async with world() as (server, client):
        prompt = Late(server.transport(), Prompt())
        async with controlling(prompt) as (task, controller):
            await story(client, task)
            expected = await ending(client, controller)
    for seed in range(SEED, SEED + 5):
        async with world() as (server, client):
            late = Late(server.transport(), random.Random(seed))
            async with controlling(late) as (task, controller):
                await story(client, task)

                async def same(client: Client = client) -> bool:
                    return await outcome(client) == expected

                await eventually(same)
                assert late.writes <= prompt.writes + 2, (
                    f"seed {seed}: our own writes are known before the watch tells of them"
                )


class Prompt(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return 0.0


async def test_resyncs_write_nothing_and_drift_is_restored_in_process() -> None:
    async with world() as (server, client):
        counting = Dying(server.transport(), 10**6, carried_out=True)
        async with controlling(counting) as (task, controller):
            await story(client, task)
            await ending(client, controller)
            before = counting.writes
            for _ in range(3):
                controller.resync_all()
                await eventually(lambda: controller.queue.is_idle)
            assert counting.writes == before
            await client.patch(CONFIG_MAP, "a", "ns", {"data": {"size": "9"}}, field_manager="meddler")
            await client.delete(SERVICE, "b", "ns")

            async def restored() -> bool:
                sizes = (await client.get(CONFIG_MAP, "a", "ns"))["data"]
                return sizes == {"size": "3"} and await client.find(SERVICE, "b", "ns") is not None

            await eventually(restored)
