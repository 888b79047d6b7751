"""All that one reconcile of an InferenceService looks at, gathered before anything is decided; and what was decided."""
import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from serveplane.api import keys
from serveplane.api.inferenceservice import inference_service
from serveplane.api.inferenceservice.types import InferenceService
from serveplane.api.mode import Mode, parse_mode
from serveplane.kube.kind import Kind, ObjectRef
from serveplane.objects import Json
from serveplane.render.facts import Facts
from serveplane.render.runtimes import InvalidSpec, Selection
from serveplane.render.workloads import Blueprint, is_stop
from serveplane.status.downloads import Download

INFERENCE_SERVICE = Kind("serving.kserve.io/v1beta1", "InferenceService")
DEPLOYMENT = Kind("apps/v1", "Deployment")
SERVICE = Kind("v1", "Service")
CONFIG_MAP = Kind("v1", "ConfigMap")
AUTOSCALER = Kind("autoscaling/v2", "HorizontalPodAutoscaler")
SCALED_OBJECT = Kind("keda.sh/v1alpha1", "ScaledObject")
COLLECTOR = Kind("opentelemetry.io/v1beta1", "OpenTelemetryCollector")
HTTP_ROUTE = Kind("gateway.networking.k8s.io/v1", "HTTPRoute")
INGRESS = Kind("networking.k8s.io/v1", "Ingress")

CHILD_KINDS = (DEPLOYMENT, SERVICE, AUTOSCALER, HTTP_ROUTE, INGRESS, SCALED_OBJECT, COLLECTOR)
"""Kinds that are pruned: what an owned object of these kinds is no longer wanted for, it is deleted for."""


@dataclass(frozen=True, kw_only=True)
class World:
    """The service and its surroundings at one moment."""
    raw: Json
    """The service as stored."""
    facts: Facts
    now: datetime.datetime
    live: Mapping[ObjectRef, Json] = field(default_factory=dict)
    """Children that exist."""
    pods: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    """Pods by the name of their workload."""
    downloads: Mapping[str, Download] = field(default_factory=dict)
    """How far pods are with the download of their model, by pod, as far as that is known."""
    local_cache: Json | None = None
    """The local model cache that the service was given, if it still exists."""
    absent_kinds: frozenset[Kind] = frozenset()
    """Neighbours' kinds that the cluster does not know."""
    ca_bundle: str | None = None
    """The certificates of the control namespace that downloads shall trust, where the settings name them."""
    server_version: tuple[int, int] | None = None
    """Of Kubernetes, where something depends on it."""
    assume_healthy: bool = False
    """For `plan`: what will be there once everything is up."""

    @cached_property
    def service(self) -> InferenceService:
        return inference_service(self.raw)

    @property
    def uses_gateway_api(self) -> bool:
        """As the settings wish, where the cluster has it; an Ingress takes its place otherwise."""
        return self.facts.settings.ingress.enable_gateway_api and HTTP_ROUTE not in self.absent_kinds

    @property
    def mode(self) -> Mode:
        """A mode once taken stays: the status wins over the annotation, the annotation over the settings."""
        said = ((self.raw.get("status") or {}).get("deploymentMode"), self.service.annotations.get(keys.DEPLOYMENT_MODE))
        return next((mode for text in said if (mode := parse_mode(text))), self.facts.settings.deploy.mode)

    @property
    def is_stopped(self) -> bool:
        return is_stop(self.service.annotations)


@dataclass(frozen=True)
class Notice:
    """An event worth telling the user."""
    type: str
    reason: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What shall be, and why."""
    children: Sequence[Json] = ()
    shared: Sequence[Json] = ()
    """Objects that belong to a namespace, not to one service: created or changed, never pruned."""
    blueprint: Blueprint | None = None
    selection: Selection | None = None
    failure: InvalidSpec | None = None
    """Why nothing could be rendered; what is there is then left alone."""
    notices: Sequence[Notice] = ()
    frozen: bool = False
    """Children are to stay as they are."""
    prune: bool = True
    """Whether the plan is whole, so that what it does not have may go."""
    missing: Sequence[Kind] = ()
    """Kinds that the service asks for and the cluster does not know."""
