"""The arithmetic of a rolling update. Pure: how many replicas each ReplicaSet should have next.

At most `desired + surge` pods exist and at least `desired - unavailable` are available, at every step.
"""
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Set:
    """A ReplicaSet in numbers; `replicas` is what its spec says."""
    name: str
    replicas: int
    available: int


def share(value: int | str | None, desired: int, *, up: bool, default: str = "25%") -> int:
    """A number or a percentage of the desired replicas.

    >>> share("25%", 5, up=True), share("25%", 5, up=False), share(3, 5, up=True)
    (2, 1, 3)
    """
    value = default if value is None else value
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        return int(value)
    exact = desired * int(value[:-1]) / 100
    return math.ceil(exact) if up else math.floor(exact)


def limits(desired: int, surge: int | str | None, unavailable: int | str | None) -> tuple[int, int]:
    """Surge and unavailable as numbers; both zero could never move, so one pod may then be missing."""
    more, fewer = share(surge, desired, up=True), share(unavailable, desired, up=False)
    return (more, fewer) if more or fewer else (0, 1)


def recreate(desired: int, new: Set, old: Sequence[Set], old_pods: int) -> dict[str, int]:
    """First everything old ends, then everything new begins."""
    if any(one.replicas for one in old) or old_pods:
        return {one.name: 0 for one in old if one.replicas}
    return {new.name: desired} if new.replicas != desired else {}


def paused(desired: int, new: Set | None, old: Sequence[Set]) -> dict[str, int]:
    """A rollout that stands still follows the wanted number where it is plain which set is meant: the only one with pods, or the latest."""
    every = [*old, new] if new else [*old]
    chosen = [one for one in every if one.replicas] or every[-1:]
    return {one.name: desired for one in chosen if one.replicas != desired} if len(chosen) == 1 else {}


def rolling(desired: int, new: Set, old: Sequence[Set], surge: int, unavailable: int) -> dict[str, int]:
    """The next step: grow the new set if there is room, else shrink the old ones (oldest first) as far as allowed."""
    grown = _grown(desired, new, old, surge)
    if grown != new.replicas:
        return {new.name: grown}
    return _shrunk(desired, new, old, unavailable)


def _grown(desired: int, new: Set, old: Sequence[Set], surge: int) -> int:
    if new.replicas > desired:
        return desired
    room = desired + surge - new.replicas - sum(one.replicas for one in old)
    return new.replicas + max(min(room, desired - new.replicas), 0)


def _shrunk(desired: int, new: Set, old: Sequence[Set], unavailable: int) -> dict[str, int]:
    least = desired - unavailable
    total = new.replicas + sum(one.replicas for one in old)
    may_go = total - least - (new.replicas - new.available)
    if may_go <= 0:
        return {}
    left = {one.name: one.replicas for one in old}
    for one in old:   # those that do not serve are missed by nobody
        gone = min(may_go, one.replicas - one.available, left[one.name])
        left[one.name] -= max(gone, 0)
        may_go -= max(gone, 0)
    spare = new.available + sum(min(one.available, left[one.name]) for one in old) - least
    for one in old:
        gone = max(min(spare, left[one.name]), 0)
        left[one.name] -= gone
        spare -= gone
    return {one.name: left[one.name] for one in old if left[one.name] != one.replicas}
