"""How many replicas an autoscaler wants. Pure: the arithmetic of HorizontalPodAutoscaler over resource metrics."""
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from serveplane.embedded.workloads.pods import is_active, is_ready
from serveplane.objects import Json, quantity

TOLERANCE = 0.1


@dataclass(frozen=True)
class Usage:
    """What one container uses now: cores and bytes."""
    cpu: float
    memory: float

    def of(self, resource: str) -> float:
        return self.cpu if resource == "cpu" else self.memory


PodUsage = Mapping[str, Mapping[str, Usage]]   # by pod name and container


@dataclass(frozen=True)
class Reading:
    """One metric, read: the replicas it asks for and how it is shown, or why it could not be read."""
    replicas: int = 0
    shown: Json | None = None
    problem: str = ""


def read_metric(metric: Json, current: int, pods: Sequence[Json], usage: PodUsage) -> Reading:
    kind = metric.get("type")
    if kind not in ("Resource", "ContainerResource"):
        return Reading(problem=f"metrics of type {kind} are not available on a process node")
    source = metric["resource" if kind == "Resource" else "containerResource"]
    container = source.get("container", "")
    counted = [pod for pod in pods if is_active(pod) and is_ready(pod) and usage.get(pod["metadata"]["name"])]
    if not counted:
        return Reading(problem=f"no metrics of {source['name']} yet")
    used = [_used(usage[pod["metadata"]["name"]], source["name"], container) for pod in counted]
    target = source["target"]
    if target.get("type") == "Utilization":
        return _by_share(source, target["averageUtilization"], counted, used, container, current)
    wanted = float(quantity.parse(target.get("averageValue") or target.get("value") or "0"))
    ratio = sum(used) / len(used) / wanted if wanted else 1.0
    shown = {"averageValue": _amount(source["name"], sum(used) / len(used))}
    return Reading(_wanted(ratio, current, len(counted)), _shown(kind, source, shown))


def _by_share(source: Json, percent: int, pods: Sequence[Json], used: Sequence[float], container: str,
              current: int) -> Reading:
    requests = [_requested(pod, source["name"], container) for pod in pods]
    if not all(requests):
        return Reading(problem=f"missing request for {source['name']} in a container of the pods")
    share = 100 * sum(used) / float(sum(requests))
    shown = {"averageUtilization": round(share), "averageValue": _amount(source["name"], sum(used) / len(used))}
    kind = "ContainerResource" if container else "Resource"
    return Reading(_wanted(share / percent, current, len(pods)), _shown(kind, source, shown))


def _wanted(ratio: float, current: int, counted: int) -> int:
    """Replicas for a ratio of used to wanted; within the tolerance nothing moves."""
    if abs(ratio - 1) <= TOLERANCE:
        return current
    return math.ceil(ratio * counted - 1e-9)


def _used(containers: Mapping[str, Usage], resource: str, container: str) -> float:
    return sum(one.of(resource) for name, one in containers.items() if container in ("", name))


def _requested(pod: Json, resource: str, container: str) -> Fraction:
    chosen = [one for one in pod["spec"].get("containers") or () if container in ("", one["name"])]
    amounts = [((one.get("resources") or {}).get("requests") or {}).get(resource) for one in chosen]
    return Fraction(0) if None in amounts else sum((quantity.parse(amount) for amount in amounts), Fraction(0))


def _amount(resource: str, value: float) -> str:
    return f"{round(value * 1000)}m" if resource == "cpu" else str(round(value))


def _shown(kind: str, source: Json, current: Json) -> Json:
    entry: Json = {"name": source["name"], "current": current}
    if kind == "ContainerResource":
        return {"type": kind, "containerResource": {**entry, "container": source["container"]}}
    return {"type": kind, "resource": entry}


@dataclass(frozen=True)
class Event:
    """A rescaling that was done: when, and by how many replicas (negative: down)."""
    at: float
    change: int


def limited(spec: Json, current: int, wanted: int, events: Sequence[Event] = (), now: float = 0.0) -> tuple[int, str]:
    """What is wanted, as far as the limits and the policies of `behavior` let it go at once; and what stopped it."""
    least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
    if wanted > current:
        fastest = max(_reach(UP, spec, current, events, now), current)
        if wanted > min(most, fastest):
            return (most, "TooManyReplicas") if most <= fastest else (fastest, "ScaleUpLimit")
    elif wanted < current:
        slowest = min(_reach(DOWN, spec, current, events, now), current)
        if wanted < max(least, slowest):
            return (least, "TooFewReplicas") if least >= slowest else (slowest, "ScaleDownLimit")
    if wanted < least:
        return least, "TooFewReplicas"
    return (most, "TooManyReplicas") if wanted > most else (wanted, "")


@dataclass(frozen=True)
class Direction:
    """Up or down: where `behavior` says how, and what holds if it does not."""
    field: str
    sign: int
    window: float
    policies: tuple[Json, ...]


UP = Direction("scaleUp", 1, 0.0, ({"type": "Pods", "value": 4, "periodSeconds": 15},
                                   {"type": "Percent", "value": 100, "periodSeconds": 15}))
DOWN = Direction("scaleDown", -1, 300.0, ({"type": "Percent", "value": 100, "periodSeconds": 15},))


def _reach(direction: Direction, spec: Json, current: int, events: Sequence[Event], now: float) -> int:
    """The farthest count that the policies of one direction allow now; the one that goes farthest counts unless told otherwise."""
    rules = (spec.get("behavior") or {}).get(direction.field) or {}
    chosen = rules.get("selectPolicy") or "Max"
    if chosen == "Disabled":
        return current
    counts = [_allowed(direction.sign, policy, current, events, now) for policy in rules.get("policies") or direction.policies]
    return max(counts) if (chosen == "Max") == (direction.sign > 0) else min(counts)


def _allowed(sign: int, policy: Json, current: int, events: Sequence[Event], now: float) -> int:
    """By one policy: so many from what there was when its period began."""
    at_start = current - sum(event.change for event in events if now - event.at < policy["periodSeconds"])
    if policy["type"] == "Pods":
        return at_start + sign * int(policy["value"])
    count = Fraction(at_start * (100 + sign * int(policy["value"])), 100)
    return math.ceil(count) if sign > 0 else math.floor(count)


def window(direction: Direction, spec: Json) -> float:
    """Seconds over which recommendations are looked back at before moving in a direction."""
    seconds = ((spec.get("behavior") or {}).get(direction.field) or {}).get("stabilizationWindowSeconds")
    return direction.window if seconds is None else float(seconds)


def steadied(spec: Json, current: int, wishes: Sequence[tuple[float, int]], now: float) -> int:
    """Up only to the least, down only to the most that was asked for within the direction's window. The last wish is the present one."""
    def within(direction: Direction) -> list[int]:
        return [wish for at, wish in wishes[:-1] if now - at <= window(direction, spec)] + [wishes[-1][1]]
    return min(max(current, min(within(UP))), max(within(DOWN)))
