"""Defaults that come from other objects: the default storage class and the default ingress class."""

from fractions import Fraction
from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.kinds.usage import STORAGE_CLASS_ANNOTATION
from serveplane.embedded.apiserver.protection import protect
from serveplane.embedded.store import Key
from serveplane.objects import Json, quantity

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


def check(core: "Core", write: "Write") -> None:
    """A claim may only grow where the class that made its volume lets it."""
    if write.resource.bucket != "persistentvolumeclaims" or not write.live or write.subresource:
        return
    if _size(write.value) <= _size(write.live):
        return
    name = write.value["metadata"]["name"]
    if (write.live.get("status") or {}).get("phase") != "Bound":
        raise errors.forbidden("persistentvolumeclaims", "", name, "Only bound persistent volume claims can be expanded")
    if not _may_grow(core, _class(write.value), _class(write.live)):
        why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
        raise errors.forbidden("persistentvolumeclaims", "", name, why)


def _size(claim: Json) -> Fraction:
    return quantity.parse(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0"))


def _class(claim: Json) -> str:
    annotations = claim["metadata"].get("annotations") or {}
    return annotations.get(STORAGE_CLASS_ANNOTATION) or claim["spec"].get("storageClassName") or ""


def _may_grow(core: "Core", new: str, old: str) -> bool:
    record = core.store.get("storageclasses.storage.k8s.io", Key("", new)) if new and new == old else None
    return record is not None and bool(record.value().get("allowVolumeExpansion"))


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
