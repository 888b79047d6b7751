"""Made-up runs of operations on both servers: same answers, same final objects, same watch events."""

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.counts import COUNTS, SEED
from tests.embedded.conftest import Both
from tests.embedded.servers import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api, differences, normal

pytestmark = [pytest.mark.testbed, pytest.mark.stress]
Json = dict[str, Any]
NAMES, KEYS, MANAGERS = ("a", "b", "c"), ("k", "l", "m"), ("one", "two")
RUN = 50


class Maker:
    """One operation after the other, from a seed; both servers are asked the very same thing."""

    def __init__(self, seed: int, space: str) -> None:
        self._random = random.Random(seed)
        self.kinds = {
            "configmap": (f"/api/v1/namespaces/{space}/configmaps", "v1", "ConfigMap", self._map),
            "deployment": (f"/apis/apps/v1/namespaces/{space}/deployments", "apps/v1", "Deployment", self._deployment),
            "service": (f"/api/v1/namespaces/{space}/services", "v1", "Service", self._service),
            "widget": (
                f"/apis/suite.example.com/v1/namespaces/{space}/widgets",
                "suite.example.com/v1",
                "Widget",
                self._widget,
            ),
        }

    def _some(self, values: Any, most: int = 3) -> list[Any]:
        return self._random.sample(values, self._random.randint(0, min(most, len(values))))

    def _map(self) -> Json:
        return {"data": {key: str(self._random.randint(0, 2)) for key in self._some(KEYS)}}

    def _widget(self) -> Json:
        spec: Json = {
            "size": self._random.choice([0, 1, 9, 10, "x"])
            if self._random.random() < 0.2
            else self._random.randint(0, 9)
        }
        if self._random.random() < 0.5:
            spec["tags"] = self._some(["a", "b", "c", "toolong"])
        if self._random.random() < 0.5:
            spec["parts"] = [
                {"name": name, **({"count": self._random.randint(0, 3)} if self._random.random() < 0.5 else {})}
                for name in self._some(NAMES)
            ]
        if self._random.random() < 0.3:
            spec[self._random.choice(["free", "unknown"])] = {"x": self._random.randint(0, 2)}
        return {"spec": spec}

    def _deployment(self) -> Json:
        env = [{"name": name, "value": str(self._random.randint(0, 2))} for name in self._some(KEYS)]
        containers = [
            {"name": name, "image": f"x:{self._random.randint(1, 2)}", "env": env}
            for name in (self._some(("c", "d")) or ["c"])
        ]
        spec: Json = {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}},
        }
        if self._random.random() < 0.5:
            spec["replicas"] = self._random.choice([0, 1, 2, -1])
        return {"spec": spec}

    def _service(self) -> Json:
        ports = [
            {"name": name, "port": self._random.choice([80, 81, 82])}
            for name in (self._some(("http", "grpc")) or ["http"])
        ]
        return {"spec": {"selector": {"app": self._random.choice("ab")}, "ports": ports}}

    def step(self) -> tuple[str, Any]:
        collection, version, kind, body = self.kinds[self._random.choice(list(self.kinds))]
        name = self._random.choice(NAMES)
        labels = {key: self._random.choice("xy") for key in self._some(KEYS, 2)}
        value = {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name, **({"labels": labels} if labels else {})},
            **body(),
        }
        verb = self._random.choices(
            ["create", "update", "merge", "strategic", "json", "apply", "delete", "get", "list"],
            [3, 2, 3, 2, 1, 5, 1, 1, 1],
        )[0]
        manager, force = self._random.choice(MANAGERS), {"force": "true"} if self._random.random() < 0.4 else {}
        path = f"{collection}/{name}"
        label = f"{verb} {kind} {name}"
        match verb:
            case "create":
                return label, lambda api: api.call("POST", collection, value)
            case "update":
                return label, lambda api: api.call("PUT", path, value)
            case "merge":
                return label, lambda api: api.call(
                    "PATCH",
                    path,
                    {key: item for key, item in value.items() if key in ("metadata", "spec", "data")},
                    MERGE,
                )
            case "strategic":
                return label, lambda api: api.call(
                    "PATCH",
                    path,
                    {key: item for key, item in value.items() if key in ("metadata", "spec", "data")},
                    STRATEGIC,
                )
            case "json":
                return label, lambda api: api.call(
                    "PATCH", path, [{"op": "add", "path": "/metadata/labels", "value": labels}], JSON_PATCH
                )
            case "apply":
                return label, lambda api: api.call("PATCH", path, value, APPLY, fieldManager=manager, **force)
            case "delete":
                return label, lambda api: api.call("DELETE", path)
            case "get":
                return label, lambda api: api.call("GET", path)
        return label, lambda api: api.call("GET", collection, labelSelector="k=x")


@pytest.mark.parametrize("number", range(max(COUNTS.generated_operations // RUN, 1)))
def test_two_servers_cannot_be_told_apart(both: Both, space: str, number: int) -> None:
    maker = Maker(SEED + number, space)
    starts = {
        kind: {
            api.name: api.call("GET", place[0]).value["metadata"]["resourceVersion"] for api in (both.ours, both.real)
        }
        for kind, place in maker.kinds.items()
    }
    told = []
    for step in range(RUN):
        label, ask = maker.step()
        told.append(label)
        both.same(f"[seed {SEED + number}, step {step}] {label}", ask)
        if both.found:
            break
    both.check()
    with ThreadPoolExecutor() as threads:  # each stream lasts a second, so they are read side by side
        asked = [
            (kind, [threads.submit(_events, api, place[0], starts[kind][api.name]) for api in (both.ours, both.real)])
            for kind, place in maker.kinds.items()
        ]
    for kind, (ours, real) in asked:
        both.found += [
            f"[seed {SEED + number}] events of {kind}{line}" for line in differences(ours.result(), real.result())
        ]
    both.check()


def _events(api: Api, path: str, version: str) -> list[Any]:
    """The types and objects of all events since then."""
    return [[event["type"], normal(event["object"])] for event in api.watch(path, seconds=2, resourceVersion=version)]
