"""People who create Widgets: N requests always under way, until told to stop.

    python -m tests.testbed.kube.admitting KUBECONFIG NAMESPACE N

A process of its own, so that a busy manager does not slow them. It stops when its standard input ends and prints a report in JSON.
"""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass, field

from serveplane.kube import Client
from serveplane.kube.config import load_config
from serveplane.kube.errors import KubeError
from serveplane.kube.http_transport import HttpTransport
from tests.testbed.kube.example import widget

PATIENCE = 90.0  # more than an API server with a long queue needs
PER_CLIENT = 250  # a client has 512 connections at most


@dataclass
class Report:
    admitted: int = 0
    most_in_flight: int = 0
    failures: list[str] = field(default_factory=list)


async def admit(clients: list[Client], namespace: str, count: int, stop: asyncio.Event) -> Report:
    """Every worker asks at least once, and once more after the end has been told."""
    report, in_flight = Report(), 0

    async def ask(n: int) -> None:
        nonlocal in_flight
        in_flight += 1
        report.most_in_flight = max(report.most_in_flight, in_flight)
        try:
            await clients[n // PER_CLIENT].create(widget(f"w{n}", namespace, size=n), dry_run=True)
            report.admitted += 1
        except KubeError as error:
            report.failures.append(f"{type(error).__name__}: {error}")
        finally:
            in_flight -= 1

    async def worker(n: int) -> None:
        while not stop.is_set():
            await ask(n)
        await ask(n)

    await asyncio.gather(*map(worker, range(count)))
    return report


async def main(kubeconfig: str, namespace: str, count: int) -> None:
    clients = [connected(kubeconfig) for _ in range(0, count, PER_CLIENT)]
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    told = loop.run_in_executor(None, sys.stdin.read)
    told.add_done_callback(lambda _: stop.set())
    try:
        print(json.dumps(asdict(await admit(clients, namespace, count, stop))))
    finally:
        await asyncio.gather(*(client.close() for client in clients))


def connected(kubeconfig: str) -> Client:
    return Client(HttpTransport(load_config(kubeconfig)), user_agent="admitting", read_timeout=PATIENCE, write_timeout=PATIENCE)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
