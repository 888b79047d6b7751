"""Nothing is created in a namespace that is not there or about to go, and three namespaces never go."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import errors
from serveplane.embedded.store import Key

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


def check(core: "Core", write: "Write") -> None:
    resource = write.resource
    if write.live or not resource.namespaced or resource.group == "authorization.k8s.io":
        return
    namespace = write.value["metadata"]["namespace"]
    record = core.store.get("namespaces", Key("", namespace))
    if record is None:
        raise errors.not_found("namespaces", "", namespace)
    if b'"deletionTimestamp"' in record.data and "deletionTimestamp" in record.value()["metadata"]:
        raise _terminating(write, namespace)


def _terminating(write: "Write", namespace: str) -> errors.Refusal:
    name = write.value["metadata"].get("name", "")
    refusal = errors.forbidden(
        write.resource.plural,
        write.resource.group,
        name,
        f"unable to create new content in namespace {namespace} because it is being terminated",
    )
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    refusal.details = {**(refusal.details or {}), "causes": [cause]}
    return refusal


def check_delete(write: "Write") -> None:
    name = write.live["metadata"]["name"]
    if write.resource.bucket == "namespaces" and name in IMMORTAL:
        raise errors.forbidden("namespaces", "", name, "this namespace may not be deleted")
