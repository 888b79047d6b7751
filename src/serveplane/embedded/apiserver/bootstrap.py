"""What a new cluster begins with: namespaces, the Service in front of the API, roles and their bindings."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.auth.roles import bindings, cluster_roles
from serveplane.embedded.apiserver.paths import Target
from serveplane.embedded.apiserver.request import ADMIN, Request
from serveplane.embedded.apiserver.writing import create_value
from serveplane.embedded.store import Key
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
MANAGER = {"user-agent": "kube-apiserver"}
PRIORITIES = (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))


async def prepare(core: "Core") -> None:
    """Create what is missing; what is there stays as it is."""
    for name in NAMESPACES:
        await ensure(core, "", "namespaces", {"metadata": {"name": name}})
    for role in cluster_roles():
        await ensure(core, "rbac.authorization.k8s.io", "clusterroles", role)
    for binding in bindings():
        await ensure(core, "rbac.authorization.k8s.io", "clusterrolebindings", binding)
    for name, value in PRIORITIES:
        where = "not be moved from their current node" if "node" in name else "run in the cluster"
        described = f"Used for system critical pods that must {where}."
        await ensure(
            core,
            "scheduling.k8s.io",
            "priorityclasses",
            {"metadata": {"name": name}, "value": value, "description": described},
        )
    await ensure(core, "", "services", _service())


def _service() -> Json:
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}
    return {
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {"clusterIP": "10.96.0.1", "ports": [port]},
    }


async def announce(core: "Core", host: str, port: int) -> None:
    """Say where the API is, as Endpoints and EndpointSlice of the Service `kubernetes`."""
    slices = core.registry.find("discovery.k8s.io", "v1", "endpointslices")
    assert slices is not None
    key = Key("default", "kubernetes")
    value = {
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
    record = core.store.get(slices.bucket, key)
    if record is not None:
        await core.adjust(slices, record, lambda live: live.update(endpoints=value["endpoints"], ports=value["ports"]))
    else:
        await ensure(core, "discovery.k8s.io", "endpointslices", value)


async def ensure(core: "Core", group: str, plural: str, value: Json, version: str = "v1") -> None:
    resource = core.registry.find(group, version, plural)
    assert resource is not None, plural
    namespace = value["metadata"].get("namespace", "")
    if core.store.get(resource.bucket, Key(namespace, value["metadata"]["name"])) is not None:
        return
    target = Target(group, version, plural, namespace)
    request = Request("POST", "", {}, MANAGER, b"", ADMIN, target)
    await create_value(core, request, resource, core.kinds.canonical(resource, value, []))
