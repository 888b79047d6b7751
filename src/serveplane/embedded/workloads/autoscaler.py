"""HorizontalPodAutoscalers: read, decide by `autoscaling`, scale the target through its scale subresource."""
from collections.abc import Awaitable, Callable
from datetime import timedelta

from serveplane.embedded.workloads.autoscaling import (
    DOWN,
    UP,
    Event,
    PodUsage,
    Reading,
    limited,
    read_metric,
    steadied,
    window,
)
from serveplane.embedded.workloads.cluster import AUTOSCALER, POD, Cluster
from serveplane.kube.controller import Controller
from serveplane.kube.errors import KubeError
from serveplane.kube.kind import Key, Kind, is_being_deleted
from serveplane.kube.watches import Primary, generation_changed
from serveplane.objects import Json
from serveplane.objects.conditions import with_condition
from serveplane.objects.selectors import parse_labels

PERIOD = timedelta(seconds=15)
LONGEST_PERIOD = 1800.0   # that a policy may have

UsageOf = Callable[[str], Awaitable[PodUsage]]   # of all pods of a namespace


class Autoscalers:
    def __init__(self, cluster: Cluster, usage: UsageOf) -> None:
        self._cluster = cluster
        self._usage = usage
        self._wishes: dict[Key, list[tuple[float, int]]] = {}
        self._events: dict[Key, list[Event]] = {}

    def controller(self) -> Controller:
        return Controller("horizontalpodautoscaler", self.reconcile, [Primary(AUTOSCALER, predicate=generation_changed)],
                          workers=2, clock=self._cluster.clock)

    async def reconcile(self, key: Key) -> timedelta | None:
        autoscaler = self._cluster.informer(AUTOSCALER).get(*key)
        if autoscaler is None or is_being_deleted(autoscaler):
            self._wishes.pop(key, None)
            self._events.pop(key, None)
            return None
        target = autoscaler["spec"]["scaleTargetRef"]
        kind = Kind(target["apiVersion"], target["kind"])
        try:
            scale = await self._cluster.client.get(kind, target["name"], key.namespace, subresource="scale")
        except KubeError as problem:
            await self._tell(autoscaler, None, [], ("AbleToScale", "False", "FailedGetScale", str(problem)), "")
            return PERIOD
        await self._scale(key, autoscaler, kind, scale)
        return PERIOD

    async def _scale(self, key: Key, autoscaler: Json, kind: Kind, scale: Json) -> None:
        spec, current = autoscaler["spec"], (scale.get("spec") or {}).get("replicas", 0)
        if current == 0:   # scaled to nothing by hand: the autoscaler stays out of it
            await self._tell(autoscaler, (0, 0), [], ("ScalingActive", "False", "ScalingDisabled",
                                                      "scaling is disabled since the replica count is zero"), "")
            return
        readings = await self._readings(key, spec, current, scale)
        good = [reading for reading in readings if not reading.problem]
        asked = max((reading.replicas for reading in good), default=current)
        if len(good) < len(readings):   # what cannot be read must not be a reason to shrink
            asked = max(asked, current)
        now = self._cluster.clock.monotonic()
        events = self._events[key] = [event for event in self._events.get(key, ()) if now - event.at < LONGEST_PERIOD]
        wanted, limit = limited(spec, current, self._steady(key, spec, current, asked, now), events, now)
        if wanted != current:
            await self._cluster.client.patch(kind, scale["metadata"]["name"], key.namespace,
                                             {"spec": {"replicas": wanted}}, subresource="scale")
            events.append(Event(now, wanted - current))
            self._cluster.record(autoscaler, "Normal", "SuccessfulRescale", f"New size: {wanted}; from {current}")
        problem = next((reading.problem for reading in readings if reading.problem), "")
        active = ("ScalingActive", "False", "FailedGetResourceMetric", problem) if readings and not good else (
            "ScalingActive", "True", "ValidMetricFound", "the HPA was able to compute the replica count")
        await self._tell(autoscaler, (current, wanted), [one.shown for one in good if one.shown], active, limit)

    async def _readings(self, key: Key, spec: Json, current: int, scale: Json) -> list[Reading]:
        selector = parse_labels((scale.get("status") or {}).get("selector") or "")
        pods = [item.object for item in self._cluster.informer(POD).items(key.namespace)
                if selector.matches(item.meta.labels)]
        usage = await self._usage(key.namespace)
        return [read_metric(metric, current, pods, usage) for metric in spec.get("metrics") or ()]

    def _steady(self, key: Key, spec: Json, current: int, asked: int, now: float) -> int:
        """As asked over a while; the first time it counts as if the present number had just been asked for."""
        longest = max(window(UP, spec), window(DOWN, spec))
        wishes = [(at, wish) for at, wish in self._wishes.get(key) or [(now, current)] if now - at <= longest]
        self._wishes[key] = [*wishes, (now, asked)]
        return steadied(spec, current, self._wishes[key], now)

    async def _tell(self, autoscaler: Json, replicas: tuple[int, int] | None, metrics: list[Json],
                    condition: tuple[str, str, str, str], limit: str) -> None:
        before = autoscaler.get("status") or {}
        conditions: list[Json] = before.get("conditions") or []
        told = [condition]
        if condition[0] != "AbleToScale":
            told.append(("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size"))
            told.append(("ScalingLimited", "True" if limit else "False", limit or "DesiredWithinRange",
                         f"the desired count is {'limited' if limit else 'within the acceptable range'}"))
        for kind, truth, reason, message in told:
            entry = {"type": kind, "status": truth, "reason": reason, "message": message}
            conditions = with_condition(conditions, entry, self._cluster.now)
        status: Json = {**before, "conditions": conditions}
        if replicas:
            status |= {"currentReplicas": replicas[0], "desiredReplicas": replicas[1]}
        if metrics:
            status["currentMetrics"] = metrics
        if replicas and replicas[0] != replicas[1]:
            status["lastScaleTime"] = self._cluster.now
        await self._cluster.write_status(autoscaler, status)
