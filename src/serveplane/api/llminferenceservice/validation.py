"""Which LLM services and configurations are refused, read in the shape of v1alpha2 and before presets are merged in."""

import re
from collections.abc import Iterator

from serveplane.api import keys
from serveplane.api.inferenceservice.storage import KEY_OF_BROKER
from serveplane.api.llminferenceservice import scaling
from serveplane.api.llminferenceservice.templates import template_problems
from serveplane.api.llminferenceservice.types import (
    GatewayReference,
    KvCacheOffloading,
    LLMInferenceService,
    LlmModel,
    Router,
    Scheduler,
    Workload,
)
from serveplane.api.llminferenceservice.workloads import kv_cache_problems, rollout_problems, size_problems
from serveplane.api.model import read
from serveplane.api.problem import ANNOTATIONS, SPEC, FieldError, FieldPath
from serveplane.objects import Json
from serveplane.objects.names import is_dns_label, is_dns_subdomain

_DRA = f"{keys.GROUP}/exp-dra-"
DEVICE_CLASS, DEVICE_COUNT = f"{_DRA}device-class", f"{_DRA}device-count"
CEL_SELECTOR, CONTAINER_NAME = f"{_DRA}cel-selector", f"{_DRA}container-name"


def problems(obj: Json, old: Json | None, older_version: bool = False) -> list[FieldError]:
    """`older_version`: the user speaks v1alpha1, where redundant parents of a route are an error, not a warning."""
    if (obj.get("metadata") or {}).get("deletionTimestamp"):
        return []
    service = read(LLMInferenceService, obj)
    before = read(LLMInferenceService, old) if old is not None else None
    return list(_problems(service, before, older_version))


def _problems(
    service: LLMInferenceService, old: LLMInferenceService | None, older_version: bool
) -> Iterator[FieldError]:
    spec = service.spec
    if spec.model is None or not spec.model.uri:
        yield FieldError(SPEC / "model" / "uri", "is required: where the model comes from")
    else:
        yield from _model_problems(spec.model)
    if spec.router is not None:
        yield from _router_problems(spec.router, SPEC / "router", older_version)
    for workload, at in workloads(service):
        yield from _workload_problems(workload, at)
    if spec.prefill is not None:
        yield from scaling.pair_problems(spec.scaling, spec.prefill.scaling, SPEC / "prefill" / "scaling")
    yield from _device_problems(service.annotations)
    if old is not None:
        yield from _size_change_problems(service, old)


def workloads(service: LLMInferenceService) -> list[tuple[Workload, FieldPath]]:
    prefill = service.spec.prefill
    return [(service.spec, SPEC), *([(prefill, SPEC / "prefill")] if prefill is not None else [])]


def _model_problems(model: LlmModel) -> Iterator[FieldError]:
    at = SPEC / "model"
    if model.confidential is not None and model.confidential.enabled:
        key = model.confidential.resource_id
        if key and not KEY_OF_BROKER.fullmatch(key):
            yield FieldError(at / "confidential" / "resourceId", "must look like kbs:///<repository>/<type>/<tag>")
    taken = [model.name] if model.name else []
    for index, adapter in enumerate(model.lora.adapters if model.lora else ()):
        here = at / "lora" / "adapters" / index / "name"
        if not adapter.name:
            yield FieldError(here, "is required: requests choose the adapter by it")
        elif adapter.name in (".", "..") or "\0" in adapter.name:
            yield FieldError(here, f"{adapter.name!r} cannot be a name: it becomes a folder")
        elif adapter.name in taken:
            yield FieldError(here, f"{adapter.name!r} is taken by another adapter or the model itself")
        else:
            taken.append(adapter.name)


def _workload_problems(workload: Workload, at: FieldPath) -> Iterator[FieldError]:
    yield from size_problems(workload, at)
    yield from scaling.problems(workload, at)
    yield from rollout_problems(workload, at / "rolloutStrategy")
    if isinstance(workload.kv_cache_offloading, KvCacheOffloading):
        yield from kv_cache_problems(workload.kv_cache_offloading, at / "kvCacheOffloading")


def _router_problems(router: Router, at: FieldPath, older_version: bool) -> Iterator[FieldError]:
    yield from _route_problems(router, at / "route", older_version)
    if router.scheduler is not None:
        yield from scheduler_problems(router.scheduler, at / "scheduler")


def _route_problems(router: Router, at: FieldPath, older_version: bool) -> Iterator[FieldError]:
    route = router.route
    if route is None:
        return
    if route.http is not None:
        if route.http.refs and route.http.spec is not None:
            yield FieldError(at / "http", "refs (routes of your own) and spec (a route we make) exclude each other")
        if route.http.refs and router.gateway is not None and not router.gateway.refs:
            yield FieldError(at / "http" / "refs", "routes of your own need gateway.refs, not a gateway of ours")
        if _parents_differ(router) or (older_version and redundant_parents(router)):
            yield FieldError(
                at / "http" / "spec", "parentRefs and gateway.refs name different gateways: give one of them"
            )
    yield from _group_problems(router, at)


def _group_problems(router: Router, at: FieldPath) -> Iterator[FieldError]:
    route = router.route
    assert route is not None
    if route.group is None and route.weight is None:
        return
    if router.ingress is not None:
        yield FieldError(at / "group", "a group splits traffic by the Gateway API, not by an Ingress")
    elif route.group is None:
        yield FieldError(at / "group", "is required with weight")
    elif route.weight is None:
        yield FieldError(at / "weight", "is required with group")
    elif route.http is not None and route.http.refs:
        yield FieldError(at / "group", "a group needs a route that we make, not http.refs")


