"""Custom resources between their versions: by name only, or by a webhook."""

from typing import TYPE_CHECKING, Any

import msgspec

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.apiserver.webhooks import CallFailed
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

TIMEOUT = 30.0
UNCHANGEABLE = ("name", "namespace", "uid")


class Conversion:
    """`spec.conversion` of a definition."""

    def __init__(self, value: Json) -> None:
        self._strategy = value.get("strategy") or "None"
        self._webhook: Json = value.get("webhook") or {}

    async def encoded(self, core: "Core", resource: Resource, items: list[bytes]) -> list[bytes]:
        """Stored bytes in the wanted version; those that are in it already stay the same bytes."""
        start = b'{"kind":"%s","apiVersion":"%s",' % (resource.kind.encode(), resource.api_version.encode())
        others = [index for index, item in enumerate(items) if not item.startswith(start)]
        if not others:
            return items
        converted = await self.values(core, resource, [msgspec.json.decode(items[index]) for index in others])
        out = list(items)
        for index, value in zip(others, converted, strict=True):
            out[index] = errors.encoded(value)
        return out

    async def values(self, core: "Core", resource: Resource, values: list[Json]) -> list[Json]:
        wanted = resource.api_version
        others = [value for value in values if value["apiVersion"] != wanted]
        if not others:
            return values
        if self._strategy == "None":
            converted = [{**value, "apiVersion": wanted} for value in others]
        else:
            converted = await self._ask(core, resource, others)
        fresh = iter(converted)
        return [value if value["apiVersion"] == wanted else _finished(resource, next(fresh)) for value in values]

    async def _ask(self, core: "Core", resource: Resource, values: list[Json]) -> list[Json]:
        version = next((v for v in self._webhook.get("conversionReviewVersions") or () if v in ("v1", "v1beta1")), "v1")
        uid = core.clock.uuid()
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{version}",
            "request": {"uid": uid, "desiredAPIVersion": resource.api_version, "objects": values},
        }
        try:
            answer = await core.webhooks.call(self._webhook["clientConfig"], review, TIMEOUT, "?timeout=30s")
        except CallFailed as error:
            raise _failed(resource, values[0], str(error)) from None
        return _converted(resource, values, answer.get("response") or {}, uid)


def _failed(resource: Resource, value: Json, why: str) -> errors.Refusal:
    source = f"{value['apiVersion']}, Kind={value['kind']}"
    message = f"conversion webhook for {source} failed: {why}"
    return errors.Refusal(500, "", message)


def _converted(resource: Resource, values: list[Json], response: Json, uid: str) -> list[Json]:
    result: Json = response.get("result") or {}
    if result.get("status") != "Success":
        raise _failed(resource, values[0], result.get("message") or "the webhook gave no reason")
    objects: Any = response.get("convertedObjects") or []
    if response.get("uid") != uid or not isinstance(objects, list) or len(objects) != len(values):
        raise _failed(resource, values[0], f"webhook returned {len(objects)} objects, expected {len(values)}")
    return [_checked(resource, old, new) for old, new in zip(values, objects, strict=True)]


def _checked(resource: Resource, old: Json, new: Any) -> Json:
    """A webhook may convert, but not rename: of metadata only labels and annotations are taken from it."""
    if not isinstance(new, dict) or new.get("apiVersion") != resource.api_version or new.get("kind") != resource.kind:
        raise _failed(resource, old, f"invalid converted object: expected {resource.api_version}, Kind={resource.kind}")
    metadata = new.get("metadata") or {}
    for field in UNCHANGEABLE:
        if metadata.get(field, "") != old["metadata"].get(field, ""):
            raise _failed(resource, old, f"invalid metadata of object: metadata.{field} changed")
    kept = {key: item for key, item in old["metadata"].items() if key not in ("labels", "annotations")}
    taken = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return {**new, "metadata": {**kept, **taken}}


def _finished(resource: Resource, value: Json) -> Json:
    rest = {key: item for key, item in value.items() if key not in ("kind", "apiVersion")}
    return {"kind": resource.kind, "apiVersion": resource.api_version, **rest}
