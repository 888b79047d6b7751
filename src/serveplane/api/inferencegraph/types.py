"""InferenceGraph v1alpha1 as typed data."""

from typing import Annotated, Literal

import msgspec

from serveplane.api.model import Described, Inline, Int32, Int64, Model, Named, Part
from serveplane.api.reported import Reported
from serveplane.objects import Json

ROOT = "root"
RouterType = Literal["Sequence", "Splitter", "Ensemble", "Switch"]


class Step(Model):
    """Where one request goes: to another node, a service by name, or a URL."""

    name: str | None = None
    node_name: str | None = None
    service_name: str | None = None
    service_url: str | None = None
    data: str | None = None
    weight: Int64 | None = None
    condition: str | None = None
    dependency: Literal["Soft", "Hard"] | None = None
    map_predictions_to_instances: bool | None = None


class Node(Model):
    router_type: RouterType
    steps: tuple[Step, ...] = ()


class RouterTimeouts(Model):
    server_read: Int64 | None = None
    server_write: Int64 | None = None
    server_idle: Int64 | None = None
    service_client: Int64 | None = None


class InferenceGraphSpec(Model):
    nodes: dict[str, Node]
    resources: Annotated[Json, Part("core.v1.ResourceRequirements")] | None = None
    timeout: Int64 | None = None
    router_timeouts: RouterTimeouts | None = None
    min_replicas: Int32 | None = None
    max_replicas: Int32 | None = None
    scale_target: Int32 | None = None
    scale_metric: Literal["cpu", "memory", "concurrency", "rps"] | None = None
    pod: Annotated[
        Json,
        Inline("core.v1.PodSpec", only=("affinity", "tolerations", "nodeName", "nodeSelector", "serviceAccountName")),
    ] = msgspec.field(default_factory=dict)


class InferenceGraphStatus(Reported):
    url: str | None = None
    deployment_mode: str | None = None


class InferenceGraph(Named):
    spec: InferenceGraphSpec
    status: Annotated[Json, Described(InferenceGraphStatus)] = msgspec.field(default_factory=dict)
