"""Where Services are: addresses from EndpointSlices, taken in turn.

Rebuilt whenever a slice or Service changes; a request only looks up and steps on.
"""
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from serveplane.embedded.gateway.rules import ServiceName
from serveplane.objects import Json

SERVICE_NAME = "kubernetes.io/service-name"
_UNKNOWN = "\0"   # not a name: the port has not been looked for yet


class Endpoint(NamedTuple):
    host: str
    port: int


class Endpoints:
    """Ready addresses by Service and port."""

    def __init__(self, services: Mapping[ServiceName, Json], slices: Iterable[Json]) -> None:
        self.services = services
        self._by_port: dict[tuple[ServiceName, str], list[Endpoint]] = {}
        self._names: dict[tuple[ServiceName, int | str], str | None] = {}
        self._turn: dict[tuple[ServiceName, str], int] = {}
        for one in slices:
            self._add(one)

    def _add(self, one: Json) -> None:
        metadata = one["metadata"]
        name = ServiceName(metadata.get("namespace", ""), (metadata.get("labels") or {}).get(SERVICE_NAME, ""))
        ready = [address for entry in one.get("endpoints") or () if (entry.get("conditions") or {}).get("ready", True)
                 for address in entry.get("addresses") or ()]
        for port in one.get("ports") or ():
            if port.get("port"):
                found = self._by_port.setdefault((name, port.get("name") or ""), [])
                found += [Endpoint(address, int(port["port"])) for address in ready]

    def port_name(self, service: ServiceName, port: int | str) -> str | None:
        """The name of a Service's port, given its number, its name, or (for "the usual one") 80 with a single port."""
        ports = (self.services.get(service) or {}).get("spec", {}).get("ports") or []
        for entry in ports:
            if port in (entry.get("port"), entry.get("name")) or str(entry.get("port")) == str(port):
                return str(entry.get("name") or "")
        # Headless Services are reached by the pods' own ports
        for entry in ports:
            if str(entry.get("targetPort", "")) == str(port):
                return str(entry.get("name") or "")
        return None

    def candidates(self, service: ServiceName, port: int | str) -> list[Endpoint]:
        """All ready endpoints, beginning with the one whose turn it is."""
        known = self._names.get((service, port), _UNKNOWN)
        if known is _UNKNOWN:
            known = self._names[service, port] = self.port_name(service, port)
        if known is None:
            return []
        key = (service, known)
        found = self._by_port.get(key)
        if not found:
            return []
        if len(found) == 1:
            return found
        turn = self._turn.get(key, -1) + 1
        self._turn[key] = turn
        start = turn % len(found)
        return found[start:] + found[:start] if start else list(found)
