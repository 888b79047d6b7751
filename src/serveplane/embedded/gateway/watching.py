"""Keeps the gateway's table and endpoints as the cluster is, and the routes' status as the gateway is."""
import asyncio
import logging
from collections.abc import Callable

from serveplane.clock import Clock
from serveplane.embedded.gateway.compile import Compiled, allowed_hosts, http_route, ingress
from serveplane.embedded.gateway.endpoints import Endpoints
from serveplane.embedded.gateway.proxy import Gateway
from serveplane.embedded.gateway.rules import Rule, ServiceName, Table, make_table
from serveplane.embedded.gateway.status import StatusWriter
from serveplane.kube.client import Client
from serveplane.kube.informers import Informers
from serveplane.kube.kind import Kind
from serveplane.kube.store import Change
from serveplane.objects import Json

SERVICE, SLICE = Kind("v1", "Service"), Kind("discovery.k8s.io/v1", "EndpointSlice")
INGRESS = Kind("networking.k8s.io/v1", "Ingress")
GATEWAY = Kind("gateway.networking.k8s.io/v1", "Gateway")
GATEWAY_CLASS = Kind("gateway.networking.k8s.io/v1", "GatewayClass")
ROUTE = Kind("gateway.networking.k8s.io/v1", "HTTPRoute")
CONTROLLER = "serveplane.dev/gateway"
INGRESS_CLASS = "serveplane"

log = logging.getLogger(__name__)


class Watcher:
    """Compiles on every change; many changes at once become one compilation."""

    def __init__(self, client: Client, clock: Clock, gateway: Gateway, address: str, port: int) -> None:
        self._gateway = gateway
        self._informers = Informers(client, clock)
        optional = {GATEWAY, GATEWAY_CLASS, ROUTE}
        self._kinds = {kind: self._informers.informer(kind, optional=kind in optional)
                       for kind in (SERVICE, SLICE, INGRESS, GATEWAY, GATEWAY_CLASS, ROUTE)}
        self._routes_changed, self._endpoints_changed = asyncio.Event(), asyncio.Event()
        self._news = asyncio.Event()
        self._status = StatusWriter(client, clock, address, port)

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        for kind, informer in self._kinds.items():
            informer.listen(self._listener(self._endpoints_changed if kind is SLICE else self._routes_changed))
        async with asyncio.TaskGroup() as group:
            self._informers.start(group)
            await self._informers.synced()
            self._heard(self._routes_changed)
            group.create_task(self._status.run(), name="route status")
            while True:
                await self._news.wait()
                self._news.clear()
                try:
                    self._refresh()
                except Exception:   # no object may end the gateway, and with it everything
                    log.exception("the routes cannot be read; those from before stay in force")
                ready()

    def _listener(self, changed: asyncio.Event) -> Callable[[Change], None]:
        return lambda _: self._heard(changed)

    def _heard(self, changed: asyncio.Event) -> None:
        changed.set()
        self._news.set()

    def _refresh(self) -> None:
        services = {ServiceName(item.meta.namespace, item.meta.name): item.object
                    for item in self._kinds[SERVICE].items()}
        if self._routes_changed.is_set():
            self._routes_changed.clear()
            self._gateway.table = self._table(services)
        self._endpoints_changed.clear()
        self._gateway.endpoints = Endpoints(services, [item.object for item in self._kinds[SLICE].items()])

    def _table(self, services: dict[ServiceName, Json]) -> Table:
        rules: dict[str, list[Rule]] = {}
        named: dict[tuple[str, str], str] = {}
        gateways = self._our_gateways()
        for route in self._kinds[ROUTE].list():
            parents = _parents(route, gateways)
            if parents:
                hosts = sorted({host for listener_hosts in parents.values() for host in listener_hosts})
                made = http_route(route, services, hosts)
                self._take(route, made, rules, named)
                self._status.route(route, made, parents)
        for obj in self._kinds[INGRESS].list():
            if is_ours(obj):
                made = ingress(obj, services)
                self._take(obj, made, rules, named)
                self._status.ingress(obj)
        return make_table(rules, named)

    def _our_gateways(self) -> dict[tuple[str, str], Json]:
        classes = {one["metadata"]["name"]: one for one in self._kinds[GATEWAY_CLASS].list()
                   if one["spec"].get("controllerName") == CONTROLLER}
        for one in classes.values():
            self._status.gateway_class(one)
        found = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in self._kinds[GATEWAY].list()
                 if one["spec"].get("gatewayClassName") in classes}
        attached: dict[tuple[str, str], int] = dict.fromkeys(found, 0)
        for route in self._kinds[ROUTE].list():
            for key in _parents(route, found):
                attached[key] += 1
        for key, one in found.items():
            self._status.gateway(one, attached[key])
        return found

    def _take(self, obj: Json, made: Compiled, rules: dict[str, list[Rule]],
              named: dict[tuple[str, str], str]) -> None:
        for host, some in made.rules.items():
            rules.setdefault(host, []).extend(some)
        plain = [host for host in made.hosts if not host.startswith("*")]
        if plain:
            named.setdefault((obj["metadata"]["namespace"], obj["metadata"]["name"]), _shortest_public(plain))


def _shortest_public(hosts: list[str]) -> str:
    """Of a route's hosts the one that users see; names of the cluster's own DNS come last."""
    return min(hosts, key=lambda host: (host.endswith((".svc", ".svc.cluster.local")), hosts.index(host)))


def is_ours(obj: Json) -> bool:
    """Ingresses of our class, and those that name none: there is only one gateway here."""
    annotations = obj["metadata"].get("annotations") or {}
    name = obj["spec"].get("ingressClassName") or annotations.get("kubernetes.io/ingress.class") or ""
    return name in ("", INGRESS_CLASS)


def _parents(route: Json, gateways: dict[tuple[str, str], Json]) -> dict[tuple[str, str], list[str]]:
    """Which of our gateways a route names, and the hosts it gets there."""
    found: dict[tuple[str, str], list[str]] = {}
    for parent in route["spec"].get("parentRefs") or ():
        key = (parent.get("namespace") or route["metadata"]["namespace"], parent["name"])
        gateway = gateways.get(key)
        if gateway is None or (parent.get("kind") or "Gateway") != "Gateway":
            continue
        hosts = [host for listener in gateway["spec"].get("listeners") or () if _is_meant(parent, listener)
                 for host in allowed_hosts(route["spec"].get("hostnames") or (), listener.get("hostname") or "")]
        found.setdefault(key, []).extend(hosts)
    return found


def _is_meant(parent: Json, listener: Json) -> bool:
    return (listener.get("protocol") in ("HTTP", "HTTPS")
            and parent.get("sectionName") in (None, "", listener.get("name"))
            and parent.get("port") in (None, listener.get("port")))
