"""Retries, deadlines and errors, by a fake clock and a server that does as it is told."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping

import msgspec
import pytest

from serveplane.kube import Client, Kind
from serveplane.kube.errors import (
    AlreadyExists,
    ConnectionFailed,
    DeadlineExceeded,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    LeaseLost,
    NoSuchKind,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    Unreachable,
    error_from_reply,
    one_line,
)
from serveplane.kube.transport import Call, InProcessTransport, Reply
from serveplane.kube.wire import lines, parse_event
from tests.unit.kube.clocks import FakeClock
from tests.unit.kube.fake_server import FakeServer

CONFIG_MAP = Kind("v1", "ConfigMap")
A = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}}


async def driven(clock: FakeClock, work):  # type: ignore[no-untyped-def]
    """Run something to its end while time passes."""
    task = asyncio.ensure_future(work)
    for _ in range(200):
        if task.done():
            break
        await clock.advance(0.5)
    return await task


async def test_reads_are_retried_and_bounded() -> None:
    server, clock = FakeServer(), FakeClock()
    client = server.client(clock)
    await client.create(A)
    server.fail, server.requests = [500, 503, 429], []
    assert (await driven(clock, client.get(CONFIG_MAP, "a", "ns")))["metadata"]["name"] == "a"
    assert len(server.requests) == 4
    server.fail, server.requests = [500] * 50, []
    with pytest.raises(InternalError):
        await driven(clock, client.get(CONFIG_MAP, "a", "ns"))
    assert len(server.requests) == 5


async def test_a_create_is_repeated_only_if_the_server_did_nothing() -> None:
    server, clock = FakeServer(), FakeClock()
    client = server.client(clock)
    server.fail = [500]
    with pytest.raises(InternalError):
        await driven(clock, client.create(A))
    server.fail = [429]
    assert (await driven(clock, client.create(A)))["metadata"]["name"] == "a"
    with pytest.raises(AlreadyExists):
        await driven(clock, client.create(A))


async def test_retry_after_is_honoured_within_the_deadline() -> None:
    asked: list[float] = []
    clock = FakeClock()

    async def busy(
        method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        asked.append(clock.time)
        return 429, {"Retry-After": "3"}, b"slow down"

    client = Client(InProcessTransport(busy), clock, read_timeout=10)
    with pytest.raises(TooManyRequests):
        await driven(clock, client.document("/version"))
    assert [round(later - earlier) for earlier, later in itertools.pairwise(asked)] == [3, 3, 3]


async def test_every_request_has_a_deadline() -> None:
    class Silent:
        host = "silent"

        async def send(self, call: Call) -> Reply:
            await asyncio.Event().wait()
            raise AssertionError

        async def close(self) -> None: ...

    client = Client(Silent(), FakeClock(), read_timeout=0.05)
    with pytest.raises(DeadlineExceeded, match="no answer within"):
        await client.document("/version")


async def test_writes_ask_the_guard_at_the_moment_of_sending_and_reads_do_not() -> None:
    server, clock = FakeServer(), FakeClock()

    def guard() -> None:
        raise LeaseLost("not ours")

    client = server.client(clock, guard=guard)
    with pytest.raises(LeaseLost):
        await client.create(A)
    assert server.requests == []
    assert await client.find(CONFIG_MAP, "a", "ns") is None


async def test_a_missing_kind_is_asked_for_again_after_a_while() -> None:
    server, clock = FakeServer(), FakeClock()
    asked = 0

    async def answer(
        method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        nonlocal asked
        asked += 1
        there = [{"name": "things", "kind": "Thing", "namespaced": True}] if clock.time > 20 else []
        return 200, {}, msgspec.json.encode({"resources": there})

    client = Client(InProcessTransport(answer), clock)
    for _ in range(5):
        with pytest.raises(NoSuchKind):
            await client.discovery.resource(Kind("x/v1", "Thing"))
    assert asked == 1
    client.discovery.forget("x/v1")  # by someone who waits for it with pauses of his own, and has just paused
    with pytest.raises(NoSuchKind):
        await client.discovery.resource(Kind("x/v1", "Thing"))
    assert asked == 2
    clock.time = 30
    assert (await client.discovery.resource(Kind("x/v1", "Thing"))).plural == "things"
    assert server.requests == []


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (404, {"kind": "Status", "reason": "NotFound", "message": "no"}, NotFound),
        (409, {"kind": "Status", "reason": "AlreadyExists", "code": 409}, AlreadyExists),
        (410, {"kind": "Status", "reason": "Expired"}, Gone),
        (422, {"kind": "Status", "details": {"causes": [{"field": "spec.x", "message": "bad"}]}}, Invalid),
        (403, {"kind": "Status", "message": 'User "x" cannot get pods'}, Forbidden),
        (503, "<html>gateway\n error</html>", ServiceUnavailable),
        (500, "", InternalError),
    ],
)
def test_answers_become_errors_of_one_line(code: int, body: object, kind: type) -> None:
    error = error_from_reply(code, body.encode() if isinstance(body, str) else msgspec.json.encode(body))
    assert type(error) is kind
    assert "\n" not in one_line(error)
    assert error.code == code


def test_unreachable_says_that_nothing_was_sent() -> None:
    assert issubclass(Unreachable, ConnectionFailed)


async def test_lines_survive_any_chunking() -> None:
    async def chunks(size: int) -> AsyncIterator[bytes]:
        text = b'{"type":"ADDED","object":{"a":1}}\n\n{"type":"DELETED","object":{"a":"\xc3\xa9"}}\n{"type":"MODI'
        for start in range(0, len(text), size):
            yield text[start : start + size]

    for size in (1, 2, 7, 1000):
        found = [parse_event(line) async for line in lines(chunks(size))]
        assert [event.type for event in found] == ["ADDED", "DELETED"], "half a line at the end is no event"
