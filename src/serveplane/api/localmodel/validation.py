"""Which cached models are refused, and which may not be deleted yet."""

from collections.abc import Iterable, Iterator

from serveplane.api import keys
from serveplane.api.localmodel.types import LocalModelCache
from serveplane.api.model import read
from serveplane.api.problem import METADATA, SPEC, FieldError
from serveplane.objects import Json

USERS = (("inferenceServices", "InferenceService"), ("llmInferenceServices", "LLMInferenceService"))


def problems(obj: Json, old: Json | None, others: Iterable[Json], groups: Iterable[Json]) -> list[FieldError]:
    """`others`: the caches of the cluster; `groups`: the node groups. Both are only looked at where they matter."""
    if old is not None and (old.get("metadata") or {}).get("deletionTimestamp"):
        return []
    cache = read(LocalModelCache, obj)
    found = list(_namespaced_problems(cache, groups) if cache.namespace else _cluster_problems(cache, others))
    if old is not None and read(LocalModelCache, old).spec.source_model_uri != cache.spec.source_model_uri:
        found.append(FieldError(SPEC / "sourceModelUri", "cannot be changed: make another cache"))
    return found


def _cluster_problems(cache: LocalModelCache, others: Iterable[Json]) -> Iterator[FieldError]:
    for other in others:
        name = other["metadata"]["name"]
        if name != cache.name and (other.get("spec") or {}).get("sourceModelUri") == cache.spec.source_model_uri:
            yield FieldError(SPEC / "sourceModelUri", f"{cache.spec.source_model_uri} is cached by {name} already")


def _namespaced_problems(cache: LocalModelCache, groups: Iterable[Json]) -> Iterator[FieldError]:
    known = {group["metadata"]["name"] for group in groups}
    for index, name in enumerate(cache.spec.node_groups):
        if name not in known:
            yield FieldError(SPEC / "nodeGroups" / index, f"there is no LocalModelNodeGroup {name!r}")


def deletion_problems(obj: Json, services: Iterable[Json]) -> list[FieldError]:
    """A cache stays while a service that its status names still mounts it; one that is gone does not hold it."""
    cache = read(LocalModelCache, obj)
    by_name = {
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]): item["metadata"].get("labels")
        or {}
        for item in services
    }
    found = []
    for field, kind in USERS:
        for user in (obj.get("status") or {}).get(field) or []:
            labels = by_name.get((kind, user.get("namespace"), user.get("name")), {})
            if _uses(labels, cache):
                where = f"{kind} {user.get('namespace')}/{user.get('name')}"
                found.append(
                    FieldError(METADATA / "name", f"the model is in use by {where}; delete or change that first")
                )
    return found


def _uses(labels: Json, cache: LocalModelCache) -> bool:
    if labels.get(keys.LOCAL_MODEL) != cache.name:
        return False
    return not cache.namespace or labels.get(keys.LOCAL_MODEL_NAMESPACE) == cache.namespace
