"""Services by their names in the cluster's DNS, read from a Host header. Pure."""
import base64
import binascii
import re
from functools import lru_cache
from typing import NamedTuple

from serveplane.embedded.gateway.rules import ServiceName

MODEL = re.compile(r"/v[12]/models/([^/:?]+)(?:[/:].*)?$")


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


def model_of(path: str) -> str:
    """The model that a path of the inference protocols names, or nothing.

    >>> model_of("/v1/models/iris:predict"), model_of("/v2/models/iris/infer"), model_of("/v1/models"), model_of("/serving")
    ('iris', 'iris', '', '')
    """
    found = MODEL.match(path)
    return found[1] if found else ""


@lru_cache(maxsize=64)   # as many pods as ask at a time; whatever else is sent here must not stay
def proxy_user(credentials: str | None) -> str:
    """Who asks a proxy, by `http://USER@proxy`: the node puts a pod's namespace there. It opens nothing, so it proves nothing.

    >>> proxy_user("Basic ZGVmYXVsdDo="), proxy_user(None), proxy_user("Basic !")
    ('default', '', '')
    """
    scheme, _, text = (credentials or "").partition(" ")
    try:
        return base64.b64decode(text, validate=True).decode().partition(":")[0] if scheme.lower() == "basic" else ""
    except (binascii.Error, UnicodeDecodeError):
        return ""
