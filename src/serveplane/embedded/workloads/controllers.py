"""All workload controllers, run together over one set of caches."""
import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from serveplane.clock import Clock
from serveplane.embedded.workloads.accounts import Accounts
from serveplane.embedded.workloads.autoscaler import Autoscalers, UsageOf
from serveplane.embedded.workloads.autoscaling import PodUsage
from serveplane.embedded.workloads.claims import Claims
from serveplane.embedded.workloads.cluster import MANAGER, NODE, Cluster
from serveplane.embedded.workloads.cronjob import CronJobs
from serveplane.embedded.workloads.daemonset import DaemonSets
from serveplane.embedded.workloads.deployment import Deployments
from serveplane.embedded.workloads.disruption import Budgets
from serveplane.embedded.workloads.endpoints import EndpointSlices
from serveplane.embedded.workloads.job import Jobs
from serveplane.embedded.workloads.replicaset import ReplicaSets
from serveplane.embedded.workloads.scheduler import Scheduler
from serveplane.embedded.workloads.statefulset import StatefulSets
from serveplane.embedded.workloads.usage import NodeUsage
from serveplane.http import Client as HttpClient
from serveplane.kube.client import Client
from serveplane.kube.controller import Controller
from serveplane.kube.events import Recorder
from serveplane.kube.informers import Informers


class _Maker(Protocol):
    def controller(self) -> Controller: ...


async def run_controllers(client: Client, clock: Clock, ca: bytes, ready: Callable[[], None] = lambda: None,
                          to_nodes: HttpClient | None = None) -> None:
    """Run until cancelled. `to_nodes` reaches the nodes for what pods use; without it autoscalers keep to their limits."""
    recorder = Recorder(client, MANAGER, clock)
    cluster = Cluster(client, Informers(client, clock), clock, recorder.event)
    usage = NodeUsage(cluster.informer(NODE), to_nodes, clock) if to_nodes else _no_usage
    controllers = [maker.controller() for maker in makers(cluster, ca, usage)]
    for controller in controllers:
        controller.attach(cluster.informers)
    async with asyncio.TaskGroup() as group:
        group.create_task(recorder.run(), name="events")
        cluster.informers.start(group)
        await cluster.informers.synced()
        for controller in controllers:
            group.create_task(controller.run(), name=controller.name)
        ready()


async def _no_usage(namespace: str) -> PodUsage:
    return {}


def makers(cluster: Cluster, ca: bytes, usage: UsageOf = _no_usage) -> Sequence[_Maker]:
    return [Accounts(cluster, ca), Scheduler(cluster), Deployments(cluster), ReplicaSets(cluster),
            EndpointSlices(cluster), Claims(cluster), Jobs(cluster), CronJobs(cluster), StatefulSets(cluster), DaemonSets(cluster),
            Autoscalers(cluster, usage), Budgets(cluster)]
