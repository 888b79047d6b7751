"""The LLM kinds as typed data, in the shape of v1alpha2.

An object of v1alpha1 is converted first; `older` describes only what its schema has otherwise.
"""

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from serveplane.api.llminferenceservice.reported import LlmConfigStatus, LlmStatus
from serveplane.api.model import (
    Described,
    Int32,
    IntOrString,
    Model,
    Named,
    Part,
    Quantity,
    Schemaless,
    StringMap,
    cel,
    rules,
)
from serveplane.objects import Json

PodSpec = Annotated[Json, Part("core.v1.PodSpec", optional=("containers",))]
NAME_LENGTH = rules(minLength=1, maxLength=253)
LABEL = rules(minLength=1, maxLength=63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
SUBDOMAIN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
POSITIVE = rules(minimum=1)
NOT_NEGATIVE = rules(minimum=0)
ATOMIC = rules(x_kubernetes_list_type="atomic")


class LocalReference(Model):
    """An object of the same namespace."""

    RULES: ClassVar[Json] = {"x-kubernetes-map-type": "atomic"}
    name: Annotated[str, rules(default="", optional=True)]


class Lora(Model):
    adapters: Annotated[tuple["Adapter", ...], Schemaless()] = ()
    max_rank: Annotated[Int32, POSITIVE] | None = None
    max_adapters: Annotated[Int32, POSITIVE] | None = None
    max_cpu_adapters: Annotated[Int32, POSITIVE] | None = None


class Confidential(Model):
    enabled: bool
    resource_id: str | None = None


class Adapter(Model):
    """A LoRA adapter: a model without adapters of its own."""

    uri: str
    name: str | None = None
    criticality: str | None = None
    confidential: Confidential | None = None
    lora: dict[str, Any] | None = None


class LlmModelBase(Model):
    uri: str
    name: str | None = None
    lora: Lora | None = None


class LlmModel(LlmModelBase):
    confidential: Confidential | None = None


class Parallelism(Model):
    tensor: Annotated[Int32, POSITIVE] | None = None
    pipeline: Annotated[Int32, POSITIVE] | None = None
    data: Annotated[Int32, POSITIVE] | None = None
    data_local: Annotated[Int32, POSITIVE] | None = None
    data_rpc_port: Annotated[Int32, rules(minimum=1, maximum=65535)] | None = msgspec.field(
        default=None, name="dataRPCPort"
    )
    expert: bool = False

    @property
    def is_data_parallel(self) -> bool:
        return (self.data or 0) > 0 or (self.data_local or 0) > 0

    @property
    def is_pipeline_parallel(self) -> bool:
        return (self.pipeline or 0) > 0

    @property
    def size(self) -> int | None:
        """How many pods make one group; None where nothing says so."""
        if self.is_data_parallel:
            return max(1, max(self.data or 1, 1) // max(self.data_local or 1, 1))
        return self.pipeline if self.is_pipeline_parallel else None


class Keda(Model):
    polling_interval: Annotated[Int32, POSITIVE] | None = None
    cooldown_period: Annotated[Int32, NOT_NEGATIVE] | None = None
    initial_cooldown_period: Annotated[Int32, NOT_NEGATIVE] | None = None
    idle_replica_count: Annotated[Int32, NOT_NEGATIVE] | None = None
    fallback: Annotated[Json, Part("keda.Fallback")] | None = None
    advanced: Annotated[Json, Part("keda.Advanced")] | None = None


class DirectKeda(Keda):
    triggers: Annotated[list[Any], Part("keda.Triggers"), ATOMIC, rules(minItems=1)]


class WvaHpa(Model):
    behavior: Annotated[Json, Part("autoscaling.v2.HorizontalPodAutoscalerBehavior")] | None = None


class Wva(Model):
    """Scaling by the workload variant autoscaler, carried out by an HPA or by KEDA."""

    RULES: ClassVar[Json] = {
        "x-kubernetes-validations": [
            cel("exactly one of hpa and keda is needed", "has(self.hpa) != has(self.keda)"),
        ]
    }
    variant_cost: Annotated[str, rules(default="10.0", pattern="^\\d+(\\.\\d+)?$")] = "10.0"
    hpa: WvaHpa | None = None
    keda: Keda | None = None


class Scaling(Model):
    RULES: ClassVar[Json] = {
        "x-kubernetes-validations": [
            cel("exactly one of wva and keda is needed", "has(self.wva) != has(self.keda)"),
            cel(
                "minReplicas must not exceed maxReplicas",
                "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
            ),
        ]
    }
    min_replicas: Annotated[Int32, rules(default=1, minimum=1)] | None = None
    max_replicas: Annotated[Int32, POSITIVE]
    wva: Wva | None = None
    keda: DirectKeda | None = None


class EmptyDir(Model):
    size: Quantity


class ClaimReference(Model):
    name: str
    path: str | None = None


class Claim(Model):
    spec: Annotated[Json, Part("core.v1.PersistentVolumeClaimSpec")] | None = None
    ref: ClaimReference | None = None


class FileSystem(Model):
    empty_dir: EmptyDir | None = None
    pvc: Claim | None = None


class CacheTier(Model):
    file_system: FileSystem | None = None


class KvCacheOffloading(Model):
    """Key-value cache moved from the GPU to memory, and from there to files."""

    cpu: Quantity
    eviction_policy: Annotated[Literal["lru", "arc"], rules(default="lru")] = "lru"
    secondary: tuple[CacheTier, ...] = ()


class RolloutStrategy(Model):
    max_unavailable: IntOrString | None = None
    max_surge: IntOrString | None = None


NOT_BOTH = cel("replicas and scaling exclude each other", "!(has(self.replicas) && has(self.scaling))")


class WorkloadBase(Model):
    RULES: ClassVar[Json] = {"x-kubernetes-validations": [NOT_BOTH]}
    replicas: Annotated[Int32, NOT_NEGATIVE] | None = None
    scaling: Scaling | None = None
    parallelism: Parallelism | None = None
    labels: StringMap = msgspec.field(default_factory=dict)
    annotations: StringMap = msgspec.field(default_factory=dict)
    template: PodSpec | None = None
    worker: PodSpec | None = None
    rollout_strategy: RolloutStrategy | None = None


class Workload(WorkloadBase):
    """Pods that serve the model: all of it, or the prefill part."""

    RULES: ClassVar[Json] = {"x-kubernetes-validations": [NOT_BOTH]}
    kv_cache_offloading: KvCacheOffloading | None = None


class HttpRoute(Model):
    refs: tuple[LocalReference, ...] = ()
    spec: Annotated[Json, Part("gateway.HTTPRouteSpec")] | None = None


class Route(Model):
    http: HttpRoute | None = None
    group: Annotated[str, rules(minLength=1, maxLength=63, pattern="^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")] | None = None
    weight: Annotated[Int32, rules(minimum=0, maximum=1000000)] | None = None


class NamespacedReference(Model):
    name: Annotated[str, NAME_LENGTH] | None = None
    namespace: Annotated[str, LABEL] | None = None


class GatewayReference(NamespacedReference):
    section_name: Annotated[str, rules(minLength=1, maxLength=253, pattern=SUBDOMAIN)] | None = None


class Gateways(Model):
    refs: tuple[GatewayReference, ...] = ()


class Ingresses(Model):
    refs: tuple[NamespacedReference, ...] = ()


class PortNumber(Model):
    number: Annotated[Int32, rules(minimum=1, maximum=65535)]


class EndpointPicker(Model):
    group: Annotated[str, rules(default="", maxLength=253, pattern=f"^$|{SUBDOMAIN}")] = ""
    kind: Annotated[str, rules(default="Service", minLength=1, maxLength=63)] = "Service"
    name: Annotated[str, NAME_LENGTH]
    port: PortNumber | None = None
    failure_mode: Annotated[Literal["FailOpen", "FailClose"], rules(default="FailClose")] = "FailClose"


class PoolSelector(Model):
    match_labels: Annotated[dict[str, Annotated[str, rules(maxLength=63)]], rules(minProperties=1, maxProperties=64)]


class PoolSpec(Model):
    """An InferencePool of the Inference Extension v1."""

    selector: PoolSelector
    target_ports: Annotated[tuple[PortNumber, ...], ATOMIC, rules(minItems=1, maxItems=8)]
    app_protocol: Annotated[Literal["http", "kubernetes.io/h2c"], rules(default="http")] = "http"
    endpoint_picker_ref: EndpointPicker


class Pool(Model):
    ref: LocalReference | None = None
    spec: PoolSpec | None = None


class ConfigReference(Model):
    RULES: ClassVar[Json] = {"x-kubernetes-map-type": "atomic"}
    name: Annotated[str, rules(default="", optional=True)]
    key: str
    optional: bool | None = None


class SchedulerConfig(Model):
    inline: Annotated[dict[str, Any], rules(x_kubernetes_preserve_unknown_fields=True)] | None = None
    ref: ConfigReference | None = None


class Tokenizer(Model):
    template: Annotated[Json, Part("core.v1.PodSpec")] | None = None


class SchedulerBase(Model):
    labels: StringMap = msgspec.field(default_factory=dict)
    annotations: StringMap = msgspec.field(default_factory=dict)
    template: PodSpec | None = None
    config: SchedulerConfig | None = None
    replicas: Int32 | None = None
    tokenizer: Tokenizer | None = None


class Scheduler(SchedulerBase):
    pool: Pool | None = None


class RouterBase(Model):
    route: Route | None = None
    gateway: Gateways | None = None
    ingress: Ingresses | None = None


class Router(RouterBase):
    scheduler: Scheduler | None = None


class StorageInitializer(Model):
    enabled: bool | None = None


class Tracing(Model):
    exporter_endpoint: str | None = None
    sampler: str | None = None
    sampler_arg: str | None = None
    exporter: str | None = None


class LlmSpec(Workload):
    RULES: ClassVar[Json] = {"x-kubernetes-validations": [NOT_BOTH]}
    model: LlmModel | None = None
    storage_initializer: StorageInitializer | None = None
    prefill: Workload | None = None
    router: Router | None = None
    tracing: Tracing | None = None
    base_refs: tuple[LocalReference, ...] = ()


class LLMInferenceService(Named):
    spec: LlmSpec
    status: Annotated[Json, Described(LlmStatus)] = msgspec.field(default_factory=dict)


class LLMInferenceServiceConfig(Named):
    spec: LlmSpec
    status: Annotated[Json, Described(LlmConfigStatus)] = msgspec.field(default_factory=dict)
