"""Services by their names in the cluster's DNS, read from a Host header. Pure."""
from functools import lru_cache
from typing import NamedTuple

from serveplane.embedded.gateway.rules import ServiceName


class Named(NamedTuple):
    service: ServiceName
    port: int


@lru_cache(maxsize=4096)
def split_host(host: str, default_port: int = 80) -> tuple[str, int]:
    """
    >>> split_host("Iris.default:8080"), split_host("[::1]:80"), split_host("iris")
    (('iris.default', 8080), ('[::1]', 80), ('iris', 80))
    """
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdigit() or (host.startswith("[") and not name.endswith("]")):
        name, port = host, str(default_port)
    return name.rstrip(".").lower(), int(port)


def service_of(host: str) -> Named | None:
    """The Service that a host may mean; whether it exists is for the caller to see.

    >>> service_of("iris-predictor.default.svc.cluster.local:8080")
    Named(service=ServiceName(namespace='default', name='iris-predictor'), port=8080)
    """
    name, port = split_host(host)
    labels = name.split(".")
    if labels[-3:] == ["svc", "cluster", "local"]:
        labels = labels[:-3]
    elif labels[-1] == "svc":
        labels = labels[:-1]
    if len(labels) < 2 or not all(labels):
        return None
    return Named(ServiceName(labels[-1], labels[-2]), port)
