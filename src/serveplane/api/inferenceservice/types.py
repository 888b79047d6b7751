"""InferenceService v1beta1 as typed data.

Predictor, transformer and explainer differ in what may implement them, not in how they are treated;
`components.components` gives the three as one shape.
"""

from typing import Annotated, Literal

import msgspec

from serveplane.api.model import (
    Described,
    Inline,
    Int32,
    Int64,
    IntOrString,
    Model,
    Named,
    Open,
    Part,
    StringMap,
    WithPod,
    rules,
)
from serveplane.api.reported import InferenceServiceStatus
from serveplane.objects import Json

_NAMES = "sklearn tensorflow xgboost pytorch triton onnx huggingface pmml lightgbm paddle"
FRAMEWORKS = tuple(_NAMES.split())
VARIANT_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
ATOMIC = rules(x_kubernetes_list_type="atomic")


class StorageUri(Model):
    """One of several places to download from, and where it is mounted."""

    uri: Annotated[str, rules(minLength=1)]
    mount_path: Annotated[str, rules(default="/mnt/models", pattern="^/.*", maxLength=255)] = "/mnt/models"


StorageUris = Annotated[tuple[StorageUri, ...], ATOMIC, rules(minItems=1)]


class StorageSpec(Model):
    """Where a model is, in words of the `storage-config` secret instead of a URI."""

    path: str | None = None
    schema_path: str | None = None
    parameters: StringMap | None = None
    key: str | None = None


class Confidential(Model):
    """An encrypted model whose key a key broker holds."""

    enabled: bool
    resource_id: str = ""


class Framework(Model):
    """A container that serves models: every legacy framework block, and the base of `model`."""

    storage_uri: str | None = None
    runtime_version: str | None = None
    protocol_version: str | None = None
    storage: StorageSpec | None = None
    confidential: Confidential | None = None
    container: Annotated[Json, Inline("core.v1.Container", optional=("name",))] = msgspec.field(default_factory=dict)


class ModelFormat(Model):
    name: str
    version: str | None = None


class ModelSpec(Framework):
    """A model by its format; a ServingRuntime brings the container."""

    model_format: Annotated[ModelFormat, rules(optional=True)]
    runtime: str | None = None


class MetricTarget(Model):
    type: Literal["Utilization", "Value", "AverageValue"] | None = None
    value: IntOrString | None = None
    average_value: IntOrString | None = None
    average_utilization: Int32 | None = None


class ResourceMetric(Model):
    name: Literal["cpu", "memory"]
    target: MetricTarget


class ExternalMetric(Model):
    backend: Literal["prometheus", "graphite"] | None = None
    server_address: str | None = None
    query: str | None = None
    namespace: str | None = None


class AuthenticationName(Model):
    name: str


class ExternalAuthentication(Model):
    auth_modes: str | None = None
    authentication_ref: AuthenticationName


class ExternalMetricSource(Model):
    metric: ExternalMetric
    authentication_ref: ExternalAuthentication | None = None
    target: MetricTarget


class PodMetric(Model):
    backend: Literal["opentelemetry"] | None = None
    server_address: str | None = None
    metric_names: tuple[str, ...] = ()
    query: str | None = None
    operation_over_time: str | None = None


class PodMetricSource(Model):
    metric: PodMetric
    target: MetricTarget


class Metric(Model):
    type: Literal["Resource", "External", "PodMetric"]
    resource: ResourceMetric | None = None
    external: ExternalMetricSource | None = None
    podmetric: PodMetricSource | None = None


class AutoScaling(Model):
    metrics: tuple[Metric, ...] = ()
    behavior: Annotated[Json, Part("autoscaling.v2.HorizontalPodAutoscalerBehavior")] | None = None


class LoggerStorage(Model):
    path: str | None = None
    parameters: StringMap | None = None
    key: str | None = None
    service_account_name: str | None = None


