"""Events about objects, written in the background and aggregated, so that a loop that fails all night does not fill etcd.

The same event about the same object raises its count instead of being written anew; many different messages with the
same reason become one; and each object has a budget. Losing an event is never a reason to fail.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from serveplane.clock import Clock, timestamp
from serveplane.kube.client import Client, PatchType
from serveplane.kube.errors import KubeError, LeaseLost, NotFound
from serveplane.kube.kind import Kind
from serveplane.objects import Json

LOG = logging.getLogger(__name__)
EVENT = Kind("v1", "Event")
SIMILAR = 10  # so many different messages of one reason within the window, and they are told as one
WINDOW = 600.0
BURST, REFILL = 25.0, 1 / 300  # events per object at once, and per second after that
REMEMBERED = 4096
WAITING = 1000
LONGEST_MESSAGE = 1024


@dataclass
class _Known:
    """An event already written, for raising its count."""

    name: str
    namespace: str
    count: int
    last: float


@dataclass
class _Reason:
    """Messages of one reason about one object within the window."""

    started: float
    messages: set[str] = field(default_factory=set)


@dataclass
class _Budget:
    left: float
    at: float


class Recorder:
    """Takes events at once, writes them when it can."""

    def __init__(self, client: Client, component: str, clock: Clock, host: str = "") -> None:
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock
        self._known: OrderedDict[tuple[str, ...], _Known] = OrderedDict()
        self._reasons: OrderedDict[tuple[str, ...], _Reason] = OrderedDict()
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()
        self._waiting: deque[tuple[Json, str, str, str]] = deque(maxlen=WAITING)
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def event(self, about: Json, type: str, reason: str, message: str) -> None:
        """Say something about an object. `type` is Normal or Warning; returns at once."""
        metadata = about.get("metadata") or {}
        reference = {
            "apiVersion": about.get("apiVersion"),
            "kind": about.get("kind"),
            "name": metadata.get("name"),
            "namespace": metadata.get("namespace"),
            "uid": metadata.get("uid"),
            "resourceVersion": metadata.get("resourceVersion"),
        }
        self._waiting.append(({k: v for k, v in reference.items() if v}, type, reason, _fitting(message)))
        self._idle.clear()
        self._news.set()

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                await self._write(*self._waiting.popleft())
            self._idle.set()

    async def flush(self, seconds: float = 2.0) -> None:
        """Wait a little for what was said to be written."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            LOG.debug("%d events were not written in time", len(self._waiting))

    async def _write(self, about: Json, type: str, reason: str, message: str) -> None:
        message = self._aggregated(about, type, reason, message)
        key = (str(about.get("uid")), type, reason, message)
        known = self._recall(key)
        if not self._allowed(str(about.get("uid"))):
            return
        try:
            if known is None or not await self._repeat(known, message):
                self._remember(key, await self._create(about, type, reason, message))
        except LeaseLost:
            raise
        except KubeError as error:  # e.g. the namespace is being deleted
            LOG.debug("event not written: %s", error)

    async def _create(self, about: Json, type: str, reason: str, message: str) -> _Known:
        now, namespace = timestamp(self._clock.now()), about.get("namespace") or "default"
        name = f"{str(about.get('name'))[:230]}.{self._clock.uuid().replace('-', '')[:16]}"
        source = {"component": self._component, **({"host": self._host} if self._host else {})}
        await self._client.create(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": about,
                "reason": reason,
                "message": message,
                "type": type,
                "count": 1,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "source": source,
                "reportingComponent": self._component,
                "reportingInstance": self._host,
            }
        )
        return _Known(name, namespace, 1, self._clock.monotonic())

    async def _repeat(self, known: _Known, message: str) -> bool:
        known.count += 1
        known.last = self._clock.monotonic()
        body = {"count": known.count, "lastTimestamp": timestamp(self._clock.now()), "message": message}
        try:
            await self._client.patch(EVENT, known.name, known.namespace, body, patch_type=PatchType.MERGE)
        except NotFound:  # events expire
            return False
        return True

    def _aggregated(self, about: Json, type: str, reason: str, message: str) -> str:
        key, now = (str(about.get("uid")), type, reason), self._clock.monotonic()
        seen = self._reasons.get(key)
        if seen is None or now - seen.started > WINDOW:
            seen = self._reasons[key] = _Reason(now)
        _bound(self._reasons)
        seen.messages.add(message)
        return message if len(seen.messages) <= SIMILAR else f"(combined from similar events): {reason}"

    def _recall(self, key: tuple[str, ...]) -> _Known | None:
        known = self._known.get(key)
        if known is not None and self._clock.monotonic() - known.last > WINDOW:
            del self._known[key]
            return None
        return known

    def _remember(self, key: tuple[str, ...], known: _Known) -> None:
        self._known[key] = known
        _bound(self._known)

    def _allowed(self, uid: str) -> bool:
        now = self._clock.monotonic()
        budget = self._budgets.setdefault(uid, _Budget(BURST, now))
        budget.left, budget.at = min(BURST, budget.left + (now - budget.at) * REFILL), now
        _bound(self._budgets)
        if budget.left < 1:
            return False
        budget.left -= 1
        return True


def _bound(
    remembered: "OrderedDict[tuple[str, ...], _Known] | OrderedDict[tuple[str, ...], _Reason] | OrderedDict[str, _Budget]",
) -> None:
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)


def _fitting(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…"
