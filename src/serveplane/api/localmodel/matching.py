"""Which cached model a storage URI belongs to."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from serveplane.api import keys
from serveplane.api.localmodel.types import LocalModelCache

CachedModel = LocalModelCache


class Match(NamedTuple):
    """What a service is marked with when its model is cached."""

    labels: dict[str, str]
    annotations: dict[str, str]


def is_within(cached: str, wanted: str) -> bool:
    """Equal, or a path below it; one trailing slash does not count.

    >>> is_within("s3://b/m", "s3://b/m/v1"), is_within("s3://b/m", "s3://b/model"), is_within("s3://b/m/", "s3://b/m")
    (True, False, True)
    """
    cached, wanted = cached.removesuffix("/"), wanted.removesuffix("/")
    return wanted == cached or wanted.startswith(cached + "/")


def matching_cache(
    caches: Iterable[CachedModel], uri: str, namespace: str, annotations: Mapping[str, str]
) -> Match | None:
    """The first cache that has the URI in the node group asked for; the namespace's own come first."""
    group = annotations.get(keys.NODE_GROUP)
    usable = [cache for cache in caches if cache.namespace in ("", namespace)]
    for cache in sorted(usable, key=lambda cache: not cache.namespace):
        groups = cache.spec.node_groups
        if is_within(cache.spec.source_model_uri, uri) and groups and (group is None or group in groups):
            return _match(cache, group or groups[0])
    return None


def _match(cache: CachedModel, group: str) -> Match:
    labels = {keys.LOCAL_MODEL: cache.name}
    if cache.namespace:
        labels[keys.LOCAL_MODEL_NAMESPACE] = cache.namespace
    pvc = f"{cache.name}-{group}"
    return Match(labels, {keys.LOCAL_MODEL_SOURCE_URI: cache.spec.source_model_uri, keys.LOCAL_MODEL_PVC: pvc})
