"""Admission of every kind, as the webhook server and the offline commands call it.

Both verbs are pure and total. What they need to know of the cluster comes in a `Context`, read from caches beforehand,
so that a review never waits for the API server.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import NamedTuple

from serveplane.api import keys, servingruntimes, storagecontainer, trainedmodel
from serveplane.api.crds import DEFINITIONS, Version, version_schema
from serveplane.api.inferencegraph import validation as graph_validation
from serveplane.api.inferenceservice import defaults as service_defaults
from serveplane.api.inferenceservice import validation as service_validation
from serveplane.api.inferenceservice import warnings as service_warnings
from serveplane.api.llminferenceservice import conversion
from serveplane.api.llminferenceservice import defaults as llm_defaults
from serveplane.api.llminferenceservice import validation as llm_validation
from serveplane.api.localmodel import validation as cache_validation
from serveplane.api.localmodel.types import LocalModelCache
from serveplane.api.mode import parse_mode
from serveplane.api.model import read
from serveplane.api.policy import Policy
from serveplane.api.problem import FieldError, FieldPath
from serveplane.api.storagecontainer import ClusterStorageContainer
from serveplane.api.storing import pruned, with_defaults
from serveplane.api.structure import MISSING, is_too_deep, structure_problems, unknown_fields
from serveplane.objects import Json

Lookup = Callable[[str, str], Iterable[Json]]
"""`lookup(kind, namespace)`: the objects of a kind of ours that the caches hold; an empty namespace means all."""


def nothing(_kind: str, _namespace: str) -> Iterable[Json]:
    return ()


class Context(NamedTuple):
    """What a review may look at beside the object."""

    policy: Policy = Policy()
    objects: Lookup = nothing
    namespace: str = "kserve"
    """Where presets live."""
    presets: frozenset[str] = frozenset()
    """Names of LLMInferenceServiceConfigs that services are built on without naming them."""
    keep_presets: bool = False
    """Whether presets may not be deleted."""


UNAWARE = Context()
"""Knows what KServe ships and no other object."""


class Verdict(NamedTuple):
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        return not self.errors


def mutate(obj: Json, context: Context = UNAWARE) -> Json:
    """The object with its defaults; one that its schema refuses comes back unchanged, since validation will answer."""
    step = MUTATIONS.get(str(obj.get("kind")))
    if step is None or _version_and_kind(obj) not in SCHEMAS or is_too_deep(obj) or not _is_object(obj):
        return obj
    return step(obj, context)


def _is_object(obj: Json) -> bool:
    """A version that is converted before it is looked at is checked after that, when all its fields are there."""
    return isinstance(obj.get("metadata"), dict) and (obj["apiVersion"] == conversion.OLDER or _is_readable(obj))


def stored(obj: Json, context: Context = UNAWARE) -> Json:
    """The object as an API server would store it: unknown fields pruned, our defaults and the schema's filled in."""
    if is_too_deep(obj):
        return obj
    schema = _schema(obj)
    result: Json = with_defaults(mutate(pruned(obj, schema), context), schema)
    return result


def validate(obj: Json, old: Json | None = None, context: Context = UNAWARE) -> Verdict:
    """Whether the object may be stored, with every reason against it and everything worth a warning."""
    if _version_and_kind(obj) not in SCHEMAS:
        return Verdict()
    if is_too_deep(obj):
        return Verdict((FieldError(FieldPath("spec"), "is nested too deeply"),))
    if errors := _structure(obj):
        return Verdict(tuple(errors))
    check = VALIDATIONS.get(str(obj["kind"]))
    if check is not None and not isinstance(obj.get("spec"), dict):
        return Verdict((FieldError(FieldPath("spec"), "is required"),))
    verdict = check(obj, old, context) if check else Verdict()
    if not verdict.allowed:
        return verdict
    # Under the full definitions these are pruned before we see them; under the minimal ones they are kept.
    unknown = (f"{path}: unknown field, it has no effect" for path in unknown_fields(obj, _schema(obj)))
    return verdict._replace(warnings=(*verdict.warnings, *unknown))


def _version_and_kind(obj: Json) -> tuple[str, str]:
    return str(obj.get("apiVersion")), str(obj.get("kind"))


def _schema(obj: Json) -> Json:
    return SCHEMAS.get(_version_and_kind(obj), lambda: {"type": "object"})()


def _structure(obj: Json) -> list[FieldError]:
    """What is wrong with the structure. Metadata is the API server's own and only looked at as far as we read it."""
    metadata = obj.get("metadata")
    found = structure_problems(obj, _schema(obj))
    return found + structure_problems({} if metadata is None else metadata, METADATA_SCHEMA)


def _is_readable(obj: Json) -> bool:
    """Whether every value has its type. What is missing may still come: defaults name a container that has no name."""
    return all(problem.message == MISSING for problem in _structure(obj))


_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
METADATA_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": _STRINGS,
        "annotations": _STRINGS,
    },
}


@cache
def _version_schema(version: Version) -> Json:
    return version_schema(version)


def prepare(*kinds: tuple[str, str]) -> None:
    """Put together the schemas of these (apiVersion, kind) now rather than during the first review."""
    for kind in kinds:
        SCHEMAS[kind]()


SCHEMAS: Mapping[tuple[str, str], Callable[[], Json]] = {
    (f"serving.kserve.io/{version.name}", row.kind): partial(_version_schema, version)
    for row in DEFINITIONS
    for version in row.versions
}


def _mutate_service(obj: Json, context: Context) -> Json:
    return service_defaults.defaulted(obj, context.policy, _caches(obj, context) if context.policy.local_models else ())


