"""List and watch against a server that follows a script: cuts, 410s, restored data, kinds that come and go."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from serveplane.kube import Client, Kind
from serveplane.kube.errors import ConnectionFailed
from serveplane.kube.informers import Informer, Informers
from serveplane.kube.transport import InProcessTransport
from tests.unit.kube.clocks import FakeClock

Json = dict[str, Any]
THING = Kind("x/v1", "Thing")
CUT, GONE = object(), object()


def thing(name: str, version: int) -> Json:
    return {"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}, "v": version}


class Script:
    """Each list and each watch takes the next entry of its script; the last watch stays open for ever."""

    def __init__(self, lists: list[Any], watches: list[list[Any]], served: bool = True) -> None:
        self.lists, self.watches, self.served = lists, watches, served
        self.asked: list[dict[str, str]] = []

    async def answer(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        if path == "/apis/x/v1":
            return (
                200,
                {},
                msgspec.json.encode(
                    {"resources": [{"name": "things", "kind": "Thing", "namespaced": True}] if self.served else []}
                ),
            )
        asked = dict(parse_qsl(query))
        self.asked.append(asked)
        if "watch" in asked:
            return 200, {}, self._stream(self.watches.pop(0) if self.watches else [])
        entry = self.lists.pop(0)
        if isinstance(entry, int):
            return entry, {}, b""
        version, *items = entry
        return 200, {}, msgspec.json.encode({"metadata": {"resourceVersion": str(version)}, "items": items})

    async def _stream(self, events: list[Any]) -> AsyncIterator[bytes]:
        for event in events:
            if event is CUT:
                raise ConnectionFailed("cut")
            if event is GONE:
                yield b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
                return
            kind, obj = event
            yield msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
        await asyncio.Event().wait()


@asynccontextmanager
async def watching(script: Script, **options: Any) -> AsyncIterator[tuple[Informer, FakeClock]]:
    clock = FakeClock()
    informers = Informers(Client(InProcessTransport(script.answer), clock))
    informer = informers.informer(THING, **options)
    async with asyncio.TaskGroup() as group:
        informers.start(group)
        await clock.advance(5)
        yield informer, clock
        await informers.stop()


def known(informer: Informer) -> dict[str, int]:
    return {obj["metadata"]["name"]: obj["v"] for obj in informer.list()}


async def test_a_cut_watch_goes_on_where_it_stood() -> None:
    script = Script(
        [(10, thing("a", 1))],
        [
            [("ADDED", thing("b", 11)), CUT],
            [("BOOKMARK", {"metadata": {"resourceVersion": "20"}}), CUT],
            [("DELETED", thing("a", 21))],
        ],
    )
    async with watching(script) as (informer, _):
        assert known(informer) == {"b": 11}
    assert [asked.get("resourceVersion") for asked in script.asked if "watch" in asked] == ["10", "11", "20"]
    assert len([asked for asked in script.asked if "watch" not in asked]) == 1, "no second list"


async def test_a_relist_after_410_tells_of_what_was_deleted_meanwhile() -> None:
    changes: list[tuple[str, bool]] = []
    script = Script([(10, thing("a", 1), thing("b", 2)), (30, thing("b", 25), thing("c", 26))], [[GONE], []])
    async with watching(script) as (informer, _):
        informer.listen(lambda change: changes.append((change.item.key.name, change.new is None)))
        assert known(informer) == {"b": 25, "c": 26}


async def test_restored_data_is_believed() -> None:
    """etcd was put back to an older state: versions start lower, and the old ones must not win for being higher."""
    script = Script([(1000, thing("a", 900), thing("gone", 950)), (50, thing("a", 40))], [[GONE], []])
    async with watching(script) as (informer, _):
        assert known(informer) == {"a": 40}


async def test_a_place_the_server_keeps_refusing_is_given_up() -> None:
    script = Script([(10, thing("a", 1)), (12, thing("a", 11))], [])

    async def answer(method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Any:
        if "watch" in query and "resourceVersion=10" in query:
            return 504, {}, b'{"kind":"Status","message":"Too large resource version"}'
        return await script.answer(method, path, query, headers, body)

    clock = FakeClock()
    informers = Informers(Client(InProcessTransport(answer), clock))
    informer = informers.informer(THING)
    async with asyncio.TaskGroup() as group:
        informers.start(group)
        await clock.advance(120)
        assert known(informer) == {"a": 11}
        await informers.stop()


async def test_failing_lists_are_tried_again() -> None:
    script = Script([500, 500, 403, (5, thing("a", 1))], [])
    async with watching(script) as (informer, clock):
        await clock.advance(60)
        assert known(informer) == {"a": 1}
        assert informer.is_synced


async def test_a_listener_that_raises_stops_nobody() -> None:
    heard: list[str] = []
    script = Script([(1, thing("a", 1))], [[("ADDED", thing("b", 2))]])
    async with watching(script) as (informer, _):
        pass
    script = Script(
        [(1,)], [[("ADDED", thing("b", 2)), ("ADDED", thing("c", 3)), ("MODIFIED", {"metadata": {"name": 5}})]]
    )
    clock = FakeClock()
    informers = Informers(Client(InProcessTransport(script.answer), clock))
    informer = informers.informer(THING)

    def faulty(change: Any) -> None:
        raise RuntimeError("a bug in a mapping function")

    informer.listen(faulty)
    informer.listen(lambda change: heard.append(change.item.key.name))
    async with asyncio.TaskGroup() as group:
        informers.start(group)
        await clock.advance(5)
        await informers.stop()
    assert heard == ["b", "c"]


async def test_a_kind_closed_to_a_manager_of_some_namespaces_is_asked_for_rarely_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    script = Script([403, 403, (10, thing("a", 1))], [])
    clock = FakeClock()
    informers = Informers(Client(InProcessTransport(script.answer), clock), namespaces=["ns"])
    informer = informers.informer(THING, optional=True, cluster_scoped=True)
    async with asyncio.TaskGroup() as group:
        informers.start(group)
        await clock.advance(5)
        assert informer.is_synced
        await clock.advance(20)
        assert len(script.asked) == 1
        await clock.advance(300)
        assert known(informer) == {"a": 1}, "a right granted later takes effect"
        await informers.stop()
    assert [record.message for record in caplog.records if "absent" in record.message] == ["not allowed to read Thing: it counts as absent"]


async def test_an_optional_kind_may_come_later() -> None:
    script = Script([(1, thing("a", 1))], [], served=False)
    async with watching(script, optional=True) as (informer, clock):
        assert informer.is_synced
        assert known(informer) == {}
        script.served = True
        await clock.advance(60)
        assert known(informer) == {"a": 1}


async def test_our_own_write_is_known_at_once_and_a_stale_one_is_not() -> None:
    script = Script([(10, thing("a", 1))], [[("DELETED", thing("a", 20))]])
    async with watching(script) as (informer, _):
        informer.note({**thing("new", 25), "apiVersion": "x/v1", "kind": "Thing"})
        assert known(informer) == {"new": 25}
        informer.note({**thing("a", 15), "apiVersion": "x/v1", "kind": "Thing"})
        assert known(informer) == {"new": 25}, "the watch is past 15, so whatever became of it is known"
