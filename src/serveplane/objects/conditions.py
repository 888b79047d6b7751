"""Lists of conditions: set one, read one, keep the time of the last change."""

from collections.abc import Iterable
from typing import Any

from serveplane.objects import Json


def condition(conditions: Iterable[Json] | None, kind: str) -> Json | None:
    """The condition of one type, if it is there."""
    return next((one for one in conditions or () if one.get("type") == kind), None)


def is_true(conditions: Iterable[Json] | None, kind: str) -> bool:
    found = condition(conditions, kind)
    return found is not None and found.get("status") == "True"


def with_condition(conditions: Iterable[Json], new: Json, now: str) -> list[Json]:
    """The list with one condition set. `lastTransitionTime` is `now` only if the status changed."""
    before = condition(conditions, new["type"])
    same_status = before is not None and before.get("status") == new["status"]
    time = before.get("lastTransitionTime", now) if before and same_status else now
    entry: dict[str, Any] = {**new, "lastTransitionTime": time}
    if before is None:
        return [*conditions, entry]
    return [entry if one.get("type") == new["type"] else one for one in conditions]
