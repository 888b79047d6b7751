"""Which scaling a component may ask for, by deployment mode and autoscaler class."""

from collections.abc import Iterator

from serveplane.api import keys
from serveplane.api.inferenceservice.types import AutoScaling, ComponentSpec, InferenceService, Metric, MetricTarget
from serveplane.api.mode import Mode, parse_mode
from serveplane.api.problem import FieldError, FieldPath
from serveplane.objects.quantity import is_quantity, parse

KNATIVE_HPA = "hpa.autoscaling.knative.dev"
LEAST_MEMORY = "1Mi"


def problems(spec: ComponentSpec, service: InferenceService, at: FieldPath) -> Iterator[FieldError]:
    """Problems of the scaling fields; a service that names no class in Standard mode is scaled by whatever it gives."""
    if parse_mode(service.annotations.get(keys.DEPLOYMENT_MODE)) is Mode.STANDARD:
        match service.annotations.get(keys.AUTOSCALER_CLASS):
            case "hpa":
                yield from _hpa_problems(spec, at)
            case "keda":
                yield from _keda_problems(spec, at)
    elif service.annotations.get(keys.KNATIVE_AUTOSCALING_CLASS) == KNATIVE_HPA:
        yield from _hpa_problems(spec, at)
    else:
        yield from _knative_problems(spec, at)


def _hpa_problems(spec: ComponentSpec, at: FieldPath) -> Iterator[FieldError]:
    metric = spec.scale_metric or "cpu"
    if metric not in ("cpu", "memory"):
        yield FieldError(at / "scaleMetric", f"must be cpu or memory for class hpa, not {metric!r}")
    if spec.scale_target is not None and not 1 <= spec.scale_target <= 100:
        yield FieldError(at / "scaleTarget", f"must be a percentage between 1 and 100, not {spec.scale_target}")
    for index, entry in enumerate(_metrics(spec.auto_scaling)):
        here = at / "autoScaling" / "metrics" / index
        if entry.type != "Resource":
            yield FieldError(here / "type", f"must be Resource for class hpa, not {entry.type!r}")
        elif entry.resource is None:
            yield FieldError(here / "resource", "is required for type Resource")


def _keda_problems(spec: ComponentSpec, at: FieldPath) -> Iterator[FieldError]:
    if spec.scale_metric is not None:
        yield FieldError(at / "scaleMetric", "must not be set for class keda: use autoScaling.metrics")
    for index, metric in enumerate(_metrics(spec.auto_scaling)):
        yield from _keda_metric_problems(metric, at / "autoScaling" / "metrics" / index)


def _keda_metric_problems(metric: Metric, at: FieldPath) -> Iterator[FieldError]:
    match metric.type:
        case "Resource":
            if metric.resource is None:
                yield FieldError(at / "resource", "is required for type Resource")
                return
            yield from _resource_problems(metric.resource.name, metric.resource.target, at / "resource" / "target")
            yield from _target_problems(metric.resource.target, at / "resource" / "target")
        case "External":
            if metric.external is None:
                yield FieldError(at / "external", "is required for type External")
                return
            yield from _query_problems(metric.external.metric.query, metric.external.target, at / "external")
        case "PodMetric":
            if metric.podmetric is None:
                yield FieldError(at / "podmetric", "is required for type PodMetric")
                return
            yield from _query_problems(metric.podmetric.metric.query, metric.podmetric.target, at / "podmetric")


def _resource_problems(name: str, target: MetricTarget, at: FieldPath) -> Iterator[FieldError]:
    if name == "cpu" and target.type != "Utilization":
        yield FieldError(at / "type", "must be Utilization for cpu")
    if name == "memory" and target.type not in ("Utilization", "AverageValue"):
        yield FieldError(at / "type", "must be Utilization or AverageValue for memory")
    amount = target.average_value
    if name == "memory" and target.type == "AverageValue" and amount is not None and not _is_enough(amount):
        yield FieldError(at / "averageValue", f"must be a quantity of at least {LEAST_MEMORY}, not {amount!r}")


def _is_enough(amount: int | str) -> bool:
    return is_quantity(amount) and parse(amount) >= parse(LEAST_MEMORY)


def _query_problems(query: str | None, target: MetricTarget, at: FieldPath) -> Iterator[FieldError]:
    if not query:
        yield FieldError(at / "metric" / "query", "is required")
    if target.value is None:
        yield FieldError(at / "target" / "value", "is required")
    yield from _target_problems(target, at / "target")


def _target_problems(target: MetricTarget, at: FieldPath) -> Iterator[FieldError]:
    match target.type:
        case "Utilization":
            if target.average_utilization is None or not 1 <= target.average_utilization <= 100:
                yield FieldError(at / "averageUtilization", "must be between 1 and 100 for type Utilization")
        case "AverageValue":
            if target.average_value is None:
                yield FieldError(at / "averageValue", "is required for type AverageValue")
        case "Value":
            if target.value is None:
                yield FieldError(at / "value", "is required for type Value")


def _knative_problems(spec: ComponentSpec, at: FieldPath) -> Iterator[FieldError]:
    if spec.deployment_strategy is not None:
        yield FieldError(at / "deploymentStrategy", "needs deployment mode Standard; Knative replaces revisions itself")
    metric = spec.scale_metric
    if metric is not None and metric not in ("concurrency", "rps"):
        yield FieldError(
            at / "scaleMetric",
            f"must be concurrency or rps in Knative mode, not {metric!r} "
            f"(or annotate {keys.KNATIVE_AUTOSCALING_CLASS}: {KNATIVE_HPA})",
        )
    if metric == "rps" and spec.scale_target is not None and spec.scale_target < 1:
        yield FieldError(at / "scaleTarget", f"must be 1 or more, not {spec.scale_target}")


def _metrics(scaling: AutoScaling | None) -> tuple[Metric, ...]:
    return scaling.metrics if scaling else ()
