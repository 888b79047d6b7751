"""What the gateway says on Gateways, routes and Ingresses, as a real one does. Written only where it differs."""
import asyncio
import logging

from serveplane.clock import Clock, timestamp
from serveplane.embedded.gateway.compile import Compiled
from serveplane.kube.client import Client
from serveplane.kube.errors import Conflict, Invalid, KubeError, NotFound
from serveplane.kube.kind import ObjectRef, ref_of
from serveplane.objects import Json
from serveplane.objects.conditions import with_condition

CONTROLLER = "serveplane.dev/gateway"
RETRY = 2.0

log = logging.getLogger(__name__)


def route_status(route: Json, made: Compiled, parents: dict[tuple[str, str], list[str]], now: str) -> Json:
    """One entry per gateway of ours; entries of other controllers stay."""
    before = (route.get("status") or {}).get("parents") or []
    others = [entry for entry in before if entry.get("controllerName") != CONTROLLER]
    ours = []
    for reference in route["spec"].get("parentRefs") or ():
        key = (reference.get("namespace") or route["metadata"]["namespace"], reference["name"])
        if key not in parents:
            continue
        earlier: Json = next((entry for entry in before if entry.get("parentRef") == reference
                        and entry.get("controllerName") == CONTROLLER), {})
        conditions: list[Json] = earlier.get("conditions") or []
        for entry in _route_conditions(made, bool(parents[key]), route["metadata"].get("generation", 1)):
            conditions = with_condition(conditions, entry, now)
        ours.append({"parentRef": reference, "controllerName": CONTROLLER, "conditions": conditions})
    return {"parents": [*others, *ours]}


def _route_conditions(made: Compiled, has_host: bool, generation: int) -> list[Json]:
    if made.unsupported:
        accepted = _condition("Accepted", False, "UnsupportedValue", made.unsupported, generation)
    elif not has_host:
        accepted = _condition("Accepted", False, "NoMatchingListenerHostname", "no listener takes these hosts",
                              generation)
    else:
        accepted = _condition("Accepted", True, "Accepted", "Route is accepted", generation)
    if made.problems:
        reason, _, message = made.problems[0].partition(": ")
        return [accepted, _condition("ResolvedRefs", False, reason, message, generation)]
    return [accepted, _condition("ResolvedRefs", True, "ResolvedRefs", "All references are resolved", generation)]


def gateway_status(gateway: Json, attached: int, address: str, now: str) -> Json:
    before = gateway.get("status") or {}
    generation = gateway["metadata"].get("generation", 1)
    conditions: list[Json] = before.get("conditions") or []
    for name in ("Accepted", "Programmed"):
        conditions = with_condition(conditions, _condition(name, True, name, f"Gateway is {name.lower()}", generation),
                                    now)
    earlier = {entry["name"]: entry for entry in before.get("listeners") or ()}
    listeners = [_listener_status(listener, earlier.get(listener["name"]) or {}, attached, generation, now)
                 for listener in gateway["spec"].get("listeners") or ()]
    return {"addresses": [{"type": "IPAddress", "value": address}], "conditions": conditions, "listeners": listeners}


def _listener_status(listener: Json, before: Json, attached: int, generation: int, now: str) -> Json:
    conditions: list[Json] = before.get("conditions") or []
    for name in ("Accepted", "Programmed", "ResolvedRefs"):
        conditions = with_condition(conditions, _condition(name, True, name, "Listener is served", generation), now)
    return {"name": listener["name"], "attachedRoutes": attached, "conditions": conditions,
            "supportedKinds": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}]}


def _condition(kind: str, good: bool, reason: str, message: str, generation: int) -> Json:
    return {"type": kind, "status": "True" if good else "False", "reason": reason, "message": message,
            "observedGeneration": generation}


class StatusWriter:
    """Collects what should be said and writes it in the background, the latest word per object only."""

    def __init__(self, client: Client, clock: Clock, address: str, port: int) -> None:
        self._client = client
        self._clock = clock
        self._address = address
        self._port = port
        self._waiting: dict[ObjectRef, Json] = {}
        self._news = asyncio.Event()

    def route(self, route: Json, made: Compiled, parents: dict[tuple[str, str], list[str]]) -> None:
        self._say(route, route_status(route, made, parents, self._now))

    def gateway(self, gateway: Json, attached: int) -> None:
        self._say(gateway, gateway_status(gateway, attached, self._address, self._now))

    def gateway_class(self, one: Json) -> None:
        generation = one["metadata"].get("generation", 1)
        before = (one.get("status") or {}).get("conditions") or []
        entry = _condition("Accepted", True, "Accepted", "this gateway takes the class", generation)
        self._say(one, {**(one.get("status") or {}), "conditions": with_condition(before, entry, self._now)})

    def ingress(self, one: Json) -> None:
        ports = [{"port": self._port, "protocol": "TCP"}]
        self._say(one, {"loadBalancer": {"ingress": [{"ip": self._address, "ports": ports}]}})

    @property
    def _now(self) -> str:
        return timestamp(self._clock.now())

    def _say(self, obj: Json, status: Json) -> None:
        if (obj.get("status") or {}) != status:
            self._waiting[ref_of(obj)] = {**obj, "status": status}
            self._news.set()
        else:
            self._waiting.pop(ref_of(obj), None)

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                ref, obj = self._waiting.popitem()
                try:
                    await self._client.update_status(obj, field_manager="serveplane-gateway")
                except (Conflict, NotFound, Invalid) as problem:   # a newer version comes by the watch, and is then said again
                    log.debug("status of %s: %s", ref, problem)
                except KubeError as problem:
                    log.info("status of %s: %s", ref, problem)
                    await self._clock.sleep(RETRY)
                    self._waiting.setdefault(ref, obj)