def _caches(obj: Json, context: Context) -> list[LocalModelCache]:
    found = [*context.objects("LocalModelNamespaceCache", _namespace(obj)), *context.objects("LocalModelCache", "")]
    return [read(LocalModelCache, cache) for cache in found]


def _validate_service(obj: Json, old: Json | None, context: Context) -> Verdict:
    containers = [read(ClusterStorageContainer, item) for item in context.objects("ClusterStorageContainer", "")]
    errors = service_validation.problems(obj, old, context.policy, containers)
    return Verdict(tuple(errors), tuple(service_warnings.warnings(obj, context.policy)) if not errors else ())


def _namespace(obj: Json) -> str:
    return str((obj.get("metadata") or {}).get("namespace") or "")


def _preset_deletion(obj: Json, context: Context) -> Verdict:
    metadata = obj.get("metadata") or {}
    if metadata.get("namespace") != context.namespace or str(metadata.get("name")) not in context.presets:
        return Verdict()
    message = f"{metadata['name']} is a preset that services are built on"
    if context.keep_presets:
        return Verdict((FieldError(FieldPath("metadata.name"), message),))
    return Verdict(warnings=(message,))


def _validate_runtime(obj: Json, old: Json | None, context: Context) -> Verdict:
    others = context.objects(str(obj["kind"]), _namespace(obj))
    errors = servingruntimes.problems(obj, old, others, context.policy)
    return Verdict(tuple(errors), tuple(servingruntimes.warnings(obj)))


def _validate_storage_container(obj: Json, _old: Json | None, _context: Context) -> Verdict:
    return Verdict(tuple(storagecontainer.problems(obj)))


def _validate_trained_model(obj: Json, old: Json | None, _context: Context) -> Verdict:
    return Verdict(tuple(trainedmodel.problems(obj, old)))


def _validate_graph(obj: Json, old: Json | None, context: Context) -> Verdict:
    annotation = ((obj.get("metadata") or {}).get("annotations") or {}).get(keys.DEPLOYMENT_MODE)
    mode = parse_mode(annotation) or context.policy.default_mode
    return Verdict(tuple(graph_validation.problems(obj, old)), tuple(graph_validation.warnings(obj, mode)))


def _validate_cache(obj: Json, old: Json | None, context: Context) -> Verdict:
    others, groups = context.objects("LocalModelCache", ""), context.objects("LocalModelNodeGroup", "")
    return Verdict(tuple(cache_validation.problems(obj, old, others, groups)))


def validate_deletion(obj: Json, context: Context = UNAWARE) -> Verdict:
    """Whether the stored object may be deleted; only cached models in use and presets are ever held back."""
    if _version_and_kind(obj) not in SCHEMAS or is_too_deep(obj) or not isinstance(obj.get("metadata"), dict):
        return Verdict()
    if obj.get("kind") == "LLMInferenceServiceConfig":
        return _preset_deletion(obj, context)
    if obj.get("kind") not in ("LocalModelCache", "LocalModelNamespaceCache") or _structure(obj):
        return Verdict()
    services = [*context.objects("InferenceService", ""), *context.objects("LLMInferenceService", "")]
    return Verdict(tuple(cache_validation.deletion_problems(obj, services)))


def _mutate_llm(obj: Json, context: Context) -> Json:
    """Defaults are filled in the newer shape; what a round trip through it spells out (a pool's port) stays spelt out.
    """
    newer = _newer(obj)
    if not _is_readable(newer):
        return obj
    found = llm_defaults.defaulted(newer, _caches(obj, context) if context.policy.local_models else ())
    return conversion.converted(found, str(obj["apiVersion"]))


def _newer(obj: Json) -> Json:
    newer = conversion.converted(obj, conversion.NEWER)
    annotations = newer.get("metadata", {}).get("annotations")
    if obj["apiVersion"] == conversion.OLDER and isinstance(annotations, dict):
        annotations.pop(conversion.KEPT_OLDER, None)
        if not annotations:
            del newer["metadata"]["annotations"]
    return newer


def _validate_llm(obj: Json, old: Json | None, context: Context) -> Verdict:
    newer = conversion.converted(obj, conversion.NEWER)
    before = conversion.converted(old, conversion.NEWER) if old else None
    if obj["kind"] == "LLMInferenceServiceConfig":
        return Verdict(tuple(llm_validation.config_problems(newer)), _preset_warnings(newer, before, context))
    errors = llm_validation.problems(newer, before, older_version=obj["apiVersion"] == conversion.OLDER)
    return Verdict(tuple(errors), tuple(llm_validation.warnings(newer)) if not errors else ())


def _preset_warnings(obj: Json, old: Json | None, context: Context) -> tuple[str, ...]:
    name = (obj.get("metadata") or {}).get("name")
    if old is None or name not in context.presets or obj.get("spec") == old.get("spec"):
        return ()
    return (f"{name} is a preset: every service that is built on it changes with it",)


MUTATIONS: dict[str, Callable[[Json, Context], Json]] = {
    "InferenceService": _mutate_service,
    "LLMInferenceService": _mutate_llm,
}
VALIDATIONS: dict[str, Callable[[Json, Json | None, Context], Verdict]] = {
    "InferenceService": _validate_service,
    "ServingRuntime": _validate_runtime,
    "ClusterServingRuntime": _validate_runtime,
    "ClusterStorageContainer": _validate_storage_container,
    "TrainedModel": _validate_trained_model,
    "InferenceGraph": _validate_graph,
    "LocalModelCache": _validate_cache,
    "LocalModelNamespaceCache": _validate_cache,
    "LLMInferenceService": _validate_llm,
    "LLMInferenceServiceConfig": _validate_llm,
}
