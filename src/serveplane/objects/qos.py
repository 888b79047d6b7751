"""A pod's quality of service, from what its containers ask for."""

from serveplane.objects import Json, quantity

COMPUTE = ("cpu", "memory")


def quality(spec: Json) -> str:
    """
    >>> quality({"containers": [{}]}), quality({"containers": [{"resources": {"requests": {"cpu": "1"}}}]})
    ('BestEffort', 'Burstable')
    """
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    asked = [(container.get("resources") or {}) for container in containers]
    if not any(_positive(one, side) for one in asked for side in ("requests", "limits")):
        return "BestEffort"
    return "Guaranteed" if all(map(_is_guaranteed, asked)) else "Burstable"


def _positive(resources: Json, side: str) -> bool:
    return any(name in COMPUTE and quantity.parse(amount) > 0 for name, amount in (resources.get(side) or {}).items())


def _is_guaranteed(resources: Json) -> bool:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return all(
        name in limits
        and quantity.parse(limits[name]) > 0
        and quantity.equal(requests.get(name, limits[name]), limits[name])
        for name in COMPUTE
    )
