"""What is accepted but does nothing: every such field is named, with what would do something instead."""

from collections.abc import Iterator

from serveplane.api import keys
from serveplane.api.inferenceservice.components import Component, ComponentKind, components
from serveplane.api.inferenceservice.types import Framework, InferenceService
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
    yield from _name(service)


def _common(part: Component, at: FieldPath) -> Iterator[FieldError]:
    chosen = part.implementation
    if part.spec.batcher is not None and part.spec.batcher.timeout is not None:
        yield FieldError(at / "batcher" / "timeout", "has no effect; maxLatency bounds the wait of a request")
    if chosen.storage is not None and chosen.storage.schema_path is not None:
        yield FieldError(at / chosen.block / "storage" / "schemaPath", "has effect in ModelMesh mode only")
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
    chosen = service.annotations.get(keys.AUTOSCALER_CLASS) or "hpa"
    if chosen in ("none", "external"):
        for field, attribute in SCALING:
            if getattr(spec, attribute) is not None:
                yield FieldError(at / field, f"has no effect with autoscaler class {chosen}")
    elif chosen == "hpa" and spec.scale_metric in ("concurrency", "rps"):
        yield FieldError(at / "scaleMetric", f"{spec.scale_metric} needs Knative mode; class hpa knows cpu and memory")
    if chosen == "hpa" and spec.min_replicas == 0:
        yield FieldError(at / "minReplicas", "0 is raised to 1 by class hpa; keda can scale to zero")


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
