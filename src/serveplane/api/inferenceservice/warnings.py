"""What is accepted but does nothing: every such field is named, with what would do something instead."""

from collections.abc import Iterator

from serveplane.api import keys
from serveplane.api.inferenceservice.components import Component, ComponentKind, component, components
from serveplane.api.inferenceservice.types import (
    ArtExplainer,
    ComponentSpec,
    Framework,
    InferenceService,
    MetricTarget,
)
from serveplane.api.mode import Mode, parse_mode
from serveplane.api.model import read
from serveplane.api.policy import Policy
from serveplane.api.problem import ANNOTATIONS, SPEC, FieldError, FieldPath
from serveplane.objects import Json
from serveplane.objects.names import is_dns_label

SCALING = (
    ("scaleTarget", "scale_target"),
    ("scaleMetric", "scale_metric"),
    ("scaleMetricType", "scale_metric_type"),
    ("autoScaling", "auto_scaling"),
)


def warnings(obj: Json, policy: Policy) -> list[str]:
    """Sentences for whoever applied the object, which is valid."""
    service = read(InferenceService, obj)
    return [str(found) for found in _warnings(service, policy)]


def _warnings(service: InferenceService, policy: Policy) -> Iterator[FieldError]:
    mode = parse_mode(service.annotations.get(keys.DEPLOYMENT_MODE)) or policy.default_mode
    for part in components(service):
        at = SPEC / part.kind
        yield from _common(part, at)
        match mode:
            case Mode.STANDARD:
                yield from _in_standard(part, service, at)
            case Mode.KNATIVE:
                yield from _in_knative(part, service, at)
    for index, canary in enumerate(service.spec.canary):
        part = component(ComponentKind.PREDICTOR, canary.predictor)
        at = SPEC / "canary" / index / "predictor"
        yield from _common(part, at)
        yield from _in_canary(part, at)
    yield from _name(service)


LOGGED_FOR_ALL = (
    ("storage", "storage"),
    ("marshallerUrl", "marshaller_url"),
    ("batchSize", "batch_size"),
    ("batchInterval", "batch_interval"),
)


def _logger(part: Component, at: FieldPath) -> Iterator[FieldError]:
    """How logs are stored is said once for a service, by its predictor."""
    logger = part.spec.logger
    for field, attribute in LOGGED_FOR_ALL if logger is not None else ():
        if getattr(logger, attribute) is not None:
            yield FieldError(at / "logger" / field, "has no effect here; spec.predictor.logger says it for all pods")


def _in_canary(part: Component, at: FieldPath) -> Iterator[FieldError]:
    yield from _logger(part, at)
    for field, value in (
        ("canaryTrafficPercent", part.spec.canary_traffic_percent),
        ("containerConcurrency", part.spec.container_concurrency),
        ("timeout", part.spec.timeout),
    ):
        if value is not None:
            yield FieldError(at / field, "has no effect in a canary; the stable predictor's holds for both")


def _common(part: Component, at: FieldPath) -> Iterator[FieldError]:
    chosen = part.implementation
    if part.spec.batcher is not None and part.spec.batcher.timeout is not None:
        yield FieldError(at / "batcher" / "timeout", "has no effect; maxLatency bounds the wait of a request")
    if chosen.storage is not None and chosen.storage.schema_path is not None:
        yield FieldError(at / chosen.block / "storage" / "schemaPath", "has effect in ModelMesh mode only")
    if isinstance(chosen.spec, ArtExplainer) and chosen.storage is not None:
        yield FieldError(at / "art" / "storage", "has no effect; an explainer takes its model from storageUri")
    if part.kind is not ComponentKind.PREDICTOR:
        yield from _logger(part, at)
    elif part.spec.logger is not None and part.spec.logger.storage is not None and part.spec.logger.storage.key:
        where = at / "logger" / "storage" / "key"
        yield FieldError(where, "has no effect; credentials come from the secrets of storage.serviceAccountName")
    if part.kind is ComponentKind.EXPLAINER and part.spec.batcher is not None:
        yield FieldError(at / "batcher", "has no effect; explanations are not batched")
    if isinstance(chosen.spec, Framework) and chosen.spec.confidential and chosen.spec.confidential.enabled:
        scheme = (chosen.storage_uri or "").split("://")[0]
        if scheme in ("oci", "pvc"):
            yield FieldError(
                at / chosen.block / "confidential", f"models from {scheme}:// are not decrypted when they are mounted"
            )


