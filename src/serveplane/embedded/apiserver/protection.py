"""Volumes and claims in use are not deleted under their users: a finalizer holds them until the last user is gone."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.loops import Loop
from serveplane.embedded.store import Change, Conflict, Key, Record
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
FINALIZERS = {CLAIMS: "kubernetes.io/pvc-protection", VOLUMES: "kubernetes.io/pv-protection"}


def protect(bucket: str, value: Json) -> None:
    """Put the finalizer on a new object."""
    finalizer = FINALIZERS.get(bucket)
    if finalizer and finalizer not in (value["metadata"].get("finalizers") or ()):
        value["metadata"]["finalizers"] = [*(value["metadata"].get("finalizers") or ()), finalizer]


class Protection(Loop):
    def __init__(self, core: "Core") -> None:
        super().__init__(core)
        for bucket in (CLAIMS, VOLUMES, "pods"):
            core.store.observe(bucket, self._changed)

    def _changed(self, change: Change) -> None:
        if change.bucket == "pods" and b'"persistentVolumeClaim"' not in change.record.data:
            return
        self.wake()

    async def drain(self) -> None:
        for bucket in (CLAIMS, VOLUMES):
            for record in list(self._core.store.records(bucket)):
                if b'"deletionTimestamp"' in record.data and FINALIZERS[bucket].encode() in record.data:
                    await self._release(bucket, record)

    async def _release(self, bucket: str, record: Record) -> None:
        if self._is_used(bucket, record):
            return
        resource = self._core.stored_resource(bucket)
        assert resource is not None
        try:
            await self._core.adjust(resource, record, lambda value: _without(value, FINALIZERS[bucket]))
        except Conflict:
            self.wake()

    def _is_used(self, bucket: str, record: Record) -> bool:
        if bucket == VOLUMES:
            return bool((record.value().get("status") or {}).get("phase") == "Bound")
        return any(
            _mounts(pod.value(), record.key)
            for pod in self._core.store.records("pods", record.key.namespace)
            if b'"persistentVolumeClaim"' in pod.data
        )


def _mounts(pod: Json, claim: Key) -> bool:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return any((volume.get("persistentVolumeClaim") or {}).get("claimName") == claim.name for volume in volumes)


def _without(value: Json, finalizer: str) -> None:
    kept = [name for name in value["metadata"].get("finalizers") or () if name != finalizer]
    if kept:
        value["metadata"]["finalizers"] = kept
    else:
        value["metadata"].pop("finalizers", None)
