"""The embedded API server beside a real kube-apiserver and etcd (fsync off there), in one run, with one client.

    python bench/apiserver.py [--seconds 3] [--json FILE]

Creates, gets, lists, server-side applies and watch latency, with authentication, RBAC, admission, validation and
managedFields on both sides. Gates: creates >= 1.5x, gets >= 3x, lists >= 2x, applies >= 1x, watch p50 <= 0.75x, memory
<= half.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.processes import cpu_seconds, resident_bytes

from serveplane import http
from tests.embedded.servers import Embedded
from tests.kit.testbed import start_testbed

CLIENTS = 16
LISTED = 5_000
GATES = {
    "creates/s": (">=", 1.5),
    "gets/s": (">=", 3.0),
    "list ms": ("<=", 1 / 2),
    "applies/s (ConfigMap)": (">=", 1.0),
    "applies/s (Deployment)": (">=", 1.0),
    "watch p50 ms": ("<=", 0.75),
    "memory MB": ("<=", 0.5),
}
APPLY = "application/apply-patch+yaml"


@dataclass
class Place:
    name: str
    url: str
    token: str
    ca: str
    processes: list[int]

    @property
    def headers(self) -> list[tuple[str, str]]:
        return [
            ("Authorization", f"Bearer {self.token}"),
            ("Content-Type", "application/json"),
            ("Accept", "application/json"),
            ("User-Agent", "bench/1"),
        ]

    def cpu(self) -> float:
        return cpu_seconds(*self.processes)

    def memory(self) -> float:
        return resident_bytes(*self.processes) / 1e6


class Bench:
    def __init__(self, place: Place, seconds: float) -> None:
        self.place = place
        self.seconds = seconds
        self.client = http.Client(tls=http.ClientTls(ca=place.ca))
        self.results: dict[str, float] = {}

    async def call(self, method: str, path: str, body: Any = None, content: str = "") -> bytes:
        headers = [
            (name, content if content and name == "Content-Type" else value) for name, value in self.place.headers
        ]
        response = await self.client.request(
            method, self.place.url + path, headers=headers, body=json.dumps(body).encode() if body is not None else None
        )
        data = await response.read()
        if response.status >= 300:
            raise RuntimeError(f"{self.place.name} {method} {path}: {response.status} {data[:300]!r}")
        return data

    async def rate(self, label: str, work: Callable[[int], Awaitable[Any]]) -> None:
        """Requests per second of `CLIENTS` workers, and the server's CPU for each."""
        done, stop = 0, time.monotonic() + self.seconds

        async def worker(number: int) -> None:
            nonlocal done
            while time.monotonic() < stop:
                done += 1
                await work(done)

        cpu, start = self.place.cpu(), time.monotonic()
        await asyncio.gather(*(worker(number) for number in range(CLIENTS)))
        self.results[label] = done / (time.monotonic() - start)
        self.results[f"µs CPU per {label.split('/')[0][:-1]}{label.partition('/s')[2]}"] = (
            (self.place.cpu() - cpu) / done * 1e6
        )

    async def run(self) -> dict[str, float]:
        await self.call("POST", "/api/v1/namespaces", {"metadata": {"name": "bench"}})
        maps = "/api/v1/namespaces/bench/configmaps"
        data = {"key": "x" * 2_800}
        await self.rate(
            "creates/s",
            lambda n: self.call(
                "POST", maps, {"metadata": {"name": f"c{n}", "labels": {"app": "bench"}}, "data": data}
            ),
        )
        await self.rate("gets/s", lambda n: self.call("GET", f"{maps}/c{1 + n % 100}"))
        await self.rate(
            "applies/s (ConfigMap)",
            lambda n: self.call("PATCH", f"{maps}/a{n % 200}?fieldManager=bench&force=true", config_map(n), APPLY),
        )
        deployments = "/apis/apps/v1/namespaces/bench/deployments"
        await self.rate(
            "applies/s (Deployment)",
            lambda n: self.call(
                "PATCH", f"{deployments}/d{n % 200}?fieldManager=bench&force=true", deployment(n), APPLY
            ),
        )
        await self.lists()
        await self.watches(maps)
        self.results["memory MB"] = self.place.memory()
        await self.client.close()
        return self.results

    async def lists(self) -> None:
        await self.call("POST", "/api/v1/namespaces", {"metadata": {"name": "listed"}})
        maps = "/api/v1/namespaces/listed/configmaps"
        for start in range(0, LISTED, 100):
            await asyncio.gather(
                *(
                    self.call("POST", maps, {"metadata": {"name": f"l{n}"}, "data": {"k": "v" * 500}})
                    for n in range(start, start + 100)
                )
            )
        times = []
        for _ in range(5):
            begin = time.monotonic()
            await self.call("GET", maps)
            times.append((time.monotonic() - begin) * 1e3)
        self.results["list ms"] = statistics.median(times)

    async def watches(self, maps: str) -> None:
        """From sending an update to seeing its event, one at a time."""
        version = json.loads(await self.call("GET", f"{maps}?limit=1"))["metadata"]["resourceVersion"]
        watching = http.Client(tls=http.ClientTls(ca=self.place.ca), timeouts=http.Timeouts(10, None, None))
        response = await watching.request(
            "GET", f"{self.place.url}{maps}?watch=true&resourceVersion={version}", headers=self.place.headers
        )
        stream, times = response.stream(), []
        for number in range(200):
            begin = time.monotonic()
            sent = asyncio.create_task(
                self.call("PATCH", f"{maps}/c1", {"data": {"n": str(number)}}, "application/merge-patch+json")
            )
            while b'"n":"%d"' % number not in await anext(stream):
                pass
            times.append((time.monotonic() - begin) * 1e3)
            await sent
        self.results["watch p50 ms"] = statistics.median(times)
        await response.close()
        await watching.close()


