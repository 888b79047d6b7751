"""The node's loop: the pods that the API gives to this node on one side, their processes on the other.

One task per pod. It starts the pod, writes its status whenever that changes, and when the pod is to go it stops the
processes first and only then lets the API forget it, as kubelets do.
"""
import asyncio
import contextlib
import logging
from collections.abc import Mapping
from functools import partial

from serveplane.embedded.node.addresses import PORTS_ANNOTATION
from serveplane.embedded.node.containers import Container
from serveplane.embedded.node.context import NodeContext
from serveplane.embedded.node.figures import Figures, Session, sessions
from serveplane.embedded.node.pods import Pod
from serveplane.kube.client import PatchType
from serveplane.kube.errors import Conflict, KubeError, NotFound
from serveplane.kube.informers import Informers
from serveplane.kube.kind import Key, Kind, is_being_deleted, uid_of
from serveplane.objects import Json, quantity

POD = Kind("v1", "Pod")
RETRY = 1.0
MEMORY_CHECK = 1.0          # seconds
CHECKS_PER_MEASURE = 5
FAREWELL = 0.5     # between a pod's deletion and the signal to its processes
LAST_GRACE = 5.0   # how long pods may take when the whole node goes

log = logging.getLogger(__name__)


class Agent:
    """Runs the pods of one node."""

    def __init__(self, context: NodeContext) -> None:
        self.context = context
        self.pods: dict[Key, Pod] = {}
        self.figures: dict[str, dict[str, Figures]] = {}   # by pod uid and container
        self.rates: dict[str, dict[str, float]] = {}       # processors in use between the last two looks, likewise
        self._measured_at = 0.0
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._news: dict[Key, asyncio.Event] = {}
        self._informers = Informers(context.client, context.clock)
        self._informer = self._informers.informer(POD, fields=f"spec.nodeName={context.name}")
        self._group: asyncio.TaskGroup | None = None
        self._leaving = False

    async def run(self) -> None:
        """Until cancelled; then every process is stopped."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._informer.listen(lambda change: self._heard(change.item.key))
                self._informers.start(group)
                try:
                    await self._measure()
                finally:   # while the tasks of the pods still run: they see to it that each ends as it should
                    await self._leave()
        finally:
            await self.context.references.close()

    async def _leave(self) -> None:
        self._leaving = True
        log.info("stopping %d pods", len(self.pods))
        await asyncio.gather(*(pod.stop(min(pod.grace, LAST_GRACE)) for pod in self.pods.values()),
                             return_exceptions=True)
        log.info("all pods have stopped")

    # ---- one task per pod

    def _heard(self, key: Key) -> None:
        if self._leaving or self._group is None:
            return
        news = self._news.setdefault(key, asyncio.Event())
        news.set()
        if key not in self._tasks:
            self._tasks[key] = self._group.create_task(self._look_after(key, news), name=f"pod {key}")

    async def _look_after(self, key: Key, news: asyncio.Event) -> None:
        """All pods of this name, one after the other (a StatefulSet brings the same name back)."""
        try:
            while (pod := self._informer.get(*key)) is not None:
                news.clear()
                await self._safely(key, pod, news)
                if self._informer.get(*key) is not None:
                    await news.wait()
        finally:   # nothing is awaited between the last look and here, so no news can be missed
            self._tasks.pop(key, None)
            self._news.pop(key, None)

    async def _safely(self, key: Key, pod: Json, news: asyncio.Event) -> None:
        try:
            if is_being_deleted(pod):
                await self._forget(pod)
            elif (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                await self._live(key, pod, news)
            else:
                await self._until_deleted(key, uid_of(pod), news)
        except KubeError as problem:
            log.warning("pod %s: %s", key, problem)
            await self.context.clock.sleep(RETRY)
            news.set()
        except Exception:
            log.exception("pod %s", key)
            self._record_failure(pod)
            await self.context.clock.sleep(RETRY)
            news.set()

    async def _live(self, key: Key, given: Json, news: asyncio.Event) -> None:
        changed = asyncio.Event()
        pod = self.pods[key] = Pod(given, self.context, changed.set)
        living: asyncio.Task[None] | None = None
        try:
            await self._announce(pod, given)
            living = asyncio.create_task(pod.run(), name=f"containers of {key}")
            writing = asyncio.create_task(self._write_status(key, pod, changed), name=f"status of {key}")
            for task in (living, writing):
                task.add_done_callback(partial(self._tell_if_failed, given))
            try:
                await self._until_deleted(key, pod.uid, news, pod)
                await self._end(key, pod, living)
            finally:
                await _cancelled(writing)
        finally:
            if living is not None:
                await _cancelled(living)
            self.pods.pop(key, None)
            self.figures.pop(pod.uid, None)
            self.rates.pop(pod.uid, None)
        await self._forget_ended(key, pod)

    def _tell_if_failed(self, pod: Json, task: asyncio.Task[None]) -> None:
        """Neither task is waited for before the pod is to go, so nobody else would hear of it."""
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("%s", task.get_name(), exc_info=problem)
            self._record_failure(pod)

    def _record_failure(self, pod: Json) -> None:
        self.context.record(pod, "Warning", "FailedToRun", "the node could not run this pod; its log says why")

    async def _until_deleted(self, key: Key, uid: str, news: asyncio.Event, pod: Pod | None = None) -> None:
        while True:
            current = self._informer.get(*key)
            if current is None or uid_of(current) != uid or is_being_deleted(current):
                return
            if pod is not None:
                pod.update(current)
            await news.wait()
            news.clear()

    async def _end(self, key: Key, pod: Pod, living: asyncio.Task[None]) -> None:
        current = self._informer.get(*key)
        grace = pod.grace if current is None else (current["metadata"].get("deletionGracePeriodSeconds") or 0.05)
        self.context.record(pod.pod, "Normal", "Killing", "Stopping all containers of the pod")
        if grace > 1 and any(container.status.ready for container in pod.main):
            # Routes learn of a pod's end at the same time as we do; whoever was just sent here is still served
            await self.context.clock.sleep(FAREWELL)
        await pod.stop(float(grace))
        with contextlib.suppress(Exception):   # what went wrong while it lived has been told
            await living

    async def _forget_ended(self, key: Key, pod: Pod) -> None:
        current = self._informer.get(*key)
        if current is not None and uid_of(current) == pod.uid:
            await self._forget(current)
        pod.clean_up()

    async def _forget(self, pod: Json) -> None:
        """Tell the API that nothing of the pod runs any more; only then it may go."""
        metadata = pod["metadata"]
        with contextlib.suppress(NotFound, Conflict):
            await self.context.client.delete(POD, metadata["name"], metadata["namespace"], uid=metadata["uid"],
                                             grace_seconds=0)

    # ---- status

    async def _announce(self, pod: Pod, given: Json) -> None:
        """Ports that were moved are said before the pod has an address, so nobody is sent to the wrong one."""
        before = (given["metadata"].get("annotations") or {}).get(PORTS_ANNOTATION)
        wanted = pod.address.annotation if pod.address.moved else None
        if before != wanted:
            body = {"metadata": {"uid": pod.uid, "annotations": {PORTS_ANNOTATION: wanted}}}
            await self.context.client.patch(POD, given["metadata"]["name"], given["metadata"]["namespace"], body)

    async def _write_status(self, key: Key, pod: Pod, changed: asyncio.Event) -> None:
        written: Json | None = None
        while True:
            changed.clear()
            current = self._informer.get(*key)
            status = pod.status(pod.pod if current is None or uid_of(current) != pod.uid else current)
            if status != written:
                try:
                    await self._patch_status(key, pod, status)
                    written = status
                except NotFound:
                    return
                except KubeError as problem:
                    log.info("status of pod %s: %s", key, problem)
                    await self.context.clock.sleep(RETRY)
                    continue
            await changed.wait()

    async def _patch_status(self, key: Key, pod: Pod, status: Json) -> None:
        # A merge leaves what it does not mention, so a reason that no longer holds is taken away by name.
        conditions = [{"reason": None, "message": None, **entry} for entry in status["conditions"]]
        body = {"metadata": {"uid": pod.uid}, "status": {**status, "conditions": conditions}}
        await self.context.client.patch(POD, key.name, key.namespace, body, patch_type=PatchType.STRATEGIC,
                                        subresource="status", field_manager="serveplane-node")

    # ---- figures

    async def _measure(self) -> None:
        """What each container uses, seldom; whether one is over its memory limit, often: it is ended as the kernel would."""
        known: dict[int, Session] = {}
        turn = 0
        while True:
            await self.context.clock.sleep(MEMORY_CHECK)
            turn += 1
            if turn % CHECKS_PER_MEASURE == 0:
                known = sessions() if self.pods else {}
                self._take_figures(known)
            for pod in list(self.pods.values()):
                for container in pod.containers:
                    if container.process and _is_too_large(container, known):
                        container.kill_for_memory()

    def _take_figures(self, known: dict[int, Session]) -> None:
        now = self.context.clock.monotonic()
        since, self._measured_at = now - self._measured_at, now
        for pod in list(self.pods.values()):
            before = self.figures.get(pod.uid, {})
            used = {c.name: known[c.process.pid].figures for c in pod.containers if c.process and c.process.pid in known}
            self.figures[pod.uid] = used
            self.rates[pod.uid] = {name: max(figures.cpu_seconds - before[name].cpu_seconds, 0.0) / since
                                   for name, figures in used.items() if name in before and since > 0}


def _is_too_large(container: Container, known: Mapping[int, Session]) -> bool:
    limit = ((container.spec.get("resources") or {}).get("limits") or {}).get("memory")
    if not limit or container.process is None:
        return False
    session = known.get(container.process.pid) or Session(members=[container.process.pid])   # its children are learned of later
    return session.memory_now() > quantity.parse(limit)


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
