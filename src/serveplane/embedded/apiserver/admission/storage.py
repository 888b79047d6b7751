"""Defaults that come from other objects: the default storage class and the default ingress class."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.protection import protect

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write

STORAGE = "storageclass.kubernetes.io/is-default-class"
INGRESS = "ingressclass.kubernetes.io/is-default-class"


def mutate(core: "Core", write: "Write") -> None:
    if write.live:
        return
    protect(write.resource.bucket, write.value)
    spec = write.value.get("spec") or {}
    if write.resource.bucket == "persistentvolumeclaims" and spec.get("storageClassName") is None:
        name = _default(core, "storageclasses.storage.k8s.io", STORAGE)
        if name:
            spec["storageClassName"] = name
    annotations = write.value["metadata"].get("annotations") or {}
    if (
        write.resource.bucket == "ingresses.networking.k8s.io"
        and not spec.get("ingressClassName")
        and "kubernetes.io/ingress.class" not in annotations
    ):
        name = _default(core, "ingressclasses.networking.k8s.io", INGRESS)
        if name:
            spec["ingressClassName"] = name


def _default(core: "Core", bucket: str, annotation: str) -> str:
    """The newest of those marked as default."""
    marked = [
        record
        for record in core.store.records(bucket)
        if annotation.encode() in record.data
        and (record.value()["metadata"].get("annotations") or {}).get(annotation) == "true"
    ]
    return (
        max(marked, key=lambda record: (record.value()["metadata"]["creationTimestamp"], record.key.name)).key.name
        if marked
        else ""
    )