class Logger(Model):
    """Requests and answers copied to a sink by the agent."""

    url: str | None = None
    mode: Literal["all", "request", "response"] | None = None
    metadata_headers: tuple[str, ...] = ()
    metadata_annotations: tuple[str, ...] = ()
    storage: LoggerStorage | None = None
    marshaller_url: str | None = None
    batch_size: int | None = None
    batch_interval: str | None = None


class Batcher(Model):
    """Requests joined into one by the agent."""

    max_batch_size: int | None = None
    max_latency: int | None = None
    timeout: int | None = None


class Extension(WithPod):
    """What every component has, however it is implemented."""

    min_replicas: Int32 | None = None
    max_replicas: Int32 = 0
    scale_target: Int32 | None = None
    scale_metric: Literal["cpu", "memory", "concurrency", "rps"] | None = None
    scale_metric_type: Literal["Utilization", "Value", "AverageValue"] | None = None
    auto_scaling: AutoScaling | None = None
    container_concurrency: Int64 | None = None
    timeout: Int64 | None = None
    canary_traffic_percent: Int64 | None = None
    logger: Logger | None = None
    batcher: Batcher | None = None
    labels: StringMap = msgspec.field(default_factory=dict)
    annotations: StringMap = msgspec.field(default_factory=dict)
    deployment_strategy: Annotated[Json, Part("apps.v1.DeploymentStrategy")] | None = None


OUR_POD = Inline("core.v1.PodSpec", optional=("containers",), without=("ephemeralContainers",))


class ComponentSpec(Extension):
    """A component: its extension fields and, under `pod`, whatever PodSpec fields the user gave."""

    storage_uris: StorageUris = ()
    pod: Annotated[Json, OUR_POD] = msgspec.field(default_factory=dict)


class Worker(WithPod):
    """The pods beside the head in a multi-node predictor."""

    pipeline_parallel_size: int | None = None
    tensor_parallel_size: int | None = None
    pod: Annotated[Json, Inline("core.v1.PodSpec", optional=("containers",))] = msgspec.field(default_factory=dict)


class Predictor(ComponentSpec):
    name: Annotated[str, rules(pattern=VARIANT_NAME)] = ""
    sklearn: Framework | None = None
    xgboost: Framework | None = None
    tensorflow: Framework | None = None
    pytorch: Framework | None = None
    triton: Framework | None = None
    onnx: Framework | None = None
    huggingface: Framework | None = None
    pmml: Framework | None = None
    lightgbm: Framework | None = None
    paddle: Framework | None = None
    model: ModelSpec | None = None
    storage_container_name: str | None = None
    worker_spec: Worker | None = None


class Transformer(ComponentSpec):
    pass


class ArtExplainer(Model):
    """The Adversarial Robustness Toolbox as explainer."""

    type: str | None = None
    storage_uri: str | None = None
    runtime_version: str | None = None
    config: StringMap = msgspec.field(default_factory=dict)
    storage: StorageSpec | None = None
    container: Annotated[Json, Inline("core.v1.Container", optional=("name",))] = msgspec.field(default_factory=dict)


class Explainer(ComponentSpec):
    art: ArtExplainer | None = None


class CanaryPredictor(Predictor):
    """KServe's schema has ephemeral containers here and nowhere else; validation refuses them."""

    pod: Annotated[Json, Inline("core.v1.PodSpec", optional=("containers",))] = msgspec.field(default_factory=dict)


class Canary(Model):
    """A second predictor that gets a share of the traffic."""

    predictor: CanaryPredictor
    traffic_percent: Annotated[Int32, rules(minimum=0, maximum=100)]


class InferenceServiceSpec(Model):
    predictor: Predictor
    transformer: Transformer | None = None
    explainer: Explainer | None = None
    canary: Annotated[tuple[Canary, ...], ATOMIC] = ()


class InferenceService(Named):
    """An InferenceService. Metadata and status stay JSON: they are the API server's and the controller's."""

    spec: InferenceServiceSpec
    status: Annotated[Json, Described(InferenceServiceStatus), Open()] = msgspec.field(default_factory=dict)
