"""What the LLM controllers report; schemas only."""

from typing import Annotated, ClassVar, Literal

import msgspec

from serveplane.api.model import Int32, Model, rules
from serveplane.api.reported import Address, Reported
from serveplane.objects import Json

NAME = Annotated[str, rules(minLength=1, maxLength=253)]
NAMESPACE = Annotated[str, rules(minLength=1, maxLength=63)]
ATOMIC = rules(x_kubernetes_list_type="atomic")


class ObjectName(Model):
    group: Annotated[str, rules(maxLength=253)]
    kind: Annotated[str, rules(minLength=1, maxLength=63)]
    name: NAME
    namespace: NAMESPACE | None = None


class ServedModel(Model):
    name: str


class ReachableAddress(Model):
    name: str | None = None
    url: str | None = None
    ca_certs: str | None = msgspec.field(default=None, name="CACerts")
    audience: str | None = None
    origin: ObjectName | None = None
    models: tuple[ServedModel, ...] = ()


class UsedGateway(ObjectName):
    listeners: Annotated[tuple[NAME, ...], ATOMIC] = ()
    http_routes: Annotated[tuple[ObjectName, ...], ATOMIC] = ()


class UsedScheduler(Model):
    inference_pool: ObjectName | None = None
    service: ObjectName | None = None


class Backend(Model):
    group: Annotated[str, rules(default="", maxLength=253)] = ""
    kind: Annotated[str, rules(default="Service", minLength=1, maxLength=63)] = "Service"
    name: NAME
    namespace: NAMESPACE | None = None
    port: Annotated[Int32, rules(minimum=1, maximum=65535)] | None = None


class GroupMember(Model):
    name: str
    weight: Int32
    stopped: bool | None = None
    backend_ref: Backend | None = None


class RoutingGroup(Model):
    name: str
    members: Annotated[
        tuple[GroupMember, ...], rules(x_kubernetes_list_type="map", x_kubernetes_list_map_keys=["name"])
    ] = ()


class UsedRouterBase(Model):
    gateways: Annotated[tuple[UsedGateway, ...], ATOMIC] = ()
    scheduler: UsedScheduler | None = None


class UsedRouter(UsedRouterBase):
    group: RoutingGroup | None = None


class UsedService(Model):
    RULES: ClassVar[Json] = {"x-kubernetes-map-type": "atomic"}
    api_group: str | None = None
    kind: str
    name: str


class UsedWorkload(UsedService):
    RULES: ClassVar[Json] = {"x-kubernetes-map-type": "atomic"}
    ready_replicas: Int32 | None = None


class UsedWorkloads(Model):
    primary: UsedWorkload | None = None
    prefill: UsedWorkload | None = None
    scheduler: UsedWorkload | None = None
    service: UsedService | None = None


class AppliedConfig(Model):
    name: NAME
    namespace: NAMESPACE
    source: Literal["Preset", "UserRef"]


class LlmStatusBase(Reported):
    url: str | None = None
    address: Address | None = None


class LlmStatus(LlmStatusBase):
    addresses: Annotated[tuple[ReachableAddress, ...], ATOMIC] = ()
    router: UsedRouter | None = None
    workloads: UsedWorkloads | None = None
    applied_configs: Annotated[tuple[AppliedConfig, ...], ATOMIC] = ()


class OlderLlmStatus(LlmStatusBase):
    """The status in v1alpha1."""

    addresses: tuple[Address, ...] = ()
    router: UsedRouterBase | None = None


class User(Model):
    name: NAME | None = None
    namespace: NAMESPACE | None = None


class LlmConfigStatus(Reported):
    referenced_by: Annotated[tuple[User, ...], ATOMIC] = ()
