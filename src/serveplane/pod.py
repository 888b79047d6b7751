"""What a program must know of the pod it runs in, on a real node and on the process node alike.

On a real node a pod has a network and a file tree of its own, so every function here answers with what it was given.
On the process node (`serveplane node`) containers are processes that share one machine: a mounted folder lies
elsewhere, a pod has a loopback address of its own, and a port that is taken on this machine is moved. The node says so
in the environment; no program needs to know more than these calls.

    SERVEPLANE_POD_ADDRESS   the address to listen on, and where the other containers of this pod are found
    SERVEPLANE_POD_PORTS     ports that were moved, as JSON: {"8080": 41873}
    SERVEPLANE_POD_MOUNTS    where mounted folders really are, as JSON: {"/mnt/models": "/home/me/.../models"}
    SERVEPLANE_RESOLVE       the cluster's HTTP proxy, which knows Services by name, and the pod's namespace: default@127.0.0.1:8080
"""
import base64
import os
from collections.abc import Mapping
from typing import NamedTuple

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
EVERYWHERE = ("", "0.0.0.0", "::", "127.0.0.1", "localhost", "::1")


class Address(NamedTuple):
    host: str
    port: int


def listen_address(port: int, host: str = "0.0.0.0", environment: Mapping[str, str] = os.environ) -> Address:
    """Where to listen for what the manifest calls this port. A host that is a real address of its own is kept."""
    return _within_pod(port, host, environment)


def sibling_address(port: int, host: str = "127.0.0.1", environment: Mapping[str, str] = os.environ) -> Address:
    """Where another container of the same pod listens, for who would say `localhost:8080`."""
    return _within_pod(port, host, environment)


def real_path(path: str, environment: Mapping[str, str] = os.environ) -> str:
    """The folder or file that the manifest calls by this path; the longest mount above it decides.

    >>> real_path("/mnt/models/1", {"SERVEPLANE_POD_MOUNTS": '{"/mnt/models": "/data/m"}'})
    '/data/m/1'
    """
    mounts = _table(environment, "SERVEPLANE_POD_MOUNTS")
    above = [mount for mount in mounts if path == mount or path.startswith(mount.rstrip("/") + "/")]
    if not above:
        return path
    mount = max(above, key=len)
    return str(mounts[mount]).rstrip("/") + path[len(mount.rstrip("/")):]


def service_account_folder(environment: Mapping[str, str] = os.environ) -> str:
    """The folder with `token`, `ca.crt` and `namespace`, as every pod has it."""
    return real_path(SERVICE_ACCOUNT, environment)


class ClusterProxy(NamedTuple):
    """The HTTP proxy that reaches Services by name, where the machine's own resolver cannot."""
    address: Address
    namespace: str

    def authorization(self) -> bytes:
        """How a request through the proxy says whose short names it means."""
        return b"Basic " + base64.b64encode(f"{self.namespace}:".encode())


def cluster_proxy(environment: Mapping[str, str] = os.environ) -> ClusterProxy | None:
    namespace, _, place = environment.get("SERVEPLANE_RESOLVE", "").rpartition("@")
    host, _, port = place.rpartition(":")
    return ClusterProxy(Address(host, int(port)), namespace) if host and port.isdigit() else None


def is_cluster_name(host: str) -> bool:
    """Whether a host may be a Service: `iris`, `iris.default`, `iris.default.svc[.cluster.local]`.

    Two labels may also be a public name; the proxy tells them apart.

    >>> [is_cluster_name(host) for host in ("iris.default", "a.b.svc.cluster.local", "a.googleapis.com", "127.0.0.1")]
    [True, True, False, False]
    """
    labels = _labels(host)
    return bool(labels) and (len(labels) <= 2 or is_service_name(host))


def is_service_name(host: str) -> bool:
    """Whether a host can be nothing but a Service: one label, or a name that ends as the cluster's own do.

    >>> [is_service_name(host) for host in ("iris", "iris.default", "a.b.svc:8080", "0.a.b.svc.cluster.local")]
    [True, False, True, True]
    """
    labels = _labels(host.partition(":")[0])
    return len(labels) == 1 or labels[2:] == ["svc"] or labels[-3:] == ["svc", "cluster", "local"]


def _labels(host: str) -> list[str]:
    """The labels of a name; none for addresses and for this machine itself."""
    host = host.rstrip(".").casefold()
    labels = host.split(".")
    return [] if labels[-1] == "localhost" or labels[-1].isdigit() or ":" in host or not all(labels) else labels


def _within_pod(port: int, host: str, environment: Mapping[str, str]) -> Address:
    address = environment.get("SERVEPLANE_POD_ADDRESS", "")
    if not address or host not in EVERYWHERE:
        return Address(host, port)
    return Address(address, int(_table(environment, "SERVEPLANE_POD_PORTS").get(str(port), port)))


def _table(environment: Mapping[str, str], name: str) -> dict[str, str | int]:
    text = environment.get(name, "")
    if not text:
        return {}
    from msgspec import json  # a program outside a pod need not load it
    return json.decode(text, type=dict[str, str | int])
