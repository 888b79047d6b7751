"""The writes a controller makes to its own primary object: status once per reconcile, finalizers, annotations."""

from collections.abc import Sequence

from serveplane.kube.client import Client, PatchType
from serveplane.kube.informers import Informer
from serveplane.kube.kind import key_of, kind_of
from serveplane.objects import Json
from serveplane.objects.equality import same
from serveplane.objects.jsonpatch import merge_patch
from serveplane.objects.schema import UNKNOWN_KIND


async def write_status(client: Client, obj: Json, status: Json, informer: Informer | None = None) -> Json:
    """Write a status if it differs from the one at hand; no request otherwise.

    Raises `Conflict` when the object moved on since it was read; the controller then looks again.
    """
    if same(obj.get("status") or {}, status, UNKNOWN_KIND):
        return obj
    change = merge_patch(obj.get("status") or {}, status)
    body = {"metadata": {"resourceVersion": obj["metadata"].get("resourceVersion")}, "status": change}
    key = key_of(obj)
    answered = await client.patch(kind_of(obj), key.name, key.namespace, body, subresource="status")
    if informer is not None:
        informer.note(answered)
    return answered


async def set_finalizers(
    client: Client, obj: Json, finalizers: Sequence[str], informer: Informer | None = None
) -> Json:
    """Make these the object's finalizers, unless someone changed it since it was read."""
    return await _patch_metadata(client, obj, {"finalizers": list(finalizers)}, informer)


async def add_finalizer(client: Client, obj: Json, finalizer: str, informer: Informer | None = None) -> Json:
    have = obj["metadata"].get("finalizers") or []
    return obj if finalizer in have else await set_finalizers(client, obj, [*have, finalizer], informer)


async def remove_finalizer(client: Client, obj: Json, finalizer: str, informer: Informer | None = None) -> Json:
    have = obj["metadata"].get("finalizers") or []
    if finalizer not in have:
        return obj
    return await set_finalizers(client, obj, [name for name in have if name != finalizer], informer)


async def _patch_metadata(client: Client, obj: Json, change: Json, informer: Informer | None) -> Json:
    key = key_of(obj)
    body = {"metadata": {**change, "resourceVersion": obj["metadata"].get("resourceVersion")}}
    answered = await client.patch(kind_of(obj), key.name, key.namespace, body, patch_type=PatchType.MERGE)
    if informer is not None and not answered.get("metadata", {}).get("deletionTimestamp"):
        informer.note(answered)
    return answered
