"""The write a controller makes to its own primary object: status, once per reconcile."""

from serveplane.kube.client import Client
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
