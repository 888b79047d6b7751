"""One pod: its folders, its init containers in order, its sidecars, its containers, its end.

`run` is the pod's whole life and ends when the pod is over; `stop` asks it to end. The status is written by the
node's agent, which is told of every change.
"""
import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace

from serveplane.clock import parse_timestamp, timestamp, wait_until
from serveplane.embedded.node.addresses import LOOPBACK, PodAddress, containers_of, declared_ports, moved_ports
from serveplane.embedded.node.containers import Container, Policy, Status
from serveplane.embedded.node.context import NodeContext
from serveplane.embedded.node.environment import MissingReference
from serveplane.embedded.node.status import Facts, is_sidecar, pod_status
from serveplane.embedded.node.volumes import MountFailed
from serveplane.embedded.node.workshop import PodWorkshop
from serveplane.kube.errors import KubeError
from serveplane.objects import Json

MOUNT_RETRY = 1.0
UNKNOWN = "ContainerStatusUnknown"

log = logging.getLogger(__name__)


class Pod:
    """A pod of this node while it lives."""

    def __init__(self, pod: Json, context: NodeContext, changed: Callable[[], None]) -> None:
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.address = _address(pod, context)
        self.over = asyncio.Event()
        self._context = context
        self._changed = changed
        self._started = (pod.get("status") or {}).get("startTime") or timestamp(context.clock.now())
        self._failure: tuple[str, str] | None = None
        self._stop = asyncio.Event()
        self._workshop = PodWorkshop(self._with_address(pod), context, self.address)
        self.init = [self._container(spec, "PodInitializing") for spec in pod["spec"].get("initContainers") or ()]
        waiting = "PodInitializing" if self.init else "ContainerCreating"
        self.main = [self._container(spec, waiting) for spec in pod["spec"].get("containers") or ()]
        self._take_up(pod)

    @property
    def containers(self) -> list[Container]:
        return [*self.init, *self.main]

    def container(self, name: str) -> Container | None:
        return next((container for container in self.containers if container.name == name), None)

    def status(self, current: Json) -> Json:
        """What the API should show now; `current` is the pod as last seen there."""
        return pod_status(Facts(
            current, {c.name: c.status for c in self.init}, {c.name: c.status for c in self.main},
            self._context.host, self.address.host, self._started, timestamp(self._context.clock.now()), self._failure))

    async def run(self) -> None:
        try:
            if self._failure is None:
                await self._live()
        finally:
            self._context.references.release(self._workshop)
            self.over.set()
            self._changed()

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as group:
            await self._made_volumes()
            fresh = group.create_task(self._workshop.keep_fresh(), name="volumes")
            deadline = group.create_task(self._deadline(), name="deadline")
            sidecars = await self._initialise(group)
            if self._may_go_on():
                await self._all(self.main, group)
            for container in reversed(sidecars):
                await container.stop(self.grace)
            fresh.cancel()
            deadline.cancel()

    async def stop(self, grace: float) -> None:
        """End every container, the sidecars last."""
        self._stop.set()
        ordinary = [c for c in self.containers if not is_sidecar(c.spec) or c in self.main]
        await asyncio.gather(*(container.stop(grace) for container in ordinary))
        for container in reversed([c for c in self.init if is_sidecar(c.spec)]):
            await container.stop(grace)

    def update(self, pod: Json) -> None:
        """Labels and annotations may change while a pod lives; the downward API shows them."""
        self._workshop.pod = self._with_address(pod)

    def clean_up(self) -> None:
        """Remove the pod's folders: called when the pod is gone from the API."""
        shutil.rmtree(self._context.pod_folder(self.uid), ignore_errors=True)
        shutil.rmtree(self._context.log_folder(self.pod), ignore_errors=True)
        if self._context.addresses:
            self._context.addresses.give_back(self.uid)

    @property
    def grace(self) -> float:
        seconds = self.pod["spec"].get("terminationGracePeriodSeconds")
        return float(30 if seconds is None else seconds)

    # ---- the stages

    async def _made_volumes(self) -> None:
        while not self._stop.is_set():
            try:
                await self._workshop.make_volumes()
                return
            except (KubeError, MissingReference, MountFailed, OSError) as problem:
                self._context.record(self.pod, "Warning", "FailedMount", f"MountVolume.SetUp failed: {problem}")
                self._tell_waiting(str(problem))
            await wait_until(self._stop, MOUNT_RETRY)

    def _tell_waiting(self, message: str) -> None:
        for container in self.containers:
            if "waiting" in container.status.state:
                state = {"waiting": {"reason": "ContainerCreating", "message": message}}
                container.status = replace(container.status, state=state)
        self._changed()

    async def _initialise(self, group: asyncio.TaskGroup) -> list[Container]:
        """Init containers one after the other; a sidecar is passed as soon as it has started."""
        sidecars: list[Container] = []
        for container in self.init:
            if self._stop.is_set():
                break
            task = group.create_task(container.run(), name=container.name)
            if is_sidecar(container.spec):
                sidecars.append(container)
                await _either(container.has_started, container.done)
            else:
                await task
                if container.status.exit_code != 0:
                    break
        return sidecars

    def _may_go_on(self) -> bool:
        ordinary = [container for container in self.init if not is_sidecar(container.spec)]
        return not self._stop.is_set() and all(container.status.exit_code == 0 for container in ordinary)

    async def _all(self, containers: list[Container], group: asyncio.TaskGroup) -> None:
        tasks = [group.create_task(container.run(), name=container.name) for container in containers]
        await asyncio.gather(*tasks)

    async def _deadline(self) -> None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds:
            passed = self._context.clock.now() - parse_timestamp(self._started)   # the node may have been started again since
            await self._context.clock.sleep(max(seconds - passed.total_seconds(), 0.0))
            self._failure = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
            await self.stop(self.grace)

    # ---- making

    def _container(self, spec: Json, waiting: str) -> Container:
        policy: Policy = "Always" if is_sidecar(spec) else self.pod["spec"].get("restartPolicy", "Always")
        in_init = spec in (self.pod["spec"].get("initContainers") or ())
        if in_init and policy == "Always" and not is_sidecar(spec):
            policy = "OnFailure"   # an init container of an ordinary pod is repeated until it succeeds
        container = Container(spec, policy, self._workshop, self._context.clock, self._changed, waiting)
        self._workshop.executes[container.name] = container.execute
        return container

    def _with_address(self, pod: Json) -> Json:
        status = {**(pod.get("status") or {}), "podIP": self.address.host, "podIPs": [{"ip": self.address.host}],
                  "hostIP": self._context.host, "hostIPs": [{"ip": self._context.host}]}
        return {**pod, "status": status}

    def _take_up(self, pod: Json) -> None:
        """A pod that ran before this node was restarted: its processes are gone, and the count goes on."""
        before = pod.get("status") or {}
        entries = [*(before.get("containerStatuses") or ()), *(before.get("initContainerStatuses") or ())]
        known = {entry["name"]: entry for entry in entries}
        for container in self.containers:
            entry = known.get(container.name)
            if entry is None:
                continue
            restarts, last = entry.get("restartCount") or 0, entry.get("lastState") or {}
            if "running" in (entry.get("state") or {}):
                restarts, last = restarts + 1, {"terminated": _lost(entry, timestamp(self._context.clock.now()))}
            container.status = Status(container.status.state, last, restarts)
            if container.policy == "Never" and "terminated" in last and last["terminated"].get("reason") == UNKNOWN:
                self._failure = (UNKNOWN, "the node was restarted while this pod was running")


def _lost(entry: Json, now: str) -> Json:
    return {"exitCode": 137, "reason": UNKNOWN, "startedAt": entry["state"]["running"].get("startedAt"),
            "finishedAt": now, "message": "the node was restarted and the process is gone"}


def _address(pod: Json, context: NodeContext) -> PodAddress:
    """An address of its own where possible; foreign programs share 127.0.0.1 and get ports that are free."""
    spec = pod["spec"]
    if spec.get("hostNetwork"):
        return PodAddress(context.host)
    images = context.images()
    found = [images.find(container.get("image", "")) for container in containers_of(spec)]
    foreign = any(image is None or image.foreign for image in found)   # an image not known yet may turn out so
    ports = declared_ports(spec)
    if context.addresses is None or foreign:
        return PodAddress(LOOPBACK, moved_ports(LOOPBACK, ports, always=True))
    host = context.addresses.take(pod["metadata"]["uid"])
    return PodAddress(host, moved_ports(host, ports, always=False))


async def _either(*events: asyncio.Event) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
