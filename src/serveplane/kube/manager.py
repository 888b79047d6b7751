"""One process with controllers in it: caches, lease, health, metrics, graceful stop. Wiring, no decisions.

    manager = Manager(HttpTransport(load_config()), ManagerOptions(lease=LeaseOptions(...)))
    manager.add(Controller("things", reconcile, [Primary(THING), Owned(DEPLOYMENT)]))
    await manager.run()

Caches are warm and webhooks answer in every replica; controllers run only where the lease is held.
"""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from serveplane.clock import SYSTEM, Clock
from serveplane.http.loop import run as run_loop
from serveplane.http.server import Server
from serveplane.kube.client import USER_AGENT, Client
from serveplane.kube.controller import Controller
from serveplane.kube.errors import KubeError, LeaseLost, one_line
from serveplane.kube.events import Recorder
from serveplane.kube.health import Health, serve_health, serve_metrics
from serveplane.kube.informers import SYNC_SECONDS, Informers
from serveplane.kube.lease import LeaderElection, LeaseOptions
from serveplane.kube.metrics import Registry, observe_process
from serveplane.kube.rest import WRITE_TIMEOUT
from serveplane.kube.transport import Transport

LOG = logging.getLogger(__name__)
Part = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class ManagerOptions:
    lease: LeaseOptions | None = None
    metrics_address: str = "0"
    health_address: str = "0"
    namespaces: Sequence[str] = ()
    """Watch these only; all when empty."""
    sync_seconds: float = SYNC_SECONDS
    grace_seconds: float = 30.0
    """How long reconciles under way may take to end."""
    user_agent: str = USER_AGENT
    component: str = "serveplane"
    """Who events are from."""


class Manager:
    def __init__(
        self,
        transport: Transport,
        options: ManagerOptions | None = None,
        clock: Clock = SYSTEM,
        registry: Registry | None = None,
    ) -> None:
        self.options = options or ManagerOptions()
        self.clock = clock
        self.registry = registry or Registry()
        self.health = Health()
        self.open_client = Client(transport, clock, registry=self.registry, user_agent=self.options.user_agent)
        """For what every replica may write: the lease itself, certificates."""
        lease = self.options.lease
        self.election = LeaderElection(self.open_client, lease, clock, self.registry) if lease else None
        self.client = Client(
            transport,
            clock,
            registry=self.registry,
            user_agent=self.options.user_agent,
            write_timeout=min(WRITE_TIMEOUT, lease.write_timeout) if lease else WRITE_TIMEOUT,
            guard=self.election.guard if self.election else None,
        )
        """For controllers: writes only while the lease is held."""
        self.client.discovery = self.open_client.discovery
        self.informers = Informers(self.client, clock, namespaces=self.options.namespaces)
        self.events = Recorder(self.client, self.options.component, clock)
        self._controllers: list[Controller] = []
        self._everywhere: list[Part] = []
        self._leading: list[Part] = []
        self._awaited: list[asyncio.Event] = []
        self._ready = "starting"
        self._stop = asyncio.Event()
        self.leading = asyncio.Event()
        self.health.ready["caches"] = lambda: self._ready
        self.informers.observe(self.registry)
        observe_process(self.registry)

    def add(self, controller: Controller) -> None:
        controller.attach(self.informers)
        self._controllers.append(controller)

    def everywhere(self, part: Part) -> None:
        """Run in every replica, from the start (webhook server, certificates)."""
        self._everywhere.append(part)

    def when_leading(self, part: Part) -> None:
        """Run beside the controllers, only where the lease is held; it may end by itself."""
        self._leading.append(part)

    def wait_for(self, event: asyncio.Event) -> None:
        """Do not lead before this has happened (webhooks that our own writes will meet)."""
        self._awaited.append(event)

    def stop(self) -> None:
        """End gracefully: finish what is under way, hand back the lease, return from `run`."""
        self._ready = "stopping"
        self._stop.set()

    async def run(self) -> None:
        """Until stopped. Raises what ended it otherwise: `LeaseLost`, or an error that no retry can mend at start."""
        servers = await self._listen()
        try:
            await self.open_client.document("/version")  # a wrong address, CA or token is told now, not after a minute
            async with asyncio.TaskGroup() as group:
                main = group.create_task(self._main(group), name="manager")
                await asyncio.wait({main})
                await self._end(group)
        except BaseExceptionGroup as failed:
            raise _root(failed) from None
        finally:
            for server in servers:
                await server.close()

    # ---- phases

    async def _main(self, group: asyncio.TaskGroup) -> None:
        self._parts = [group.create_task(_named(part)(), name="part") for part in self._everywhere]
        self.informers.start(group)
        if not await self._unless_stopped(self.informers.synced(self.options.sync_seconds)):
            return
        for event in self._awaited:
            if not await self._unless_stopped(_happened(event)):
                return
        self._ready = ""
        if self.election is not None and not await self._unless_stopped(self.election.acquire()):
            return
        self.leading.set()
        await self._lead()

    async def _lead(self) -> None:
        """Losing the lease ends every controller at once; a stop lets them finish."""
        try:
            async with asyncio.TaskGroup() as group:
                keep = [group.create_task(self.election.keep(), name="lease")] if self.election else []
                keep += [group.create_task(_named(part)(), name="leading part") for part in self._leading]
                keep.append(group.create_task(self.events.run(), name="events"))
                working = [
                    group.create_task(controller.run(), name=controller.name) for controller in self._controllers
                ]
                await self._stop.wait()
                for controller in self._controllers:
                    controller.stop()
                if working:
                    _, late = await asyncio.wait(working, timeout=self.options.grace_seconds)
                    for task in late:
                        task.cancel()
                await self.events.flush()
                for task in keep:
                    task.cancel()
        finally:
            self.leading.clear()
        if self.election is not None:
            await self.election.release()

    async def _end(self, group: asyncio.TaskGroup) -> None:
        await self.informers.stop()
        for part in self._parts:
            part.cancel()

    async def _listen(self) -> list[Server]:
        servers = [
            await serve_health(self.health, self.options.health_address),
            await serve_metrics(self.registry, self.options.metrics_address),
        ]
        return [server for server in servers if server is not None]

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether the work came to its end before someone asked to stop."""
        task, stop = asyncio.ensure_future(work), asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
                return True
            return False
        finally:
            for future in (task, stop):
                future.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)


def run_program(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> int:
    """Run a program's async main with SIGTERM and SIGINT turned into its stop event; trouble is one line and a status."""

    async def body() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await main(stop)

    try:
        run_loop(body())
    except LeaseLost as error:
        print(f"error: {error}; another replica takes over", file=sys.stderr)
        return 1
    except (KubeError, ValueError) as error:
        print(f"error: {one_line(error) if isinstance(error, KubeError) else error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


async def run_until(manager: Manager, stop: asyncio.Event) -> None:
    """Run a manager until the event is set."""

    async def watch() -> None:
        await stop.wait()
        manager.stop()

    watcher = asyncio.create_task(watch())
    try:
        await manager.run()
    finally:
        watcher.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watcher


async def _happened(event: asyncio.Event) -> None:
    await event.wait()


def _named(part: Part) -> Callable[[], Coroutine[Any, Any, None]]:
    async def run() -> None:
        await part()

    return run


def _root(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error to show of a group that fell together; a lost lease before what it made fail."""
    every = list(_leaves(failed))
    return next((error for error in every if isinstance(error, LeaseLost)), every[0])


def _leaves(failed: BaseExceptionGroup[BaseException]) -> Sequence[BaseException]:
    found: list[BaseException] = []
    for error in failed.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found
