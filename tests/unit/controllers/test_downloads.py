"""The progress of downloads, from the log of a storage initializer to the status of its service."""
import datetime
from collections.abc import AsyncGenerator
from typing import Any, cast

import msgspec
import pytest

from serveplane.clock import SYSTEM
from serveplane.controllers.inferenceservice import downloads
from serveplane.controllers.inferenceservice.caches import trimmed_pod
from serveplane.controllers.inferenceservice.downloads import INDEX, Downloads, loading
from serveplane.kube.client import Client
from serveplane.kube.errors import Forbidden, NotFound
from serveplane.kube.informers import Informer
from serveplane.kube.kind import Key, Kind
from serveplane.status.downloads import Download, current, last_progress, words

Json = dict[str, Any]
NOW = datetime.datetime(2026, 1, 1, 12, 0, 0, tzinfo=datetime.UTC)


def pod(name: str, state: Json, version: int = 1) -> Json:
    metadata = {"name": name, "namespace": "ml", "uid": name, "resourceVersion": str(version),
                "labels": {"serving.kserve.io/inferenceservice": "iris"}}
    statuses = [{"name": "istio-init", "state": {"terminated": {}}}, {"name": "storage-initializer", "state": state}]
    return {"metadata": metadata, "spec": {"containers": [{"name": "kserve-container"}]}, "status": {"initContainerStatuses": statuses}}


def line(done: int, total: int | None = 100, **more: Any) -> bytes:
    return msgspec.json.encode({"storage": {"uri": "s3://b/m", "files": 0, "allFiles": 1, "bytes": done, "total": total,
                                            "bytesPerSecond": 10, "etaSeconds": 9.5, "seconds": 5.0, **more}})


class Logs:
    """A client of which only logs are asked."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes | Exception] = {}
        self.asked: list[str] = []

    async def logs(self, name: str, namespace: str, *, container: str, tail: int) -> AsyncGenerator[bytes]:
        assert (namespace, container, tail) == ("ml", "storage-initializer", 5)
        self.asked.append(name)
        text = self.texts.get(name, b"")
        if isinstance(text, Exception):
            raise text
        yield text


class Pods:
    """Pods as the controller's cache has them."""

    def __init__(self) -> None:
        self.informer = Informer(cast(Client, None), Kind("v1", "Pod"), [], SYSTEM)
        self.informer.store.keeps = None
        self.informer.store.trim = trimmed_pod
        self.informer.store.add_index(INDEX, loading)

    def put(self, obj: Json) -> None:
        self.informer.store.put(msgspec.json.encode(obj))


def following(logs: Logs, pods: Pods) -> tuple[Downloads, list[Key]]:
    told: list[Key] = []
    return Downloads(cast(Client, logs), pods.informer, told.append, SYSTEM), told


async def test_only_logs_of_running_initializers_are_read_and_only_news_is_told() -> None:
    logs, pods = Logs(), Pods()
    following_now, told = following(logs, pods)
    for name, state in (("loads", {"running": {}}), ("waits", {"waiting": {}}), ("done", {"terminated": {"exitCode": 0}})):
        pods.put(pod(name, state))
    logs.texts["loads"] = b"hello\n" + line(10) + b"\n" + line(20) + b"\n"
    await following_now.look()
    assert (logs.asked, told) == (["loads"], [Key("ml", "loads")])
    assert following_now.of([pod("loads", {})])["loads"].bytes == 20
    await following_now.look()
    assert told == [Key("ml", "loads")]
    pods.put(pod("loads", {"terminated": {"exitCode": 0}}, version=2))
    await following_now.look()
    assert (len(logs.asked), following_now.of([pod("loads", {})])) == (2, {})


async def test_nothing_is_read_when_nothing_loads() -> None:
    logs, pods = Logs(), Pods()
    await following(logs, pods)[0].look()
    assert logs.asked == []


async def test_many_downloads_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "MOST_PER_TURN", 3)
    logs, pods = Logs(), Pods()
    for n in range(7):
        pods.put(pod(f"p{n}", {"running": {}}))
    following_now, _ = following(logs, pods)
    for _ in range(2):
        await following_now.look()
    assert len(set(logs.asked)) == len(logs.asked) == 6


async def test_a_log_that_cannot_be_read_is_no_trouble_and_a_refusal_ends_the_asking() -> None:
    logs, pods = Logs(), Pods()
    following_now, told = following(logs, pods)
    pods.put(pod("a", {"running": {}}))
    logs.texts["a"] = NotFound("gone")
    await following_now.look()
    logs.texts["a"] = Forbidden("no")
    for _ in range(5):
        await following_now.look()
    assert (len(logs.asked), told) == (2, [])


@pytest.mark.parametrize("text", [
    b"", b"\xff\xfe\n", b'{"storage": 3}', b'{"storage": {"bytes": -1}}', b'{"storage": {"bytes": "many"}}', b"[1]", b"{" * 5000,
    b'{"storage": {"bytes": 1, "etaSeconds": 1e999}}', b"Downloading s3://b/m\n",
])
def test_what_does_not_read_as_progress_is_none(text: bytes) -> None:
    assert last_progress(text) is None
    assert last_progress(line(7) + b"\n" + text) == Download("s3://b/m", 0, 1, 7, 100, 10, 9.5)


def test_words() -> None:
    assert words(Download("x", 2, 2, 5, 0)) == "x: 5 B, 2 of 2 files"
    assert "about 3.0 h left" in words(Download("x", 0, 1, 5, 10**12, 3.0, 10800.0))
    assert "(100 %)" in words(Download("x", 0, 1, 11, 10))
    assert len(words(Download("x" * 10_000))) < 300
    newest = {**pod("b", {"running": {}}), "metadata": {"name": "b", "creationTimestamp": "2026-01-02T00:00:00Z"}}
    older = pod("a", {"running": {}})
    assert current([older, newest], {"a": Download("a"), "b": Download("b")}) == Download("b")
    assert current([older, newest], {"a": Download("a")}) == Download("a")
    assert current([pod("c", {"terminated": {}})], {"c": Download("c")}) is None
