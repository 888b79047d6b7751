"""ResourceQuotas: what a new or changed object uses is charged to the quotas of its namespace, or refused.

The check, the charge and the write itself happen in one turn of the event loop and are kept in one batch of the log, so two writers can
never both use what was left for one. What deletions give back is counted by `serveplane.embedded.apiserver.quotas`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.kinds import usage
from serveplane.embedded.store import Record
from serveplane.objects import Json, quantity
from serveplane.objects.amounts import Amounts, add

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write

BUCKET = "resourcequotas"
REQUIRED = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""What every container must say once a quota counts it."""


class Charge(NamedTuple):
    quota: Record
    used: Amounts


def charges(core: "Core", write: "Write") -> list[Charge]:
    """What is to be written to which quota if the write goes through; raise if one has not enough left."""
    namespace = (write.value or write.live)["metadata"].get("namespace", "")
    if not namespace or not usage.counts(write.resource, write.value, write.live, write.subresource):
        return []
    found = []
    for record in core.store.records(BUCKET, namespace):
        charge = _charge(core, write, record)
        if charge is not None:
            found.append(charge)
    return found


def _charge(core: "Core", write: "Write", record: Record) -> Charge | None:
    quota = record.value()
    status: Json = quota.get("status") or {}
    hard: Json = status.get("hard") or {}
    counted = usage.counted(write.resource, hard)
    if not counted or not usage.in_scope(quota, write.resource, write.value):
        return None
    _check_said(write, record.key.name, counted)
    used: Amounts = status.get("used") or {}
    if any(name not in used for name in counted):
        raise _forbidden(write, f"status unknown for quota: {record.key.name}, resources: {','.join(sorted(counted))}")
    more = _more(core, write, quota, counted)
    if not more:
        return None
    new = dict(used)
    add(new, more)
    if write.subresource != "status":
        _check_left(write, record.key.name, more, used, new, hard)
    return Charge(record, new)


def _more(core: "Core", write: "Write", quota: Json, counted: Iterable[str]) -> Amounts:
    """What the write uses beyond what the object used before; what it gives back is counted later."""
    now = core.clock.now()
    new = usage.of(write.resource, write.value, now)
    old = usage.of(write.resource, write.live, now) if write.live and usage.in_scope(quota, write.resource, write.live) else {}
    found = Amounts()
    for name in counted:
        before = old.get(name, "0")
        if quantity.parse(new.get(name, "0")) > quantity.parse(before):
            found[name] = quantity.total(new[name], f"-{before}") if name in old else new[name]
    return found


def _check_said(write: "Write", quota: str, counted: Iterable[str]) -> None:
    spec = write.value.get("spec") or {}
    needed = sorted(REQUIRED.intersection(counted))
    if write.resource.bucket != "pods" or not needed or usage.has_pod_level(spec):
        return
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    silent = {name: sorted({one["name"] for one in containers if name not in usage.compute(one.get("resources") or {})}) for name in needed}
    told = "; ".join(f"{name} for: {','.join(listed)}" for name, listed in silent.items() if listed)
    if told:
        raise _forbidden(write, f"failed quota: {quota}: must specify {told}")


def _check_left(write: "Write", quota: str, more: Amounts, used: Amounts, new: Amounts, hard: Json) -> None:
    over = sorted(name for name in more if quantity.parse(new[name]) > quantity.parse(hard[name]))
    if over:
        asked, had, most = (",".join(f"{name}={amounts[name]}" for name in over) for amounts in (more, used, hard))
        raise _forbidden(write, f"exceeded quota: {quota}, requested: {asked}, used: {had}, limited: {most}")


def _forbidden(write: "Write", why: str) -> errors.Refusal:
    resource = write.resource
    return errors.forbidden(resource.plural, resource.group, write.value["metadata"].get("name", ""), why)
