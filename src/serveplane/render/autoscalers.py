"""What scales a workload: a HorizontalPodAutoscaler, or KEDA's ScaledObject with an OpenTelemetry collector for pod metrics."""
from collections.abc import Iterator

from serveplane.api import keys
from serveplane.api.inferenceservice.types import (
    ExternalMetricSource,
    Metric,
    MetricTarget,
    PodMetricSource,
    ResourceMetric,
)
from serveplane.objects import Json
from serveplane.render.names import DEFAULT_PORT
from serveplane.render.workloads import Workload
from serveplane.settings import Settings

DEFAULT_UTILIZATION = 80
# The operator's CRD fills its defaults into these; KServe sends them empty, and so do we, for the stored object to be the same.
COLLECTOR_BLANKS: Json = {
    "daemonSetUpdateStrategy": {}, "deploymentUpdateStrategy": {}, "ingress": {"route": {}}, "observability": {"metrics": {}},
    "podDnsConfig": {}, "targetAllocator": {"observability": {"metrics": {}}, "prometheusCR": {}, "resources": {}},
}


def autoscalers(workload: Workload, settings: Settings) -> list[Json]:
    """Classes `none` and `external` leave scaling to someone else, who may still want the metrics collected."""
    collectors = _collectors(workload, settings)
    match workload.autoscaler_class:
        case "hpa": return [*collectors, horizontal_pod_autoscaler(workload)]
        case "keda": return [*collectors, scaled_object(workload, settings)]
        case _: return collectors


def horizontal_pod_autoscaler(workload: Workload) -> Json:
    least = max(1, 1 if workload.spec.min_replicas is None else workload.spec.min_replicas)
    spec: Json = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload.name},
                  "minReplicas": least, "maxReplicas": max(workload.spec.max_replicas, least)}
    if metrics := list(_resource_metrics(workload)):
        spec["metrics"] = metrics
    # An empty behaviour is not an absent one: the API server writes its own defaults into it, as it does for KServe.
    spec["behavior"] = (workload.spec.auto_scaling.behavior if workload.spec.auto_scaling else None) or {}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": _metadata(workload), "spec": spec}


def scaled_object(workload: Workload, settings: Settings) -> Json:
    least = 1 if workload.spec.min_replicas is None else workload.spec.min_replicas
    spec: Json = {"scaleTargetRef": {"name": workload.name}, "minReplicaCount": least,
                  "maxReplicaCount": max(workload.spec.max_replicas, least), "triggers": list(_triggers(workload, settings))}
    if behavior := _keda_behavior(workload, settings):
        spec["advanced"] = {"horizontalPodAutoscalerConfig": {"behavior": behavior}, "scalingModifiers": {}}
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": _metadata(workload), "spec": spec}


def _metadata(workload: Workload) -> Json:
    return {"name": workload.name, "namespace": workload.namespace, "labels": dict(workload.labels),
            "annotations": dict(workload.annotations)}


def _metrics(workload: Workload) -> tuple[Metric, ...]:
    return workload.spec.auto_scaling.metrics if workload.spec.auto_scaling else ()


def _resource_metrics(workload: Workload) -> Iterator[Json]:
    spec = workload.spec
    if spec.auto_scaling is not None:
        for metric in spec.auto_scaling.metrics:
            if metric.resource is not None:
                yield _resource_metric(metric.resource.name, _hpa_target(metric.resource))
        return
    name = spec.scale_metric or "cpu"
    if name == "cpu" or (name == "memory" and spec.scale_target is not None):
        target = DEFAULT_UTILIZATION if spec.scale_target is None else spec.scale_target
        yield _resource_metric(name, _simple_target(name, target, spec.scale_metric_type))


def _resource_metric(name: str, target: Json) -> Json:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def _simple_target(name: str, target: int, kind: str | None) -> Json:
    """`scaleMetricType` decides whether the number is a share or an amount; the default is a share."""
    if kind in ("Value", "AverageValue"):
        return {"type": "AverageValue", "averageValue": f"{target}Mi" if name == "memory" else str(target)}
    return {"type": "Utilization", "averageUtilization": target}


def _hpa_target(resource: ResourceMetric) -> Json:
    """A resource metric knows shares and averages only; a plain value is read as an average over the pods."""
    target = resource.target
    amount = target.average_value if target.average_value is not None else target.value
    if amount is not None and target.type != "Utilization":
        return {"type": "AverageValue", "averageValue": str(amount)}
    share = DEFAULT_UTILIZATION if target.average_utilization is None else target.average_utilization
    return {"type": "Utilization", "averageUtilization": share}


def _triggers(workload: Workload, settings: Settings) -> Iterator[Json]:
    for metric in _metrics(workload):
        if metric.type == "Resource" and metric.resource is not None:
            yield _resource_trigger(metric.resource)
        elif metric.type == "External" and metric.external is not None:
            yield _external_trigger(metric.external)
        elif metric.type == "PodMetric" and metric.podmetric is not None:
            yield _pod_trigger(metric.podmetric, workload, settings)


