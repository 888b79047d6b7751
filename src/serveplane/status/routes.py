"""Whether routes lead where they should, by what the gateway says of them."""
from collections.abc import Sequence
from dataclasses import dataclass

from serveplane.objects import Json


@dataclass(frozen=True)
class RouteTrouble:
    reason: str
    message: str


def route_trouble(wanted: Sequence[tuple[str, Json | None]]) -> RouteTrouble | None:
    """The first HTTPRoute that is missing, unseen by any gateway, or refused. Each comes with the component's name."""
    return next((found for name, route in wanted if (found := _one(name, route))), None)


def _one(name: str, route: Json | None) -> RouteTrouble | None:
    if route is None:
        return RouteTrouble(f"{name} HTTPRoute NotCreated", f"{name} HTTPRoute is not created yet")
    parents = (route.get("status") or {}).get("parents") or []
    label = f"HTTPRoute {route['metadata']['name']}"
    if not parents:
        return RouteTrouble("ParentStatusNotAvailable", f"{name} HttpRouteNotReady: no gateway has taken up {label} yet")
    refusals = [_refusal(name, label, parent) for parent in parents]
    return None if None in refusals else refusals[0]


def _refusal(name: str, label: str, parent: Json) -> RouteTrouble | None:
    bad = next((found for found in parent.get("conditions") or [] if found.get("status") == "False"), None)
    if bad is None:
        return None
    reference = parent.get("parentRef") or {}
    gateway = "/".join(part for part in (reference.get("namespace"), reference.get("name")) if part)
    words = bad.get("message") or bad.get("reason") or "no reason is given"
    return RouteTrouble(f"{name} {bad.get('reason') or 'Refused'}", f"{label} is refused by gateway {gateway} ({bad.get('type')}): {words}")
