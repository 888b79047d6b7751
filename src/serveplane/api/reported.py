"""What controllers report: the parts that the statuses of several kinds share.

These classes describe schemas only; statuses are written as JSON by `serveplane.status`.
"""

from typing import Annotated, Literal

import msgspec

from serveplane.api.model import Int32, Int64, Model, StringMap, rules


class Condition(Model):
    type: str
    status: str
    severity: str | None = None
    last_transition_time: str | None = None
    reason: str | None = None
    message: str | None = None


class Address(Model):
    name: str | None = None
    url: str | None = None
    ca_certs: str | None = msgspec.field(default=None, name="CACerts")
    audience: str | None = None


class Reported(Model):
    """What every status has."""

    observed_generation: Int64 | None = None
    conditions: tuple[Condition, ...] = ()
    annotations: StringMap | None = None


ModelState = Literal["", "Pending", "Standby", "Loading", "Loaded", "FailedToLoad"]
TransitionStatus = Literal["", "UpToDate", "InProgress", "BlockedByFailedLoad", "InvalidSpec"]
FailureReason = Literal[
    "ModelLoadFailed",
    "RuntimeUnhealthy",
    "RuntimeDisabled",
    "NoSupportingRuntime",
    "RuntimeNotRecognized",
    "InvalidPredictorSpec",
]


class ModelStates(Model):
    active_model_state: Annotated[ModelState, rules(default="Pending")]
    target_model_state: Annotated[ModelState, rules(default="")] | None = None


class ModelCopies(Model):
    failed_copies: Annotated[int, rules(default=0)]
    total_copies: int | None = None


class Failure(Model):
    location: str | None = None
    reason: FailureReason | None = None
    message: str | None = None
    model_revision_name: str | None = None
    time: Annotated[str, rules(format="date-time")] | None = None
    exit_code: Int32 | None = None


class ModelStatus(Model):
    transition_status: Annotated[TransitionStatus, rules(default="UpToDate")]
    states: ModelStates | None = None
    copies: ModelCopies | None = None
    last_failure_info: Failure | None = None


class TrafficTarget(Model):
    configuration_name: str | None = None
    revision_name: str | None = None
    latest_revision: bool | None = None
    percent: Int64 | None = None
    tag: str | None = None
    url: str | None = None


class ComponentStatus(Model):
    latest_ready_revision: str | None = None
    latest_created_revision: str | None = None
    previous_rolledout_revision: str | None = None
    latest_rolledout_revision: str | None = None
    traffic: tuple[TrafficTarget, ...] = ()
    url: str | None = None
    rest_url: str | None = None
    grpc_url: str | None = None
    address: Address | None = None


class CanaryStatus(Model):
    name: str
    ready: bool
    traffic_percent: Int32
    model_status: ModelStatus | None = None


class InferenceServiceStatus(Reported):
    url: str | None = None
    address: Address | None = None
    components: dict[str, ComponentStatus] | None = None
    model_status: ModelStatus | None = None
    canary_statuses: Annotated[tuple[CanaryStatus, ...], rules(x_kubernetes_list_type="atomic")] = ()
    deployment_mode: str | None = None
    serving_runtime_name: str | None = None
    cluster_serving_runtime_name: str | None = None
