"""kill -9 under write load: what was acknowledged is there afterwards, as it was."""

import http.client
import random
import threading
import time
from pathlib import Path

import pytest

from tests.counts import COUNTS, SEED
from tests.embedded.servers import Api, Embedded

pytestmark = pytest.mark.stress
MAPS = "/api/v1/namespaces/default/configmaps"
TROUBLE = (OSError, http.client.HTTPException, ValueError)


class Writer(threading.Thread):
    """Creates, changes and deletes until the server is gone; remembers what it was told."""

    def __init__(self, api: Api, number: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.api = api
        self.number = number
        self.random = random.Random(seed)
        self.known: dict[str, str] = {}
        self.unsure: set[str] = set()
        self.highest = 0

    def run(self) -> None:
        step = 0
        while True:
            step += 1
            name = f"w{self.number}-{self.random.randrange(20)}"
            try:
                self._write(name, f"{time.time_ns()}-{step}")
            except TROUBLE:
                self.unsure.add(name)  # it may or may not have happened
                return

    def _write(self, name: str, text: str) -> None:
        there = name in self.known
        if there and self.random.random() < 0.3:
            answer = self.api.call("DELETE", f"{MAPS}/{name}")
            if answer.status == 200:
                del self.known[name]
            return
        body = {"metadata": {"name": name}, "data": {"text": text}}
        answer = self.api.call("PUT", f"{MAPS}/{name}", body) if there else self.api.call("POST", MAPS, body)
        assert answer.status in (200, 201), answer
        self.known[name] = text
        self.highest = max(self.highest, int(answer.value["metadata"]["resourceVersion"]))


def test_no_acknowledged_write_is_lost(folder: Path) -> None:
    server = Embedded(folder)
    chance = random.Random(SEED)
    truth: dict[str, str] = {}
    for attempt in range(COUNTS.store_kills):
        writers = [Writer(server.api(), number, SEED + attempt * 10 + number) for number in range(3)]
        for writer in writers:
            writer.known = {name: text for name, text in truth.items() if name.startswith(f"w{writer.number}-")}
            writer.start()
        time.sleep(chance.uniform(0.02, 0.25))
        server.kill()
        for writer in writers:
            writer.join(10)
        server.start()
        truth = _check(server.api(), writers)
    server.stop()


def _check(api: Api, writers: list[Writer]) -> dict[str, str]:
    listed = api.call("GET", MAPS).value
    stored = {
        item["metadata"]["name"]: item["data"]["text"]
        for item in listed["items"]
        if item["metadata"]["name"].startswith("w")
    }
    for writer in writers:
        own = {name: text for name, text in stored.items() if name.startswith(f"w{writer.number}-")}
        for name, text in writer.known.items():
            if name not in writer.unsure:
                assert own.get(name) == text, f"{name} was acknowledged as {text}, found {own.get(name)}"
        assert not [name for name in own if name not in writer.known and name not in writer.unsure], (
            "a deleted object came back"
        )
        assert int(listed["metadata"]["resourceVersion"]) >= writer.highest, "versions went backwards"
    return stored


def test_a_watcher_goes_on_after_a_restart(folder: Path) -> None:
    server = Embedded(folder)
    api = server.api()
    made = api.call("POST", MAPS, {"metadata": {"name": "before"}}).value["metadata"]["resourceVersion"]
    api.call("POST", MAPS, {"metadata": {"name": "second"}})
    server.kill()
    server.start()
    api = server.api()
    names = [event["object"]["metadata"]["name"] for event in api.watch(MAPS, seconds=1, resourceVersion=made)]
    assert names == ["second"]
    later = str(int(api.call("GET", MAPS).value["metadata"]["resourceVersion"]) - 5)
    events = list(api.watch(MAPS, seconds=1, resourceVersion=later))
    assert [event["type"] for event in events] == ["ERROR"]  # a version nobody was ever given for good
    assert events[0]["object"]["code"] == 410
    server.stop()


def test_a_second_server_on_the_same_folder_is_refused(folder: Path) -> None:
    server = Embedded(folder)
    with pytest.raises(RuntimeError):
        Embedded(folder)
    assert server.api().call("GET", "/healthz").status == 200
    server.stop()