def redundant_parents(router: Router) -> bool:
    """Whether a route names the same gateways as `gateway.refs`."""
    parents, gateways = _parents(router), router.gateway.refs if router.gateway else ()
    return bool(parents and gateways)


def _parents_differ(router: Router) -> bool:
    if not redundant_parents(router) or router.gateway is None:
        return False
    return sorted(_key(parent) for parent in _parents(router)) != sorted(_reference(ref) for ref in router.gateway.refs)


def _parents(router: Router) -> list[Json]:
    spec = router.route.http.spec if router.route and router.route.http else None
    return (spec or {}).get("parentRefs") or []


def _key(parent: Json) -> tuple[str, str, str]:
    return (parent.get("namespace") or "", parent.get("name") or "", parent.get("sectionName") or "")


def _reference(ref: GatewayReference) -> tuple[str, str, str]:
    return (ref.namespace or "", ref.name or "", ref.section_name or "")


def scheduler_problems(scheduler: Scheduler, at: FieldPath) -> Iterator[FieldError]:
    if scheduler.replicas is not None and scheduler.replicas < 1:
        yield FieldError(at / "replicas", f"must be 1 or more, not {scheduler.replicas}")
    config = scheduler.config
    if config is None:
        return
    if (config.inline is None) == (config.ref is None):
        yield FieldError(at / "config", "needs exactly one of inline and ref")
    if config.inline is not None and not config.inline:
        yield FieldError(at / "config" / "inline", "must not be empty")
    if config.ref is not None and not config.ref.name:
        yield FieldError(at / "config" / "ref" / "name", "is required")


def _device_problems(annotations: dict[str, str]) -> Iterator[FieldError]:
    """The annotations that ask for devices by dynamic resource allocation."""
    given = [key for key in (DEVICE_COUNT, CEL_SELECTOR, CONTAINER_NAME) if key in annotations]
    if given and DEVICE_CLASS not in annotations:
        yield FieldError(ANNOTATIONS / DEVICE_CLASS, f"is required with {given[0]}")
    if DEVICE_CLASS in annotations and not is_dns_subdomain(annotations[DEVICE_CLASS]):
        yield FieldError(ANNOTATIONS / DEVICE_CLASS, f"must name a DeviceClass, {annotations[DEVICE_CLASS]!r} does not")
    if DEVICE_COUNT in annotations and not re.fullmatch(r"\+?0*[1-9]\d{0,9}", annotations[DEVICE_COUNT]):
        yield FieldError(ANNOTATIONS / DEVICE_COUNT, f"must be a number from 1, not {annotations[DEVICE_COUNT]!r}")
    if CEL_SELECTOR in annotations and not annotations[CEL_SELECTOR].strip():
        yield FieldError(ANNOTATIONS / CEL_SELECTOR, "needs at least one expression, one to a line")
    if CONTAINER_NAME in annotations and not is_dns_label(annotations[CONTAINER_NAME]):
        yield FieldError(
            ANNOTATIONS / CONTAINER_NAME, f"must name a container, {annotations[CONTAINER_NAME]!r} does not"
        )


def _size_change_problems(new: LLMInferenceService, old: LLMInferenceService) -> Iterator[FieldError]:
    pairs = [(new.spec, old.spec, SPEC)]
    if new.spec.prefill is not None and old.spec.prefill is not None:
        yield from _one_size_change(new.spec.prefill, old.spec.prefill, SPEC / "prefill")
    for after, before, at in pairs:
        yield from _one_size_change(after, before, at)


def _one_size_change(new: Workload, old: Workload, at: FieldPath) -> Iterator[FieldError]:
    sizes = [(workload.parallelism.size if workload.parallelism else None) or 1 for workload in (new, old)]
    if sizes[0] != sizes[1]:
        yield FieldError(
            at / "parallelism", f"a group of {sizes[1]} pods cannot become one of {sizes[0]}: create another service"
        )


def warnings(obj: Json) -> list[str]:
    return [str(found) for found in _warnings(read(LLMInferenceService, obj))]


def _warnings(service: LLMInferenceService) -> Iterator[FieldError]:
    router, model = service.spec.router, service.spec.model
    if router is not None and redundant_parents(router):
        yield FieldError(
            SPEC / "router" / "route" / "http" / "spec" / "parentRefs", "repeat gateway.refs: leave them out"
        )
    if router is not None and router.ingress is not None:
        yield FieldError(SPEC / "router" / "ingress", "has no effect: LLM services are reached by the Gateway API")
    if model is not None and model.confidential is not None and model.confidential.enabled:
        scheme = model.uri.split("://")[0]
        if scheme in ("oci", "pvc"):
            yield FieldError(SPEC / "model" / "confidential", f"has no effect for models from {scheme}://")
    for key in ("model-criticality", "lora-criticalities"):
        if f"internal.serving.kserve.io/{key}" in service.annotations:
            yield FieldError(SPEC / "model", "criticality has no effect: schedulers no longer look at it")
            break


def config_problems(obj: Json) -> list[FieldError]:
    """A configuration is partial by nature, so only what is wrong in any service is wrong in it."""
    if (obj.get("metadata") or {}).get("deletionTimestamp"):
        return []
    spec = read(LLMInferenceService, obj).spec
    found = []
    if spec.base_refs:
        found.append(FieldError(SPEC / "baseRefs", "must not be set: a configuration does not build on others"))
    scheduler = spec.router.scheduler if spec.router else None
    if scheduler is not None and scheduler.replicas is not None and scheduler.replicas < 1:
        found.append(
            FieldError(SPEC / "router" / "scheduler" / "replicas", f"must be 1 or more, not {scheduler.replicas}")
        )
    return [*found, *template_problems(obj.get("spec"), SPEC)]
