"""The shapes of kinds that are not Kubernetes' own, learnt from the server's OpenAPI document once per group and
version.

Field sets can only be foretold where it is known which lists go by key. Every authenticated client may read OpenAPI,
so this
needs no permission to read CRDs. Where nothing can be learnt, lists count as atomic and the engine falls back on what
the
server answered to the last apply.
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


class Shapes:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[Kind, Shape] = {}
        self._asked: set[str] = set()
        self._lock = asyncio.Lock()

    async def of(self, kind: Kind) -> Shape:
        known = self._known.get(kind) or builtin(kind.api_version, kind.kind)
        if known is None and kind.api_version not in self._asked:
            async with self._lock:
                if kind.api_version not in self._asked:
                    await self._learn(kind)
            known = self._known.get(kind)
        return known or UNKNOWN_KIND

    def forget(self, kind: Kind) -> None:
        """The server's answer did not fit the shape: its schema may be a newer one."""
        if kind in self._known:
            self._known = {
                other: shape for other, shape in self._known.items() if other.api_version != kind.api_version
            }
            self._asked.discard(kind.api_version)

    async def _learn(self, kind: Kind) -> None:
        try:
            document = await self._client.document(f"/openapi/v3{kind.path}")
        except KubeError as error:
            LOG.debug("no OpenAPI document for %s: %s", kind.api_version, error)
            return
        self._asked.add(kind.api_version)
        for name, shape in _shapes(document).items():
            self._known[name] = shape


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
    """A single `allOf` with a reference is how OpenAPI v3 attaches a description; what it refers to is metadata,
    known anyway.
    """
    if isinstance(schema, dict):
        return {name: _inlined(value) for name, value in schema.items() if name not in ("allOf", "$ref")}
    return schema
