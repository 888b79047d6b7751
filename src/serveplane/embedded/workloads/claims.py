"""PersistentVolumeClaims: each gets a volume that is a folder of this machine.

Existing volumes that fit are taken first (as KServe's local models need it: same class, enough room, the claim's
name if one is reserved); else one is made, with a hostPath that the node puts below its own folder.
"""
from datetime import timedelta

from serveplane.embedded.workloads.cluster import CLAIM, VOLUME, Cluster
from serveplane.kube.controller import Controller
from serveplane.kube.errors import AlreadyExists
from serveplane.kube.kind import Key, is_being_deleted
from serveplane.kube.store import Item
from serveplane.kube.watches import Mapped, Primary, Watch
from serveplane.objects import Json, quantity
from serveplane.objects.selectors import from_selector

STORAGE_CLASS = "local"
FOLDER = "/var/lib/serveplane/volumes"
PROVISIONED = "pv.kubernetes.io/provisioned-by"
PROVISIONER = "serveplane.dev/folder"


def fits(volume: Json, claim: Json) -> bool:
    """Whether an existing volume satisfies the claim."""
    spec, wanted = volume["spec"], claim["spec"]
    reserved = spec.get("claimRef")
    if reserved:
        return bool(reserved.get("name") == claim["metadata"]["name"]
                    and reserved.get("namespace") == claim["metadata"]["namespace"]
                    and reserved.get("uid", claim["metadata"]["uid"]) in ("", claim["metadata"]["uid"]))
    if wanted.get("volumeName"):
        return bool(wanted["volumeName"] == volume["metadata"]["name"])
    if (volume.get("status") or {}).get("phase") not in (None, "Available", "Pending"):
        return False
    if (spec.get("storageClassName") or "") != (wanted.get("storageClassName") or ""):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ()):
        return False
    if wanted.get("selector") and not from_selector(wanted["selector"]).matches(volume["metadata"].get("labels")):
        return False
    return quantity.parse(_size(spec.get("capacity"))) >= quantity.parse(_size((wanted.get("resources") or {})
                                                                              .get("requests")))


def new_volume(claim: Json) -> Json:
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    return {
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED: PROVISIONER}},
        "spec": {"capacity": {"storage": _size((spec.get("resources") or {}).get("requests")) or "1Gi"},
                 "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
                 "persistentVolumeReclaimPolicy": "Delete",
                 "storageClassName": spec.get("storageClassName") or STORAGE_CLASS,
                 "claimRef": _reference(claim), "hostPath": {"path": f"{FOLDER}/{name}", "type": "DirectoryOrCreate"}}}


def _size(amounts: Json | None) -> str:
    return str((amounts or {}).get("storage") or "0")


def _reference(claim: Json) -> Json:
    metadata = claim["metadata"]
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": metadata["name"],
            "namespace": metadata["namespace"], "uid": metadata["uid"]}


class Claims:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def controller(self) -> Controller:
        watches: list[Watch] = [Primary(CLAIM), Mapped(VOLUME, self._claims_of, cluster_scoped=True)]
        return Controller("persistentvolume", self.reconcile, watches, workers=1, clock=self._cluster.clock)

    def _claims_of(self, item: Item) -> list[Key]:
        reserved = item.object["spec"].get("claimRef")
        if reserved:
            return [Key(reserved.get("namespace", ""), reserved["name"])]
        return [claim.key for claim in self._cluster.informer(CLAIM).items()
                if (claim.object.get("status") or {}).get("phase") != "Bound"]

    async def reconcile(self, key: Key) -> timedelta | None:
        claim = self._cluster.informer(CLAIM).get(*key)
        if claim is None or is_being_deleted(claim):
            await self._release(key, claim)
            return None
        volume = await self._volume(claim)
        if volume is None:
            return None
        if (volume.get("status") or {}).get("phase") != "Bound":
            await self._cluster.write_status(volume, {"phase": "Bound"})
        if claim["spec"].get("volumeName") != volume["metadata"]["name"]:
            annotations = {**(claim["metadata"].get("annotations") or {}), "pv.kubernetes.io/bind-completed": "yes"}
            spec = {**claim["spec"], "volumeName": volume["metadata"]["name"]}
            claim = await self._cluster.update(
                {**claim, "metadata": {**claim["metadata"], "annotations": annotations}, "spec": spec})
        status = {"phase": "Bound", "accessModes": volume["spec"].get("accessModes"),
                  "capacity": volume["spec"].get("capacity")}
        await self._cluster.write_status(claim, status)
        return None

    async def _volume(self, claim: Json) -> Json | None:
        """The volume of a claim: the bound one, one that fits, or a new one."""
        volumes = self._cluster.informer(VOLUME).list()
        bound = claim["spec"].get("volumeName")
        fitting = [volume for volume in volumes if fits(volume, claim)]
        if bound:
            named = [volume for volume in fitting if volume["metadata"]["name"] == bound]
            if named:
                return await self._reserved(named[0], claim)
            await self._wait(claim)
            return None
        if fitting:
            return await self._reserved(min(fitting, key=_preference), claim)
        if claim["spec"].get("selector") or claim["spec"].get("storageClassName") == "":
            await self._wait(claim)
            return None
        try:
            return await self._cluster.create(new_volume(claim))
        except AlreadyExists:
            return await self._cluster.client.get(VOLUME, f"pvc-{claim['metadata']['uid']}")

    async def _reserved(self, volume: Json, claim: Json) -> Json:
        reference = _reference(claim)
        if (volume["spec"].get("claimRef") or {}).get("uid") == reference["uid"]:
            return volume
        return await self._cluster.update({**volume, "spec": {**volume["spec"], "claimRef": reference}})

    async def _wait(self, claim: Json) -> None:
        await self._cluster.write_status(claim, {"phase": "Pending"})

    async def _release(self, key: Key, claim: Json | None) -> None:
        """The volume of a claim that is gone: ours is deleted (the folder stays until the node clears it), others wait."""
        if claim is not None:
            return
        for volume in self._cluster.informer(VOLUME).list():
            reserved = volume["spec"].get("claimRef") or {}
            if (reserved.get("namespace"), reserved.get("name")) != tuple(key) or not reserved.get("uid"):
                continue
            policy = volume["spec"].get("persistentVolumeReclaimPolicy")
            if policy == "Delete" and not is_being_deleted(volume):
                await self._cluster.delete(volume)
            elif (volume.get("status") or {}).get("phase") == "Bound":
                await self._cluster.write_status(volume, {"phase": "Released"})


def _preference(volume: Json) -> tuple[bool, str]:
    return not volume["spec"].get("claimRef"), str(volume["metadata"]["name"])
