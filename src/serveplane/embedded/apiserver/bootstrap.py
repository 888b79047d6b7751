"""What a new cluster begins with."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.paths import Target
from serveplane.embedded.apiserver.request import ADMIN, Request
from serveplane.embedded.apiserver.writing import create_value
from serveplane.embedded.store import Key
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
MANAGER = {"user-agent": "kube-apiserver"}


async def prepare(core: "Core") -> None:
    """Create what is missing; what is there stays as it is."""
    for name in NAMESPACES:
        await ensure(core, "", "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def ensure(core: "Core", group: str, plural: str, value: Json, version: str = "v1") -> None:
    resource = core.registry.find(group, version, plural)
    assert resource is not None, plural
    namespace = value["metadata"].get("namespace", "")
    if core.store.get(resource.bucket, Key(namespace, value["metadata"]["name"])) is not None:
        return
    target = Target(group, version, plural, namespace)
    request = Request("POST", "", {}, MANAGER, b"", ADMIN, target)
    await create_value(core, request, resource, core.kinds.canonical(resource, value, []))
