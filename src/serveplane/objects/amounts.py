"""What a pod asks for in all: its containers together, or what its start needs where that is more."""

from collections.abc import Mapping

from serveplane.objects import Json, quantity

POD_LEVEL = ("cpu", "memory")
Amounts = dict[str, str]


def add(amounts: Amounts, more: Mapping[str, str]) -> None:
    """
    >>> amounts = {"cpu": "500m"}
    >>> add(amounts, {"cpu": "1", "memory": "1Gi"})
    >>> amounts
    {'cpu': '1500m', 'memory': '1Gi'}
    """
    for name, amount in more.items():
        amounts[name] = quantity.total(amounts[name], amount) if name in amounts else amount


def raise_to(amounts: Amounts, least: Mapping[str, str]) -> None:
    for name, amount in least.items():
        if name not in amounts or quantity.parse(amount) > quantity.parse(amounts[name]):
            amounts[name] = amount


def of_pod(spec: Json, side: str) -> Amounts:
    """The `requests` or `limits` of a pod. Sidecars run beside everything that comes after them; other init containers come and go."""
    found, sidecars, start = Amounts(), Amounts(), Amounts()
    for container in spec.get("containers") or ():
        add(found, _own(container, side))
    for container in spec.get("initContainers") or ():
        needed = Amounts()
        if container.get("restartPolicy") == "Always":
            add(found, _own(container, side))
            add(sidecars, _own(container, side))
        else:
            add(needed, _own(container, side))
        add(needed, sidecars)
        raise_to(start, needed)
    raise_to(found, start)
    found.update({name: amount for name, amount in _own(spec, side).items() if name in POD_LEVEL})
    return found


def with_overhead(spec: Json, side: str) -> Amounts:
    """As `of_pod`, with what the runtime needs for itself; a limit that nobody set is not made up for it."""
    found, overhead = of_pod(spec, side), spec.get("overhead") or {}
    add(found, overhead if side == "requests" else {name: amount for name, amount in overhead.items() if name in found})
    return found


def _own(holder: Json, side: str) -> Mapping[str, str]:
    return (holder.get("resources") or {}).get(side) or {}
