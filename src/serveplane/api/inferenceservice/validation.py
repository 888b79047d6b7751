"""Which InferenceServices are refused, and why: every problem at once, each with its field and what would be right."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from serveplane.api import keys
from serveplane.api.inferenceservice import autoscaling, storage
from serveplane.api.inferenceservice.components import Component, ComponentKind, component, components, env_value, named
from serveplane.api.inferenceservice.types import (
    VARIANT_NAME,
    Canary,
    ComponentSpec,
    Framework,
    InferenceService,
    Logger,
    Predictor,
)
from serveplane.api.mode import Mode, parse_mode
from serveplane.api.model import read
from serveplane.api.pods import blocked_env_problems, ephemeral_problems, group_problems
from serveplane.api.policy import Policy
from serveplane.api.problem import ANNOTATIONS, METADATA, SPEC, FieldError, FieldPath
from serveplane.api.storagecontainer import ClusterStorageContainer
from serveplane.api.urls import url_problem
from serveplane.objects import Json

NAME = re.compile(VARIANT_NAME)
AUTOSCALER_CLASSES = ("hpa", "keda", "external", "none")
LOGGER_MODES = ("all", "request", "response")
ONE_OF = {
    ComponentKind.PREDICTOR: "`model`, one framework block, or `containers`",
    ComponentKind.TRANSFORMER: "`containers`",
    ComponentKind.EXPLAINER: "`art` or `containers`",
}


def problems(
    obj: Json, old: Json | None, policy: Policy, storage_containers: Sequence[ClusterStorageContainer] = ()
) -> list[FieldError]:
    """Why the object, defaulted and of the right structure, is refused; empty if it is not.

    `old` is the stored object of an update. One that is being deleted may always change, else it could never go.
    """
    if old is not None and (old.get("metadata") or {}).get("deletionTimestamp"):
        return []
    service = read(InferenceService, obj)
    found = list(_service_problems(service, policy, storage_containers))
    if old is not None:
        found += update_problems(service, read(InferenceService, old))
    return found


def _service_problems(
    service: InferenceService, policy: Policy, storage_containers: Sequence[ClusterStorageContainer]
) -> Iterator[FieldError]:
    yield from _metadata_problems(service)
    for part in components(service):
        at = SPEC / part.kind
        yield from component_problems(part, at)
        yield from autoscaling.problems(part.spec, service, at)
        yield from storage.problems(part, at, storage_containers)
    yield from _multi_node_problems(service, policy)
    yield from _canary_problems(service, storage_containers)


def _metadata_problems(service: InferenceService) -> Iterator[FieldError]:
    name = service.name or str(service.metadata.get("generateName") or "").rstrip("-") or ""
    if not NAME.fullmatch(name):
        yield FieldError(
            METADATA / "name", f"must be small letters, digits and '-', beginning with a letter; {name!r} is not"
        )
    chosen = service.annotations.get(keys.AUTOSCALER_CLASS)
    if chosen is not None and chosen not in AUTOSCALER_CLASSES:
        yield FieldError(
            ANNOTATIONS / keys.AUTOSCALER_CLASS, f"must be one of {', '.join(AUTOSCALER_CLASSES)}, not {chosen!r}"
        )
    mode = service.annotations.get(keys.DEPLOYMENT_MODE)
    if mode and parse_mode(mode) is None:
        yield FieldError(ANNOTATIONS / keys.DEPLOYMENT_MODE, f"must be one of {', '.join(Mode)}, not {mode!r}")


def update_problems(new: InferenceService, old: InferenceService) -> Iterator[FieldError]:
    """What may not change once a service runs."""
    running = old.status.get("deploymentMode")
    asked = new.annotations.get(keys.DEPLOYMENT_MODE)
    if running and asked is not None and parse_mode(asked) != parse_mode(running):
        yield FieldError(
            ANNOTATIONS / keys.DEPLOYMENT_MODE,
            f"cannot change from {running} to {asked}: create another service to switch the mode",
        )
    if new.spec.predictor.name != old.spec.predictor.name and _uri(new) == _uri(old):
        yield FieldError(
            SPEC / "predictor" / "name",
            "may change only together with the storage URI: it names a version of the model",
        )


def _uri(service: InferenceService) -> str | None:
    return components(service)[0].implementation.storage_uri


def component_problems(part: Component, at: FieldPath) -> Iterator[FieldError]:
    yield from _implementation_problems(part, at)
    yield from blocked_env_problems(part.spec.pod, at)
    yield from ephemeral_problems(part.spec.pod, at)
    for chosen in part.implementations:
        if not chosen.is_custom:
            yield from blocked_env_problems({"containers": [chosen.container]}, at / chosen.block, only_container=True)
    yield from extension_problems(part.spec, at)


def _implementation_problems(part: Component, at: FieldPath) -> Iterator[FieldError]:
    given = [chosen.block for chosen in part.implementations]
    if len(given) != 1:
        found = f"there are {len(given)} ({', '.join(given)})" if given else "there is none"
        yield FieldError(at, f"needs exactly one implementation, {ONE_OF[part.kind]}; {found}")
    for chosen in part.implementations:
        if isinstance(chosen.spec, Framework) and chosen.container.get("name"):
            yield FieldError(
                at / chosen.block / "name", f"must not be set: the container is always {keys.KSERVE_CONTAINER}"
            )
    if part.kind is ComponentKind.PREDICTOR and part.implementation.is_custom:
        yield from _custom_predictor_problems(part, at)


def _custom_predictor_problems(part: Component, at: FieldPath) -> Iterator[FieldError]:
    containers = part.spec.containers
    protocol = env_value(containers[0], "PROTOCOL") if containers else None
    if protocol is not None and protocol not in ("v1", "v2"):
        yield FieldError(at / "containers" / 0 / "env", f"PROTOCOL must be v1 or v2, not {protocol!r}")
    if len(containers) > 1 and not named(containers, keys.KSERVE_CONTAINER):
        yield FieldError(
            at / "containers", f"one of several containers must be named {keys.KSERVE_CONTAINER}: it serves the model"
        )


def extension_problems(spec: ComponentSpec, at: FieldPath) -> Iterator[FieldError]:
    for field, value in (
        ("containerConcurrency", spec.container_concurrency),
        ("minReplicas", spec.min_replicas),
        ("maxReplicas", spec.max_replicas),
        ("timeout", spec.timeout),
    ):
        if value is not None and value < 0:
            yield FieldError(at / field, f"must be 0 or more, not {value}")
    least = 1 if spec.min_replicas is None else spec.min_replicas
    if 0 < spec.max_replicas < least:  # 0 is how the API spells "not set"
        yield FieldError(at / "maxReplicas", f"must be at least minReplicas ({least}), not {spec.max_replicas}")
    percent = spec.canary_traffic_percent
    if percent is not None and not 0 <= percent <= 100:
        yield FieldError(at / "canaryTrafficPercent", f"must be between 0 and 100, not {percent}")
    if spec.logger is not None:
        yield from _logger_problems(spec.logger, at / "logger")


def _logger_problems(logger: Logger, at: FieldPath) -> Iterator[FieldError]:
    if logger.mode not in LOGGER_MODES:
        yield FieldError(at / "mode", f"must be one of {', '.join(LOGGER_MODES)}")
    if logger.storage is not None:
        for field in ("path", "parameters", "key"):
            if not getattr(logger.storage, field):
                yield FieldError(at / "storage" / field, "is needed to log to a store")
    elif logger.url and (message := url_problem(logger.url)):
        yield FieldError(at / "url", message)


def _multi_node_problems(service: InferenceService, policy: Policy) -> Iterator[FieldError]:
    worker = service.spec.predictor.worker_spec
    if worker is None:
        return
    at = SPEC / "predictor" / "workerSpec"
    yield from blocked_env_problems(worker.pod, at)
    yield from ephemeral_problems(worker.pod, at)
    yield from gpu_list_problems(service.annotations, ANNOTATIONS)
    known = known_gpus(service.annotations, policy)
    yield from group_problems(worker, at)
    for index, container in enumerate(worker.containers):
        yield from gpu_problems(container, at / "containers" / index, known)
    if service.spec.predictor.model is not None:
        yield from _multi_node_model_problems(service, service.spec.predictor, known)


def _multi_node_model_problems(
    service: InferenceService, predictor: Predictor, known: frozenset[str]
) -> Iterator[FieldError]:
    assert predictor.model is not None
    at = SPEC / "predictor" / "model"
    for variable in ("PIPELINE_PARALLEL_SIZE", "TENSOR_PARALLEL_SIZE"):
        if any(item.get("name") == variable for item in predictor.model.container.get("env") or []):
            yield FieldError(at / "env", f"{variable} is set from workerSpec; give the size there")
    yield from gpu_problems(predictor.model.container, at, known)
    uri = predictor.model.storage_uri or ""
    if uri.split("://")[0] not in ("pvc", "oci") or "://" not in uri:
        yield FieldError(
            at / "storageUri", f"several nodes share a model from pvc:// or oci:// only, not {uri or 'none'!r}"
        )
    if service.annotations.get(keys.AUTOSCALER_CLASS) != "none":
        yield FieldError(ANNOTATIONS / keys.AUTOSCALER_CLASS, "must be none: a group of nodes has a fixed size")


def known_gpus(annotations: dict[str, str], policy: Policy) -> frozenset[str]:
    """Resource names that count as GPUs: the built-in, the configured, and those an annotation lists as a JSON array.
    """
    return frozenset((*policy.gpu_resource_types, *(_listed_gpus(annotations) or ())))


def gpu_list_problems(annotations: dict[str, str], at: FieldPath) -> Iterator[FieldError]:
    if _listed_gpus(annotations) is None:
        yield FieldError(at / keys.GPU_RESOURCE_TYPES, "must be a JSON array of resource names")


def _listed_gpus(annotations: dict[str, str]) -> tuple[str, ...] | None:
    """What the annotation lists; None where it is no list."""
    try:
        return msgspec.json.decode(annotations.get(keys.GPU_RESOURCE_TYPES) or "[]", type=tuple[str, ...])
    except msgspec.MsgspecError:
        return None


ORDINARY_RESOURCES = frozenset(("cpu", "memory", "storage", "ephemeral-storage"))


def gpu_problems(container: Json, at: FieldPath, known: frozenset[str]) -> Iterator[FieldError]:
    resources = container.get("resources") or {}
    asked = {name for side in ("limits", "requests") for name in resources.get(side) or {}}
    for name in sorted(asked - known - ORDINARY_RESOURCES):
        yield FieldError(
            at / "resources",
            f"{name} is not known as a GPU; known are {', '.join(sorted(known))} (more by {keys.GPU_RESOURCE_TYPES})",
        )


def _canary_problems(
    service: InferenceService, storage_containers: Sequence[ClusterStorageContainer]
) -> Iterator[FieldError]:
    canaries, at = service.spec.canary, SPEC / "canary"
    if not canaries:
        return
    if parse_mode(service.annotations.get(keys.DEPLOYMENT_MODE)) is not Mode.STANDARD:
        yield FieldError(at, "needs deployment mode Standard; in Knative mode use predictor.canaryTrafficPercent")
    stable = service.spec.predictor
    if stable.model is None and not components(service)[0].implementation.storage_uri:
        yield FieldError(SPEC / "predictor", "needs a model of its own beside canaries")
    names = [canary.predictor.name for canary in canaries]
    for index, canary in enumerate(canaries):
        here = at / index / "predictor"
        if not canary.predictor.name:
            yield FieldError(here / "name", "is required: it tells the canary's objects from the stable ones")
        elif canary.predictor.name == stable.name or names.index(canary.predictor.name) != index:
            yield FieldError(here / "name", f"{canary.predictor.name!r} is taken already")
        yield from _one_canary_problems(canary, stable, here)
        yield from storage.problems(component(ComponentKind.PREDICTOR, canary.predictor), here, storage_containers)
    total = sum(canary.traffic_percent for canary in canaries)
    if total > 100:
        yield FieldError(at, f"the shares add up to {total} percent, more than 100")


def _one_canary_problems(canary: Canary, stable: Predictor, at: FieldPath) -> Iterator[FieldError]:
    predictor = canary.predictor
    yield from component_problems(component(ComponentKind.PREDICTOR, predictor), at)
    fixed = "a canary has a fixed number of replicas"
    for field, given, reason in (
        ("workerSpec", predictor.worker_spec is not None, "a canary runs on one node"),
        ("maxReplicas", predictor.max_replicas > 0, fixed),
        ("scaleTarget", predictor.scale_target is not None, fixed),
        ("scaleMetric", predictor.scale_metric is not None, fixed),
        ("autoScaling", predictor.auto_scaling is not None, fixed),
    ):
        if given:
            yield FieldError(at / field, f"must not be set: {reason}")
    most = 1 if stable.min_replicas is None else stable.min_replicas
    if predictor.min_replicas is not None and predictor.min_replicas > most:
        yield FieldError(at / "minReplicas", f"must not exceed the stable predictor's ({most})")
