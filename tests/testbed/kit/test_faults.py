"""The fault proxy: honest when told to be, and otherwise wrong in exactly the ways it was asked for, the same for the same seed."""
import asyncio
import ssl
from typing import Any

import aiohttp
import pytest

from tests.counts import SEED
from tests.kit.api import Api, Refused
from tests.kit.faults import Fault, FaultProxy, Faults
from tests.kit.testbed import Testbed

pytestmark = pytest.mark.testbed


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x" * 5000}}


async def outcomes(testbed: Testbed, faults: Faults, count: int = 60, seed: int = SEED) -> list[str]:
    """What a client that never retries sees of `count` equal reads."""
    async with FaultProxy(testbed.kubeconfig, faults, seed) as proxy, aiohttp.ClientSession() as session:
        headers, seen = {"Authorization": f"Bearer {testbed.token}"}, []
        for _ in range(count):
            try:
                async with session.get(f"{proxy.url}/api/v1/namespaces", headers=headers, ssl=False) as answer:
                    await answer.read()
                    seen.append(str(answer.status))
            except aiohttp.ClientError:
                seen.append("broken")
        return seen


async def test_without_faults_nothing_changes(testbed: Testbed, namespace: str) -> None:
    async with FaultProxy(testbed.kubeconfig, Faults(), SEED) as proxy, Api(proxy.kubeconfig) as api:
        made = await api.create(config_map("a"), namespace)
        assert (await api.get("v1", "ConfigMap", "a", namespace)) == made
        await api.apply(config_map("a"), namespace)
        await api.delete(config_map("a"), namespace)
        with pytest.raises(Refused, match="not found"):
            await api.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/a")
        assert proxy.counts == {}


async def test_shares_are_kept_and_a_seed_repeats_them(testbed: Testbed) -> None:
    faults = Faults(errors=0.2, busy=0.2, dropped=0.1, lost=0.1)
    seen = await outcomes(testbed, faults)
    assert seen == await outcomes(testbed, faults)
    assert {"200", "429", "broken"} < set(seen)
    assert 15 < seen.count("200") < 45


async def test_busy_says_when_to_come_back(testbed: Testbed) -> None:
    faults = Faults(busy=1, retry_after=3)
    async with FaultProxy(testbed.kubeconfig, faults, SEED) as proxy, aiohttp.ClientSession() as session:
        answer = await session.get(f"{proxy.url}/api/v1/namespaces", ssl=False)
        assert (answer.status, answer.headers["Retry-After"]) == (429, "3")


async def test_a_lost_answer_was_still_carried_out(testbed: Testbed, api: Api, namespace: str) -> None:
    async with FaultProxy(testbed.kubeconfig, Faults(lost=1), SEED) as proxy, aiohttp.ClientSession() as session:
        url, headers = f"{proxy.url}/api/v1/namespaces/{namespace}/configmaps", {"Authorization": f"Bearer {testbed.token}"}
        with pytest.raises(aiohttp.ClientError):
            await session.post(url, json=config_map("there"), headers=headers, ssl=False)
    assert await api.get("v1", "ConfigMap", "there", namespace)


async def test_watches_are_cut_and_may_be_gone(testbed: Testbed, api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    async with FaultProxy(testbed.kubeconfig, Faults(watch_seconds=0.3), SEED) as proxy, Api(proxy.kubeconfig) as client:
        events = []
        writer = asyncio.create_task(api.create(config_map("seen"), namespace))
        for _ in range(4):
            try:
                events += [event async for event, _ in client.watch(path)]
            except (aiohttp.ClientError, ValueError):
                events.append("broken")
        await writer
        assert proxy.counts[Fault.CUT] == 4
        assert "ADDED" in events
        proxy.faults = Faults(gone=1)
        seen = []
        for _ in range(8):
            try:
                seen += [obj["code"] async for event, obj in client.watch(path) if event == "ERROR"]
            except Refused as refusal:
                seen.append(refusal.status)
        assert seen == [410] * 8


async def test_only_changes_conflict_and_spared_requests_pass(testbed: Testbed, namespace: str) -> None:
    faults = Faults(conflicts=1, spare=lambda method, path: path.endswith("/spared"))
    async with FaultProxy(testbed.kubeconfig, faults, SEED) as proxy, Api(proxy.kubeconfig) as api:
        await api.create(config_map("a"), namespace)
        with pytest.raises(Refused) as refused:
            await api.apply(config_map("a"), namespace)
        assert refused.value.status == 409
        await api.apply(config_map("spared"), namespace)


async def test_a_request_that_never_ends_does_not_hold_it_up(testbed: Testbed) -> None:
    trusting, seen = ssl.create_default_context(), asyncio.Event()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    faults = Faults(spare=lambda method, path: bool(seen.set()))
    async with asyncio.timeout(30):
        async with FaultProxy(testbed.kubeconfig, faults, SEED) as proxy:
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port, ssl=trusting)
            writer.write(b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
            await seen.wait()
        writer.close()