def _in_standard(part: Component, service: InferenceService, at: FieldPath) -> Iterator[FieldError]:
    spec = part.spec
    if spec.canary_traffic_percent is not None:
        yield FieldError(at / "canaryTrafficPercent", "has no effect in Standard mode; use spec.canary")
    if spec.container_concurrency is not None and part.kind is ComponentKind.PREDICTOR:
        yield FieldError(at / "containerConcurrency", "has no effect in Standard mode")
    yield from _worker_name(part, at)
    chosen = service.annotations.get(keys.AUTOSCALER_CLASS) or "hpa"
    yield from _metrics(spec, chosen, at / "autoScaling" / "metrics")
    if chosen in ("none", "external"):
        for field, attribute in SCALING:
            if getattr(spec, attribute) is not None:
                yield FieldError(at / field, f"has no effect with autoscaler class {chosen}")
    elif chosen == "hpa" and spec.scale_metric in ("concurrency", "rps"):
        yield FieldError(at / "scaleMetric", f"{spec.scale_metric} needs Knative mode; class hpa knows cpu and memory")
    if chosen == "hpa" and spec.min_replicas == 0:
        yield FieldError(at / "minReplicas", "0 is raised to 1 by class hpa; keda can scale to zero")


def _worker_name(part: Component, at: FieldPath) -> Iterator[FieldError]:
    worker = part.predictor.worker_spec if part.predictor else None
    for index, container in enumerate(worker.containers if worker else []):
        if container.get("name") != keys.WORKER_CONTAINER:
            where = at / "workerSpec" / "containers" / index / "name"
            yield FieldError(where, f"has no effect: the worker is always named {keys.WORKER_CONTAINER}")


def _metrics(spec: ComponentSpec, chosen: str, at: FieldPath) -> Iterator[FieldError]:
    """Metrics that the autoscaler does not take, and fields of a target that it does not look at."""
    for index, metric in enumerate(spec.auto_scaling.metrics if spec.auto_scaling else ()):
        here = at / index
        if chosen == "hpa" and metric.type != "Resource":
            yield FieldError(here, f"{metric.type} metrics need autoscaler class keda; class hpa knows Resource only")
        if metric.resource is not None:
            yield from _target(
                metric.resource.target, TARGETS.get(metric.resource.target.type or "", ""), here / "resource"
            )
        for field, source in (("external", metric.external), ("podmetric", metric.podmetric)):
            if source is not None and chosen == "keda":
                yield from _target(source.target, "value", here / field)
                if source.target.type not in (None, "Value"):
                    yield FieldError(
                        here / field / "target" / "type", "has no effect here; the threshold is target.value"
                    )
        external = metric.external.metric if metric.external else None
        if external is not None and external.namespace and external.backend != "prometheus":
            yield FieldError(here / "external" / "metric" / "namespace", "has effect with backend prometheus only")


TARGETS = {"Utilization": "averageUtilization", "AverageValue": "averageValue", "Value": "value"}


def _target(target: MetricTarget, counts: str, at: FieldPath) -> Iterator[FieldError]:
    """The one figure of a target that counts is `counts`; others beside it are named."""
    for field, value in (
        ("value", target.value),
        ("averageValue", target.average_value),
        ("averageUtilization", target.average_utilization),
    ):
        if value is not None and counts and field != counts:
            yield FieldError(at / "target" / field, f"has no effect beside {counts}")


def _in_knative(part: Component, service: InferenceService, at: FieldPath) -> Iterator[FieldError]:
    if part.spec.auto_scaling is not None:
        yield FieldError(at / "autoScaling", "has no effect in Knative mode; use scaleMetric and scaleTarget")
    if part.spec.scale_metric_type is not None:
        yield FieldError(at / "scaleMetricType", "has no effect in Knative mode")
    predictor = part.predictor
    if predictor is not None and predictor.worker_spec is not None:
        yield FieldError(at / "workerSpec", "has no effect in Knative mode; several nodes need Standard mode")
    if part.kind is ComponentKind.PREDICTOR and keys.AUTOSCALER_CLASS in service.annotations:
        yield FieldError(ANNOTATIONS / keys.AUTOSCALER_CLASS, "has no effect in Knative mode")


def _name(service: InferenceService) -> Iterator[FieldError]:
    """Children are Services, whose names are DNS labels."""
    for part in components(service):
        variant = f"-{part.predictor.name}" if part.predictor and part.predictor.name else ""
        child = f"{service.name}{variant}-{part.kind}"
        if not is_dns_label(child):
            yield FieldError(
                FieldPath("metadata.name"),
                f"is too long: no Service can be named {child} ({len(child)} of 63 characters)",
            )
