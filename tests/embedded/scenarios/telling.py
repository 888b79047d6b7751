"""What stories are made of, and the list of them all."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

from tests.embedded.servers import Api

Seen = list[Any]
Scenario = Callable[[Api, str], Seen]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


def config_maps(space: str) -> str:
    return f"/api/v1/namespaces/{space}/configmaps"


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {"a": "1"}}


def widget(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "suite.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }


def names_of(value: Any) -> list[str]:
    return [item["metadata"]["name"] for item in value["items"]]


class Watcher:
    """Collects events in the background until told to stop."""

    def __init__(self, api: Api, path: str, **query: str) -> None:
        self.events: list[Any] = []
        self._stream: Iterator[Any] = api.watch(path, seconds=20, **query)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for event in self._stream:
            self.events.append(event)
            if event["type"] == "ERROR" or event["object"].get("metadata", {}).get("name") == "the-end":
                return

    def until_end(self) -> list[Any]:
        """Everything up to the object named the-end."""
        self._thread.join(20)
        return [
            [
                event["type"],
                event["object"].get("metadata", {}).get("name"),
                (event["object"].get("data") or event["object"].get("spec")),
            ]
            for event in self.events
        ]
