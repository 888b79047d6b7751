"""Events: written in the background, the same one counted, many alike told as one, each object within its budget."""

import asyncio
from typing import Any

from serveplane.kube.events import BURST, SIMILAR, Recorder
from tests.unit.kube.clocks import FakeClock, settle
from tests.unit.kube.fake_server import FakeServer

ABOUT = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a", "namespace": "ns", "uid": "u"}}


async def recorded(say: Any) -> list[dict[str, Any]]:
    server, clock = FakeServer(), FakeClock()
    recorder = Recorder(server.client(clock), "tests", clock)
    task = asyncio.create_task(recorder.run())
    say(recorder)
    for _ in range(40):
        await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return list(server.objects.values())


async def test_the_same_event_is_counted() -> None:
    events = await recorded(lambda recorder: [recorder.event(ABOUT, "Warning", "Failed", "no luck") for _ in range(5)])
    assert [(event["message"], event["count"], event["involvedObject"]["uid"]) for event in events] == [
        ("no luck", 5, "u")
    ]


async def test_many_alike_become_one() -> None:
    events = await recorded(
        lambda recorder: [recorder.event(ABOUT, "Warning", "Failed", f"attempt {n}") for n in range(SIMILAR + 8)]
    )
    assert len(events) == SIMILAR + 1
    assert max(events, key=lambda event: event["count"])["message"].startswith("(combined from similar events)")


async def test_an_object_has_a_budget() -> None:
    events = await recorded(lambda recorder: [recorder.event(ABOUT, "Normal", f"Reason{n}", "m") for n in range(100)])
    assert len(events) == BURST


async def test_a_long_message_is_cut() -> None:
    events = await recorded(lambda recorder: recorder.event(ABOUT, "Normal", "Reason", "m" * 5000))
    assert len(events[0]["message"]) == 1024
