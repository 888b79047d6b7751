"""The webhook process: it answers while the manager computes, is replaced when it dies or hangs, and ends with its manager."""

import asyncio
import datetime
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from serveplane.http.client import Client as HttpClient
from serveplane.http.errors import HttpError
from serveplane.http.tls import ClientTls
from serveplane.kube import keypairs, webhook_process
from serveplane.kube.errors import ConfigError, KubeError
from serveplane.kube.metrics import Registry, Series
from serveplane.kube.pair import Pair
from serveplane.kube.webhook_process import WebhookProcess
from tests.kit.waiting import eventually

NOW = datetime.datetime.now(datetime.UTC)
LIFE = datetime.timedelta(hours=1)
NAME = "hooks.ns.svc"
CA = keypairs.authority("test", NOW, LIFE)
PAIR = keypairs.server_pair(CA, [NAME], NOW, LIFE)
MODULE = "tests.unit.kube.answering"


@asynccontextmanager
async def served(**told: Any) -> AsyncIterator[tuple[WebhookProcess, HttpClient]]:
    process = WebhookProcess(MODULE, {"says": "hello", **told}, host="127.0.0.1", port=0)
    running = asyncio.create_task(process.run())
    try:
        await asyncio.wait_for(process.use(PAIR), 20)
        async with HttpClient(tls=ClientTls(ca_data=CA.certificate.decode(), server_name=NAME)) as client:
            yield process, client
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def warnings(process: WebhookProcess, client: HttpClient, name: str = "a") -> list[str]:
    request = {"uid": "u", "operation": "CREATE", "name": name, "object": {"metadata": {"name": name}}}
    body = msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    answer = await client.request("POST", f"{process.url}/validate", headers={"content-type": "application/json"}, body=body, timeout=20)
    found: list[str] = msgspec.json.decode(await answer.read())["response"]["warnings"]
    return found


async def test_its_life() -> None:
    """One process for what takes a while to start: it answers, is counted, survives signals, is replaced, and ends."""
    other = keypairs.authority("other", NOW, LIFE)
    newer = HttpClient(tls=ClientTls(ca_data=other.certificate.decode(), server_name=NAME))
    async with newer, served() as (process, client):
        said, pid = await warnings(process, client)
        assert (said, int(pid), process.why_not) == ("hello", process.pid, "")

        registry = Registry()
        registry.include(process.counted)
        assert 'controller_runtime_webhook_requests_total{webhook="/validate",code="200"} 1' in await registry.whole_text()

        os.kill(int(pid), signal.SIGTERM)  # some supervisors send it to both; the manager decides
        assert (await warnings(process, client))[1] == pid

        with pytest.raises(ConfigError, match="cannot be used"):
            await process.use(Pair(b"no", b"thing"))
        await process.use(keypairs.server_pair(other, [NAME], NOW, LIFE))
        assert (await warnings(process, newer))[1] == pid

        with pytest.raises(HttpError):
            await warnings(process, newer, "dies")
        successor = await asyncio.wait_for(warnings(process, newer), 20)  # waits for the successor, is not refused
        assert successor[1] != pid


async def test_what_is_being_answered_is_finished() -> None:
    async with HttpClient(tls=ClientTls(ca_data=CA.certificate.decode(), server_name=NAME)) as client:
        async with served() as (process, _):
            pid = process.pid
            late = asyncio.create_task(warnings(process, client, "slow"))
            await eventually(lambda: _is_answering(process), 10)
        assert (await late)[0] == "hello"
    assert pid is not None
    assert not _is_alive(pid)


async def test_one_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_process, "ASK_SECONDS", 0.05)
    async with served() as (process, client):
        first = process.pid
        monkeypatch.setattr(webhook_process, "PATIENCE", 0.5)
        with pytest.raises(HttpError):
            await warnings(process, client, "hangs")
        monkeypatch.undo()
        assert (await asyncio.wait_for(warnings(process, client), 20))[1] != str(first)


async def test_one_that_always_dies_ends_the_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_process, "MOST_DEATHS", 2)
    process = WebhookProcess(MODULE, {"dies": True}, host="127.0.0.1", port=0)
    with pytest.raises(KubeError, match=r"status 7"):
        await asyncio.wait_for(process.run(), 20)


async def test_a_taken_port_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = WebhookProcess(MODULE, host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match="cannot listen on"):
            await process.run()


MANAGER = """
import asyncio, sys
from serveplane.kube.webhook_process import WebhookProcess

async def main():
    process = WebhookProcess("tests.unit.kube.answering", {"says": "x"}, host="127.0.0.1", port=0)
    async with asyncio.TaskGroup() as group:
        group.create_task(process.run())
        await process._up.wait()
        print(process.pid, flush=True)

asyncio.run(main())
"""


async def test_it_dies_with_a_manager_that_is_killed() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    manager = await asyncio.create_subprocess_exec(sys.executable, "-c", MANAGER, stdout=asyncio.subprocess.PIPE, env=environment)
    assert manager.stdout is not None
    pid = int(await manager.stdout.readline())
    manager.kill()
    await manager.wait()
    await eventually(lambda: not _is_alive(pid), 10)


async def _is_answering(process: WebhookProcess) -> bool:
    counted = await process.counted()
    return counted is not None and any(one.get("/validate") for one in counted.series if one.name.endswith("requests_in_flight"))


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_metrics_of_two_processes_are_summed() -> None:
    one, two = Registry(), Registry()
    for registry, times in ((one, 1), (two, 2)):
        for _ in range(times):
            registry.counter("things_total", "Things.", "kind").inc("a")
            registry.histogram("seconds", "Seconds.", buckets=(1.0, 2.0)).observe(1.5)
    two.counter("things_total", "Things.", "kind").inc("b")
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(two.snapshot()), type=type(two.snapshot()))
    assert all(isinstance(series, Series) for series in sent.series)
    text = one.text([sent])
    assert 'things_total{kind="a"} 3\nthings_total{kind="b"} 1\n' in text
    assert 'seconds_bucket{le="2"} 3\n' in text
    assert "seconds_sum 4.5\nseconds_count 3\n" in text
    assert text.count("# TYPE things_total") == 1
    assert 'things_total{kind="a"} 1\n' in one.text()