def config_map(number: int) -> dict[str, Any]:
    data = {f"k{index}": "v" * 140 for index in range(20)} | {"n": str(number)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"a{number % 200}", "labels": {"app": "bench"}},
        "data": data,
    }


def deployment(number: int) -> dict[str, Any]:
    env = [{"name": f"E{index}", "value": "v" * 30} for index in range(20)]
    container = {
        "name": "c",
        "image": f"x:{number}",
        "env": env,
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"d{number % 200}", "labels": {"app": "bench"}},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "replicas": 1,
            "template": {
                "metadata": {"labels": {"app": "a"}, "annotations": {"n": str(number)}},
                "spec": {"containers": [container] * 1},
            },
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only-ours", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Embedded(Path(folder))
        api = server.api()
        ours = http.run(
            Bench(Place("embedded", api.url, api.token, api.ca, [server.process.pid]), options.seconds).run()
        )
        server.stop()
    real: dict[str, float] = {}
    if not options.only_ours:
        bed = start_testbed()
        bed.stop_program("kube-controller-manager")
        processes = [process.pid for name, process in bed.processes.items() if name != "kube-controller-manager"]
        real = http.run(
            Bench(Place("kube-apiserver", bed.url, bed.token, str(bed.ca), processes), options.seconds).run()
        )
        bed.stop()
    failed = report(ours, real)
    if options.json:
        options.json.write_text(json.dumps({"embedded": ours, "kube-apiserver + etcd": real}, indent=1))
    return 1 if failed else 0


def report(ours: dict[str, float], real: dict[str, float]) -> int:
    failed = 0
    print(f"{'':34}{'embedded':>12}{'real':>12}{'ratio':>9}  gate")
    for name, value in ours.items():
        other = real.get(name, float("nan"))
        ratio = value / other
        gate = GATES.get(name)
        held = (
            ""
            if gate is None or other != other
            else ("ok" if (ratio >= gate[1] if gate[0] == ">=" else ratio <= gate[1]) else "FAILED")
        )
        failed += held == "FAILED"
        print(f"{name:34}{value:12.1f}{other:12.1f}{ratio:9.2f}  {f'{gate[0]} {gate[1]:.2f} {held}' if gate else ''}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
