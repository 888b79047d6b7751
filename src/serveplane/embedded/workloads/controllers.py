"""All workload controllers, run together over one set of caches."""
import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from serveplane.clock import Clock
from serveplane.embedded.workloads.accounts import Accounts
from serveplane.embedded.workloads.claims import Claims
from serveplane.embedded.workloads.cluster import MANAGER, Cluster
from serveplane.embedded.workloads.daemonset import DaemonSets
from serveplane.embedded.workloads.deployment import Deployments
from serveplane.embedded.workloads.endpoints import EndpointSlices
from serveplane.embedded.workloads.job import Jobs
from serveplane.embedded.workloads.replicaset import ReplicaSets
from serveplane.embedded.workloads.scheduler import Scheduler
from serveplane.embedded.workloads.statefulset import StatefulSets
from serveplane.kube.client import Client
from serveplane.kube.controller import Controller
from serveplane.kube.events import Recorder
from serveplane.kube.informers import Informers


class _Maker(Protocol):
    def controller(self) -> Controller: ...


async def run_controllers(client: Client, clock: Clock, ca: bytes, ready: Callable[[], None] = lambda: None) -> None:
    """Run until cancelled."""
    recorder = Recorder(client, MANAGER, clock)
    cluster = Cluster(client, Informers(client, clock), clock, recorder.event)
    controllers = [maker.controller() for maker in makers(cluster, ca)]
    for controller in controllers:
        controller.attach(cluster.informers)
    async with asyncio.TaskGroup() as group:
        group.create_task(recorder.run(), name="events")
        cluster.informers.start(group)
        await cluster.informers.synced()
        for controller in controllers:
            group.create_task(controller.run(), name=controller.name)
        ready()


def makers(cluster: Cluster, ca: bytes) -> Sequence[_Maker]:
    return [Accounts(cluster, ca), Scheduler(cluster), Deployments(cluster), ReplicaSets(cluster),
            EndpointSlices(cluster), Claims(cluster), Jobs(cluster), StatefulSets(cluster), DaemonSets(cluster)]
