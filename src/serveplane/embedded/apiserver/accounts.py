"""serviceaccounts/token: a token on request, possibly bound to a pod, node or secret."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import body, errors
from serveplane.embedded.apiserver.auth import tokens
from serveplane.embedded.apiserver.kinds.typed import read_as
from serveplane.embedded.apiserver.reading import found
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.apiserver.writing import now
from serveplane.embedded.store import Key
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

SHORTEST, LONGEST = 600, 1 << 32
KINDS = {"Pod": ("pod", "pods"), "Node": ("node", "nodes"), "Secret": ("secret", "secrets")}


async def token(core: "Core", request: Request, resource: Resource) -> Answer:
    account = found(core, resource, request.target.namespace, request.target.name).value()
    value = read_as("authentication.k8s.io", "v1", "TokenRequest", body.decoded(request) if request.body else {})
    spec = value.get("spec") or {}
    seconds = spec.get("expirationSeconds") or 3600
    _check_seconds(seconds)
    audiences = spec.get("audiences") or [tokens.AUDIENCE]
    bound = _bound(core, account, spec.get("boundObjectRef"))
    signed, until = tokens.issue(core, core.authenticator.signer, account, audiences, seconds, bound)
    metadata = {
        "name": account["metadata"]["name"],
        "namespace": account["metadata"]["namespace"],
        "creationTimestamp": now(core),
    }
    reference = {"boundObjectRef": spec.get("boundObjectRef")}
    answer = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": metadata,
        "spec": {"audiences": audiences, "expirationSeconds": seconds, **reference},
        "status": {"token": signed, "expirationTimestamp": until},
    }
    return Answer(201, errors.encoded(answer))


def _check_seconds(seconds: int) -> None:
    why = ""
    if seconds < SHORTEST:
        why = "may not specify a duration less than 10 minutes"
    elif seconds > LONGEST:
        why = "may not specify a duration larger than 2^32 seconds"
    if why:
        cause = errors.Cause("FieldValueInvalid", f"Invalid value: {seconds}: {why}", "spec.expirationSeconds")
        raise errors.invalid("TokenRequest", "authentication.k8s.io", "", [cause])


def _bound(core: "Core", account: Json, reference: Json | None) -> Json | None:
    """The claim for the object a token shall live and die with."""
    if not reference:
        return None
    kind, bucket = KINDS.get(reference.get("kind", ""), ("", ""))
    if not kind:
        raise errors.bad_request(f"cannot bind token for serviceaccount to type {reference.get('kind')}")
    namespace = "" if kind == "node" else account["metadata"]["namespace"]
    record = core.store.get(bucket, Key(namespace, reference.get("name", "")))
    if record is None:
        raise errors.not_found(bucket, "", reference.get("name", ""))
    value = record.value()
    uid = value["metadata"]["uid"]
    if reference.get("uid") and reference["uid"] != uid:
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(bucket, "", reference["name"], why)
    claim: Json = {kind: {"name": reference["name"], "uid": uid}}
    node = (value.get("spec") or {}).get("nodeName") if kind == "pod" else None
    if node:
        hosted = core.store.get("nodes", Key("", node))
        claim["node"] = {"name": node, **({"uid": hosted.value()["metadata"]["uid"]} if hosted else {})}
    if kind == "pod" and (value.get("spec") or {}).get("serviceAccountName") != account["metadata"]["name"]:
        raise errors.bad_request(
            f'cannot bind token for serviceaccount "{account["metadata"]["name"]}" to pod running with different serviceaccount name.'
        )
    return claim
