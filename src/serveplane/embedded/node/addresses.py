"""Where a pod is found: a loopback address of its own where the system has them, and ports moved out of the way.

Linux answers on all of 127.0.0.0/8 without any set-up, so each pod gets an address of its own and keeps the ports its
manifest names. A port that something else on this machine holds on every address, a program that cannot be told where
to listen, and systems with a single loopback address get a free port instead; the pod's annotation says which.
"""
import ipaddress
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

import msgspec

from serveplane.objects import Json

LOOPBACK = "127.0.0.1"
PORTS_ANNOTATION = "serveplane.dev/ports"


@dataclass(frozen=True)
class PodAddress:
    host: str
    moved: Mapping[int, int] = field(default_factory=dict)

    @property
    def annotation(self) -> str:
        return msgspec.json.encode({str(port): real for port, real in sorted(self.moved.items())}).decode()


class AddressPool:
    """Addresses of one network, each given to one pod at a time; the least recently used comes first."""

    def __init__(self, network: str) -> None:
        self._network = ipaddress.IPv4Network(network)
        self._next = 1
        self._taken: dict[str, str] = {}

    def take(self, owner: str) -> str:
        if owner in self._taken:
            return self._taken[owner]
        used = set(self._taken.values())
        for _ in range(self._network.num_addresses):
            self._next = self._next % (self._network.num_addresses - 2) + 1
            address = str(self._network[self._next])
            if address not in used:
                self._taken[owner] = address
                return address
        raise OSError(f"no free address in {self._network}")

    def give_back(self, owner: str) -> None:
        self._taken.pop(owner, None)


def has_own_addresses(network: str) -> bool:
    """Whether this system answers on loopback addresses other than 127.0.0.1."""
    return can_listen(str(ipaddress.IPv4Network(network)[1]), 0)


def can_listen(host: str, port: int) -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def free_port(host: str) -> int:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def moved_ports(host: str, ports: Iterable[int], always: bool) -> dict[int, int]:
    """Free ports for those that cannot be had at this address (`always`: for all of them)."""
    return {port: free_port(host) for port in sorted(set(ports)) if always or not can_listen(host, port)}


def declared_ports(spec: Json) -> set[int]:
    """Every TCP port that a pod's spec names: the containers' own, and those only probes know."""
    return {port for container in containers_of(spec) for port in _ports(container)}


def containers_of(spec: Json) -> Iterator[Json]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _ports(container: Json) -> Iterator[int]:
    yield from (entry["containerPort"] for entry in container.get("ports") or ())
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        for action in ("httpGet", "tcpSocket", "grpc"):
            port = ((container.get(name) or {}).get(action) or {}).get("port")
            if isinstance(port, int) or (isinstance(port, str) and port.isdigit()):
                yield int(port)


def moved_by(pod: Json) -> dict[int, int]:
    """What the annotation of a pod says of its ports."""
    text = ((pod.get("metadata") or {}).get("annotations") or {}).get(PORTS_ANNOTATION, "")
    try:
        return {int(port): int(real) for port, real in msgspec.json.decode(text, type=dict[str, int]).items()}
    except (msgspec.DecodeError, ValueError):
        return {}
