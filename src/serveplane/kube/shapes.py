"""The shapes of kinds that are not Kubernetes' own, learnt from the server's OpenAPI document once per group and version.

Field sets can only be foretold where it is known which lists go by key. Every authenticated client may read OpenAPI, so
this needs no permission to read CRDs. Where nothing can be learnt, lists count as atomic and the engine falls back on
what the server answered to the last apply.
"""

import asyncio
import logging
from typing import Any

from serveplane.kube.client import Client
from serveplane.kube.errors import KubeError
from serveplane.kube.kind import Kind
from serveplane.objects import Json
from serveplane.objects.schema import UNKNOWN_KIND, Shape, builtin, structural

LOG = logging.getLogger(__name__)
FRESH_SECONDS = 300.0  # a shape that does not fit is asked for again after this
MISSING_SECONDS = 15.0  # one that is not there (yet: servers publish new CRDs with a delay) after this


class Shapes:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[Kind, Shape] = {}
        self._asked: dict[str, float] = {}  # apiVersion -> when
        self._lock = asyncio.Lock()

    async def of(self, kind: Kind) -> Shape:
        known = self._known.get(kind) or builtin(kind.api_version, kind.kind)
        if known is None and self._age(kind) > MISSING_SECONDS:
            async with self._lock:
                if kind not in self._known and self._age(kind) > MISSING_SECONDS:
                    await self._learn(kind)
            known = self._known.get(kind)
        return known or UNKNOWN_KIND

    def _age(self, kind: Kind) -> float:
        """How long ago the kind's document was asked for."""
        return self._client.clock.monotonic() - self._asked.get(kind.api_version, float("-inf"))

    def forget(self, kind: Kind) -> None:
        """The server's answer did not fit the shape: its schema may be a newer one. Asked for again, but not all the time."""
        if kind in self._known and self._age(kind) > FRESH_SECONDS:
            self._known = {
                other: shape for other, shape in self._known.items() if other.api_version != kind.api_version
            }
            del self._asked[kind.api_version]

    async def _learn(self, kind: Kind) -> None:
        self._asked[kind.api_version] = self._client.clock.monotonic()
        try:
            document = await self._client.document(f"/openapi/v3{kind.path}")
        except KubeError as error:
            LOG.debug("no OpenAPI document for %s: %s", kind.api_version, error)
            return
        self._known.update(_shapes(document))


def _shapes(document: Json) -> dict[Kind, Shape]:
    schemas = (document.get("components") or {}).get("schemas") or {}
    found: dict[Kind, Shape] = {}
    for schema in schemas.values():
        for kind in schema.get("x-kubernetes-group-version-kind") or ():
            version = f"{kind['group']}/{kind['version']}" if kind.get("group") else kind["version"]
            if "spec" in (schema.get("properties") or {}) or "metadata" in (schema.get("properties") or {}):
                found[Kind(version, kind["kind"])] = structural(_inlined(schema))
    return found


def _inlined(schema: Any) -> Any:
    """A single `allOf` with a reference is how OpenAPI v3 attaches a description; what it refers to is metadata, known anyway."""
    if isinstance(schema, dict):
        return {name: _inlined(value) for name, value in schema.items() if name not in ("allOf", "$ref")}
    return schema
