"""Runs a reconcile function for every object that needs it.

    controller = Controller("inferenceservice", reconcile, watches=[Primary(ISVC), Owned(DEPLOYMENT)])
    controller.attach(informers)        # before the informers start
    await controller.run()              # after they have synced; until cancelled or `stop` is called

A reconcile that raises is logged once with its key and comes back after a pause; nothing it does can stop the others.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from serveplane.clock import SYSTEM, Clock
from serveplane.kube.errors import Conflict, DeadlineExceeded, LeaseLost
from serveplane.kube.informers import Informer, Informers
from serveplane.kube.kind import Key, Kind
from serveplane.kube.metrics import Registry
from serveplane.kube.queue import Closed, Priority, Queue
from serveplane.kube.store import Change, Item
from serveplane.kube.watches import Mapped, Owned, Primary, Watch, owner_keys

LOG = logging.getLogger(__name__)
Reconcile = Callable[[Key], Awaitable[timedelta | None]]
# A write that was not answered in time may still be carried out: by then the watch tells of it, and it is not sent again
UNANSWERED_PAUSE = 2.0


class Terminal(Exception):
    """Raised by a reconcile that retrying cannot help: it is reported, then waits for a change."""


class Controller:
    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        watches: Sequence[Watch],
        *,
        workers: int = 16,
        clock: Clock = SYSTEM,
        registry: Registry | None = None,
        resync: timedelta | None = None,
    ) -> None:
        primaries = [watch for watch in watches if isinstance(watch, Primary)]
        if len(primaries) != 1:
            raise ValueError(f"controller {name} needs exactly one Primary watch")
        self.name = name
        self.primary: Kind = primaries[0].kind
        self._reconcile = reconcile
        self._watches = tuple(watches)
        self._workers = workers
        self._clock = clock
        self._resync = resync
        self._informers: Informers | None = None
        self._told: dict[Key, str] = {}
        registry = registry or Registry()
        self.queue: Queue[Key] = Queue(name, clock, registry)
        self._metrics = _Metrics(name, registry, workers)

    def attach(self, informers: Informers) -> None:
        """Ask for the caches this controller needs and listen to them."""
        self._informers = informers
        for watch in self._watches:
            self._listen(watch, informers)

    async def run(self) -> None:
        """Work until `stop`, then finish what is under way."""
        async with asyncio.TaskGroup() as group:
            resync = group.create_task(self._resyncs(), name=f"{self.name} resync") if self._resync else None
            workers = [group.create_task(self._work(), name=f"{self.name} {n}") for n in range(self._workers)]
            await asyncio.wait(workers)
            if resync:
                resync.cancel()

    def stop(self) -> None:
        """Take no new work; `run` returns when what is under way has ended."""
        self.queue.close()

    def resync_all(self) -> None:
        """Have every primary object looked at again, after whatever users changed."""
        assert self._informers is not None, "attach first"
        watch = next(watch for watch in self._watches if isinstance(watch, Primary))
        for item in self._informer(watch, self._informers).items():
            self.queue.add(item.key, Priority.ROUTINE)

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except Closed:
                return
            try:
                await self._one(key)
            finally:
                self.queue.done(key)

    async def _one(self, key: Key) -> None:
        started = self._clock.monotonic()
        self._metrics.active.inc(self.name)
        result = "error"
        try:
            again = await self._reconcile(key)
            result = self._succeeded(key, again)
        except LeaseLost:
            raise  # not a matter of this key: the whole process has to stop
        except Terminal as error:
            self._metrics.terminal.inc(self.name)
            self._report(key, error, "the spec needs an edit")
            self.queue.forget(key)
        except Conflict as error:
            result = "requeue"  # someone wrote first, so our view was old: no failure, look again
            self.queue.add_failed(key)
            LOG.debug("conflict: %s", error, extra=self._where(key))
        except Exception as error:
            pause = self.queue.add_failed(key, UNANSWERED_PAUSE if isinstance(error, DeadlineExceeded) else 0.0)
            self._report(key, error, f"again in {pause:.2f} s")
        finally:
            self._metrics.ended(result, self._clock.monotonic() - started)

    def _succeeded(self, key: Key, again: timedelta | None) -> str:
        self.queue.forget(key)
        self._told.pop(key, None)
        if again is None:
            return "success"
        self.queue.add_after(key, again.total_seconds(), Priority.ROUTINE)
        return "requeue_after"

    def _report(self, key: Key, error: Exception, what_next: str) -> None:
        """Once per trouble: the same message from the same key is not repeated until it succeeds or fails differently."""
        self._metrics.errors.inc(self.name)
        text = f"{type(error).__name__}: {error}"
        if self._told.get(key) == text:
            LOG.debug("reconcile failed again: %s", error, extra=self._where(key))
            return
        self._told[key] = text
        LOG.error("reconcile failed: %s (%s)", text, what_next, extra=self._where(key), exc_info=error)

    def _where(self, key: Key) -> dict[str, str]:
        return {"controller": self.name, "namespace": key.namespace, "object": key.name}

    async def _resyncs(self) -> None:
        assert self._resync is not None
        while True:
            await self._clock.sleep(self._resync.total_seconds() * (0.9 + 0.2 * self._clock.random()))
            self.resync_all()

    # ---- watches

    def _listen(self, watch: Watch, informers: Informers) -> None:
        keys_of = self._mapping(watch)
        deaf = isinstance(watch, Owned) and not watch.own_writes

        def listener(change: Change) -> None:
            if deaf and change.own:
                return
            if watch.predicate is not None and not watch.predicate(change):
                return
            priority = Priority.ROUTINE if change.initial else Priority.USER
            for item in (change.old, change.new):
                for key in keys_of(item) if item is not None else ():
                    self.queue.add(key, priority)
            if change.new is None and isinstance(watch, Primary):
                self._told.pop(change.item.key, None)

        self._informer(watch, informers).listen(listener)

    def _informer(self, watch: Watch, informers: Informers) -> Informer:
        keep = watch.keep or (self._keep_owned if isinstance(watch, Owned) else None)
        return informers.informer(
            watch.kind,
            watch.namespace,
            labels=watch.labels,
            fields=watch.fields,
            indexes=watch.indexes,
            keep=keep,
            trim=watch.trim,
            optional=watch.optional,
            cluster_scoped=watch.cluster_scoped,
        )

    def _keep_owned(self, item: Item) -> bool:
        return bool(owner_keys(item, self.primary))

    def _mapping(self, watch: Watch) -> Callable[[Item], Sequence[Key]]:
        match watch:
            case Primary():
                return lambda item: [item.key]
            case Owned():
                return lambda item: owner_keys(item, self.primary)
            case Mapped():
                return lambda item: list(watch.map(item))


class _Metrics:
    """controller-runtime's series."""

    def __init__(self, name: str, registry: Registry, workers: int) -> None:
        self._name = name
        self._total = registry.counter(
            "controller_runtime_reconcile_total",
            "Total number of reconciliations per controller.",
            "controller",
            "result",
        )
        self.errors = registry.counter(
            "controller_runtime_reconcile_errors_total",
            "Total number of reconciliation errors per controller.",
            "controller",
        )
        self.terminal = registry.counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Total number of terminal reconciliation errors.",
            "controller",
        )
        self._seconds = registry.histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller.",
            "controller",
        )
        self.active = registry.gauge(
            "controller_runtime_active_workers", "Number of currently used workers per controller.", "controller"
        )
        limit = registry.gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Maximum number of concurrent reconciles per controller.",
            "controller",
        )
        limit.set(workers, name)
        self.active.set(0, name)
        for result in ("success", "error", "requeue", "requeue_after"):
            self._total.inc(name, result, by=0)
        self.errors.inc(name, by=0)
        self.terminal.inc(name, by=0)

    def ended(self, result: str, seconds: float) -> None:
        self.active.dec(self._name)
        self._total.inc(self._name, result)
        self._seconds.observe(seconds, self._name)
