"""ServingRuntime and ClusterServingRuntime v1alpha1: containers that know how to serve some model formats."""

from typing import Annotated

import msgspec

from serveplane.api.model import Inline, Int32, Model, Named, Part, StringMap, WithPod, rules
from serveplane.objects import Json

POD_FIELDS = (
    "containers volumes nodeSelector affinity tolerations imagePullSecrets hostIPC schedulerName resourceClaims"
)
RUNTIME_POD = Inline("core.v1.PodSpec", only=tuple(POD_FIELDS.split()))


class SupportedFormat(Model):
    name: str
    version: str | None = None
    auto_select: bool = False
    priority: Annotated[Int32, rules(minimum=1)] | None = None


class RuntimePod(WithPod):
    """The pod part of a runtime: a chosen few PodSpec fields, under `pod`, and metadata for the pods."""

    labels: StringMap = msgspec.field(default_factory=dict)
    annotations: StringMap = msgspec.field(default_factory=dict)
    pod: Annotated[Json, RUNTIME_POD] = msgspec.field(default_factory=dict)


class RuntimeWorker(RuntimePod):
    pipeline_parallel_size: int | None = None
    tensor_parallel_size: int | None = None


class StorageHelper(Model):
    disabled: bool = False


class BuiltInAdapter(Model):
    """How ModelMesh drives a server; kept for its users, of no meaning to the modes we run."""

    server_type: str | None = None
    runtime_management_port: int | None = None
    mem_buffer_bytes: int | None = None
    model_loading_timeout_millis: int | None = None
    env: tuple[Annotated[Json, Part("core.v1.EnvVar")], ...] = ()


class ServingRuntimeSpec(RuntimePod):
    supported_model_formats: tuple[SupportedFormat, ...] = ()
    multi_model: bool = False
    disabled: bool = False
    protocol_versions: tuple[str, ...] = ()
    worker_spec: RuntimeWorker | None = None
    grpc_endpoint: str | None = None
    grpc_data_endpoint: str | None = None
    http_data_endpoint: str | None = None
    replicas: int | None = None
    storage_helper: StorageHelper | None = None
    built_in_adapter: BuiltInAdapter | None = None


class ServingRuntime(Named):
    """A runtime of a namespace; a ClusterServingRuntime reads the same and has no namespace."""

    spec: ServingRuntimeSpec
    status: Json = msgspec.field(default_factory=dict)

    @property
    def creation_timestamp(self) -> str:
        return str(self.metadata.get("creationTimestamp") or "")
