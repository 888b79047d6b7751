"""Pods that cannot be created for want of a Secret or a ServiceAccount: it is looked for, less and less often, until it is there.

Neither kind is watched, and a ReplicaSet whose pods were refused tries again by itself only after up to a quarter of an hour. So
when the object has come, its Deployment is marked, which makes the ReplicaSet try at once. The mark is no part of the pod template.
"""
import re
from collections.abc import Iterable
from typing import NamedTuple

from serveplane.clock import Clock, timestamp
from serveplane.controllers.inferenceservice.credentials import SECRET, SERVICE_ACCOUNT
from serveplane.controllers.inferenceservice.world import DEPLOYMENT
from serveplane.kube.client import Client, PatchType
from serveplane.kube.kind import Kind
from serveplane.objects import Json
from serveplane.objects.conditions import condition

MARK = "serveplane.dev/tried-again"
MARKER = "serveplane-retry"
_SECRET = re.compile(r"there is no secret (\S+)|the secret (\S+) has no key (\S+)")
_ACCOUNT = re.compile(r'serviceaccount "([^"]+)" not found', re.IGNORECASE)


class Want(NamedTuple):
    """What a Deployment's pods lack."""
    kind: Kind
    name: str
    key: str = ""


def want_of(deployment: Json) -> Want | None:
    """By the words with which its pods were refused: those of our own webhook, or of the server's admission."""
    refusal = condition((deployment.get("status") or {}).get("conditions"), "ReplicaFailure") or {}
    words = str(refusal.get("message") or "") if refusal.get("status") == "True" else ""
    if found := _SECRET.search(words):
        return Want(SECRET, found[1] or found[2], found[3] or "")
    if found := _ACCOUNT.search(words):
        return Want(SERVICE_ACCOUNT, found[1])
    return None


def stalled(live: Iterable[Json]) -> list[tuple[Json, Want]]:
    return [(child, want) for child in live if child["kind"] == DEPLOYMENT.kind and (want := want_of(child))]


async def try_again(client: Client, waiting: Iterable[tuple[Json, Want]], clock: Clock) -> None:
    """Have the pods of those whose want has come created now."""
    for deployment, want in waiting:
        metadata = deployment["metadata"]
        found = await client.find(want.kind, want.name, metadata["namespace"])
        if found is not None and (not want.key or want.key in (found.get("data") or {})):
            body = {"metadata": {"uid": metadata["uid"], "annotations": {MARK: timestamp(clock.now())}}}
            await client.patch(DEPLOYMENT, metadata["name"], metadata["namespace"], body, patch_type=PatchType.MERGE, field_manager=MARKER)
