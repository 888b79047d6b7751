"""Puts the manifests into a cluster the way `kubectl apply --server-side` would, and waits until the programs run."""
import asyncio
from collections.abc import Iterable, Sequence

from serveplane.clock import Clock
from serveplane.kube.client import Client
from serveplane.kube.errors import ApiError, ConnectionFailed, KubeError, NoSuchKind, NotFound
from serveplane.kube.kind import Kind, kind_of
from serveplane.objects import Json
from serveplane.objects.conditions import condition, is_true

DEPLOYMENT, POD = Kind("apps/v1", "Deployment"), Kind("v1", "Pod")
MANAGER = "serveplane-up"
AT_ONCE = 8
PAUSE = 0.05


async def apply_all(client: Client, objects: Iterable[Json], clock: Clock, patience: float = 30.0) -> None:
    """Apply in the order given; the members of one kind go together. What depends on a kind that is just being served
    is tried again for a while."""
    deadline = clock.monotonic() + patience
    for batch in _batches(objects):
        limit = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(_apply(client, obj, clock, deadline, limit) for obj in batch))


async def _apply(client: Client, obj: Json, clock: Clock, deadline: float, limit: asyncio.Semaphore) -> None:
    async with limit:
        while True:
            try:
                await client.apply(obj, MANAGER)
                return
            except (NoSuchKind, NotFound, ConnectionFailed):
                if clock.monotonic() > deadline:
                    raise
            except ApiError as problem:
                if problem.code < 500 or clock.monotonic() > deadline:
                    raise
            await clock.sleep(PAUSE)


def _batches(objects: Iterable[Json]) -> list[list[Json]]:
    batches: list[list[Json]] = []
    for obj in objects:
        if batches and kind_of(batches[-1][0]) == kind_of(obj):
            batches[-1].append(obj)
        else:
            batches.append([obj])
    return batches


async def available(client: Client, deployments: Sequence[Json], clock: Clock, patience: float = 120.0) -> None:
    """Wait until every Deployment is available; if one is not, say what its pod says."""
    deadline = clock.monotonic() + patience
    for one in deployments:
        name, namespace = one["metadata"]["name"], one["metadata"]["namespace"]
        while not await _is_available(client, name, namespace):
            if clock.monotonic() > deadline:
                raise TimeoutError(f"{namespace}/{name} is not ready after {patience:.0f} s: "
                                   f"{await why_not(client, one)}")
            await clock.sleep(PAUSE)


async def _is_available(client: Client, name: str, namespace: str) -> bool:
    live = await client.get(DEPLOYMENT, name, namespace)
    status = live.get("status") or {}
    return (status.get("observedGeneration") == live["metadata"].get("generation")
            and is_true(status.get("conditions"), "Available"))


async def why_not(client: Client, deployment: Json) -> str:
    """The first thing that a pod of the Deployment complains of."""
    labels = ",".join(f"{name}={value}" for name, value in deployment["spec"]["selector"]["matchLabels"].items())
    try:
        pods = await client.list(POD, deployment["metadata"]["namespace"], labels=labels)
    except KubeError as problem:
        return str(problem)
    for pod in pods:
        scheduled = condition((pod.get("status") or {}).get("conditions"), "PodScheduled")
        if scheduled and scheduled.get("status") == "False":
            return str(scheduled.get("message"))
        for entry in (pod.get("status") or {}).get("containerStatuses") or ():
            waiting, last = (entry.get("state") or {}).get("waiting"), (entry.get("lastState") or {}).get("terminated")
            if last:
                return f"container {entry['name']} ended with {last['exitCode']} ({last.get('reason')}); " \
                       f"see `serveplane logs {pod['metadata']['name']} -n {pod['metadata']['namespace']}`"
            if waiting and waiting.get("message"):
                return str(waiting["message"])
    return "no pod is ready" if pods else "no pod was made"