def _resource_trigger(resource: ResourceMetric) -> Json:
    target = resource.target
    if target.type == "Utilization" or (target.type is None and resource.name == "cpu"):
        fallback = DEFAULT_UTILIZATION if resource.name == "cpu" else 0
        value = str(fallback if target.average_utilization is None else target.average_utilization)
    else:
        value = _amount(target)
    return {"type": resource.name, "metricType": target.type or "Utilization", "metadata": {"value": value}}


def _amount(target: MetricTarget) -> str:
    """As the user wrote it: KEDA reads the text itself."""
    amount = target.average_value if target.average_value is not None else target.value
    return "0" if amount is None else str(amount)


def _external_trigger(source: ExternalMetricSource) -> Json:
    metric = source.metric
    metadata = {"serverAddress": metric.server_address or "", "query": metric.query or "",
                "threshold": "0" if source.target.value is None else str(source.target.value)}
    if metric.namespace and metric.backend == "prometheus":
        metadata["namespace"] = metric.namespace
    trigger: Json = {"type": metric.backend or "prometheus", "metadata": metadata}
    if source.authentication_ref is not None:
        if source.authentication_ref.auth_modes:
            metadata["authModes"] = source.authentication_ref.auth_modes
        trigger["authenticationRef"] = {"name": source.authentication_ref.authentication_ref.name}
    return trigger


def _pod_trigger(source: PodMetricSource, workload: Workload, settings: Settings) -> Json:
    metric = source.metric
    where = f'{{namespace="{workload.namespace}", deployment="{workload.name}"}}'
    metadata = {"metricQuery": f"sum({metric.query or ''}{where})",
                "targetValue": "0" if source.target.value is None else str(source.target.value),
                "scalerAddress": metric.server_address or settings.opentelemetry_collector.metric_scaler_endpoint}
    if metric.operation_over_time:
        metadata["operationOverTime"] = metric.operation_over_time
    return {"type": "external", "metadata": metadata}


def _keda_behavior(workload: Workload, settings: Settings) -> Json:
    """The user's behaviour; windows that it leaves open come from the central settings."""
    given = (workload.spec.auto_scaling.behavior if workload.spec.auto_scaling else None) or {}
    windows = (("scaleDown", settings.autoscaler.scale_down_stabilization_window_seconds),
               ("scaleUp", settings.autoscaler.scale_up_stabilization_window_seconds))
    behavior: Json = {name: dict(rules) for name, rules in given.items() if rules}
    for direction, seconds in windows:
        if "stabilizationWindowSeconds" not in behavior.get(direction, {}) and str(seconds) != "":
            behavior.setdefault(direction, {})["stabilizationWindowSeconds"] = int(seconds)
    return behavior


def _collectors(workload: Workload, settings: Settings) -> list[Json]:
    names = [name for metric in _metrics(workload) if metric.podmetric and metric.podmetric.metric.backend == "opentelemetry"
             for name in metric.podmetric.metric.metric_names]
    return [_collector(workload, names, settings)] if names else []


def _collector(workload: Workload, names: list[str], settings: Settings) -> Json:
    section = settings.opentelemetry_collector
    port = workload.annotations.get(keys.PROMETHEUS_PORT, str(DEFAULT_PORT))
    metadata = {"name": workload.name, "namespace": workload.namespace, "annotations": dict(workload.annotations)}
    spec = {"mode": "sidecar", "resources": section.resource.requirements, **COLLECTOR_BLANKS,
            "config": _pipeline(port, names, section.scrape_interval, section.metric_receiver_endpoint)}
    return {"apiVersion": "opentelemetry.io/v1beta1", "kind": "OpenTelemetryCollector", "metadata": metadata, "spec": spec}


def _pipeline(port: str, names: list[str], interval: str, endpoint: str) -> Json:
    """Scrape the pod itself, label each point with where it came from, keep the named metrics, hand them to the scaler."""
    job = {"job_name": "otel-collector", "scrape_interval": interval, "static_configs": [{"targets": [f"localhost:{port}"]}]}
    copies = [f'set(attributes["{short}"], resource.attributes["k8s.{short}.name"])' for short in ("namespace", "deployment", "pod")]
    processors = {
        "resourcedetection/env": {"detectors": ["env"], "timeout": "2s", "override": False},
        "transform": {"metric_statements": [{"context": "datapoint", "statements": copies}]},
        "filter/metrics": {"metrics": {"include": {"match_type": "strict", "metric_names": names}}},
    }
    pipeline = {"receivers": ["prometheus"], "processors": list(processors), "exporters": ["otlp"]}
    return {"receivers": {"prometheus": {"config": {"scrape_configs": [job]}}}, "processors": processors,
            "exporters": {"otlp": {"endpoint": endpoint, "compression": "none", "tls": {"insecure": True}}},
            "service": {"pipelines": {"metrics": pipeline}}}
