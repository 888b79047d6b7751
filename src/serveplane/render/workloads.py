"""From an InferenceService to its workloads: what runs, under which name, with which metadata.

A workload is what one Deployment is made of. Every other child (Service, autoscaler, route) is derived from a workload, so
nothing downstream asks which component it is looking at or how the component is implemented.
"""
from collections.abc import Mapping
from dataclasses import dataclass, replace

from serveplane.api import keys
from serveplane.api.inferenceservice.components import Component, ComponentKind, components, named
from serveplane.api.inferenceservice.types import ComponentSpec, InferenceService
from serveplane.objects import Json
from serveplane.render import server_types
from serveplane.render.assistants import assistant_containers
from serveplane.render.facts import Facts
from serveplane.render.merging import (
    given,
    merged_containers,
    merged_pod_spec,
    tagged_image,
    with_env,
    without_duplicates,
)
from serveplane.render.metadata import component_annotations, component_labels, filtered
from serveplane.render.multinode import Group, group, headed
from serveplane.render.names import component_name
from serveplane.render.runtimes import FailureReason, InvalidSpec, Selection, lowest_protocol, select
from serveplane.render.storage import check_uri, with_several_uris
from serveplane.render.templates import metadata_values

SERVICE_NAME_ENV = "INFERENCE_SERVICE_NAME"


def is_stop(annotations: Mapping[str, str]) -> bool:
    # KServe folds case for this annotation ("True" stops a service) but compares disable-auto-update exactly.
    return annotations.get(keys.STOP, "").casefold() == "true"


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One Deployment's worth of a component."""
    kind: ComponentKind
    name: str
    namespace: str
    service: str
    spec: ComponentSpec
    """The component's own fields: replicas, timeouts, scaling, strategy, logger, batcher."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod: Json
    multi_node: Group | None = None
    warnings: tuple[str, ...] = ()

    @property
    def autoscaler_class(self) -> str:
        return self.annotations.get(keys.AUTOSCALER_CLASS, "hpa")

    @property
    def is_stopped(self) -> bool:
        """By the component's own annotation: then nothing of it runs, and the others go on."""
        return is_stop(self.annotations)


@dataclass(frozen=True)
class Canary:
    """A further version of the service that gets a share of its traffic."""
    name: str
    percent: int
    workloads: tuple[Workload, ...]
    failure: InvalidSpec | None = None
    """Why it has no workloads."""

    @property
    def replicas(self) -> int:
        return sum(own.spec.min_replicas or 0 for own in self.workloads if own.kind is ComponentKind.PREDICTOR)


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """All workloads of a service, and how its runtime was chosen."""
    labels: Mapping[str, str]
    """The service's labels, with those that its model server asked for."""
    stable: tuple[Workload, ...]
    selection: Selection | None = None
    canaries: tuple[Canary, ...] = ()

    def workload(self, kind: ComponentKind) -> Workload | None:
        return next((workload for workload in self.stable if workload.kind is kind), None)

    @property
    def predictor(self) -> Workload:
        return self.stable[0]

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Canaries first: traffic moves to them only once they are up."""
        return (*(workload for canary in self.canaries for workload in canary.workloads), *self.stable)

    @property
    def entry(self) -> Workload:
        """Where requests to the service go: through the transformer if there is one."""
        return self.workload(ComponentKind.TRANSFORMER) or self.predictor


def stable_blueprint(service: InferenceService, selection: Selection | None, facts: Facts) -> Blueprint:
    """Everything but canaries. Raises `InvalidSpec` where the spec, or the runtime it names, is at fault."""
    head, *others = components(service)
    predictor, extra = predictor_workload(service, head, selection, facts)
    labels = {**service.labels, **extra}
    assistants = tuple(assistant_workload(service, component, labels, predictor.name, facts) for component in others)
    return Blueprint(labels=labels, stable=(predictor, *assistants), selection=selection)


def select_runtime(component: Component, facts: Facts) -> Selection | None:
    predictor = component.predictor
    if predictor is None or predictor.model is None:
        return None
    return select(predictor, facts.runtimes, facts.cluster_runtimes)


def predictor_workload(
    service: InferenceService, component: Component, selection: Selection | None, facts: Facts
) -> tuple[Workload, dict[str, str]]:
    """The predictor, and labels that its model server asked for, which all children share."""
    predictor = component.predictor
    assert predictor is not None
    _check_storage(component, facts)
    name = component_name(service.name, component.kind, predictor.name)
    extra: dict[str, str] = {}
    runtime_labels: Mapping[str, str] = {}
    runtime_annotations: Mapping[str, str] = {}
    if selection is None:
        pod = _custom_pod(component)
    else:
        runtime = selection.required().spec
        pod, extra = _model_pod(service, component, selection, facts)
        runtime_labels = runtime.labels
        runtime_annotations = filtered(runtime.annotations, facts.settings.inference_service.disallowed_annotations)
    pod = {**pod, "containers": [with_env(container, SERVICE_NAME_ENV, service.name) for container in pod["containers"]]}
    labels = component_labels(name, component.kind, service.name, runtime_labels, service.labels, extra, predictor.labels)
    workload = _workload(service, component, name, labels, pod, facts)
    workload = replace(workload, annotations={**runtime_annotations, **workload.annotations})
    if predictor.worker_spec is not None and selection is not None:
        nodes = group(service, component, selection.required(), workload.labels, facts)
        workload = replace(workload, pod=headed(workload.pod, nodes, service, component), multi_node=nodes,
                           labels={**workload.labels, **nodes.shared_labels})
    return workload, extra


def _model_pod(
    service: InferenceService, component: Component, selection: Selection, facts: Facts
) -> tuple[Json, dict[str, str]]:
    """The pod of a model: its runtime's containers with the model's wishes merged in."""
    runtime, model = selection.required(), component.implementation.model
    if model is None:        # admission refuses it, but not everything stored has passed by there
        raise InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC, "The predictor has a model and another implementation beside it")
    kind = server_types.server_type(runtime)
    protocol = model.protocol_version or lowest_protocol(runtime.spec)
    told = server_types.told(kind, service.name, model, protocol)
    metadata = {**service.metadata, "labels": {**service.labels, **told.labels}}
    first, *rest = merged_containers(runtime.spec.pod, component.spec.containers, told.container, metadata_values(metadata))
    first = given({**first, "image": tagged_image(first, model.runtime_version or "", kind)})
    pod = merged_pod_spec(runtime.spec.pod, given(component.spec.pod))
    return {**pod, "containers": [first, *rest]}, told.labels


def _custom_pod(component: Component) -> Json:
    """The user's own containers; the one that serves comes first, wherever it was written."""
    containers = component.spec.containers
    if not containers:
        raise InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC, "The predictor has neither a model nor a container")
    main = named(containers, keys.KSERVE_CONTAINER) or {**containers[0], "name": keys.KSERVE_CONTAINER}
    rest = [container for container in containers if container.get("name") != keys.KSERVE_CONTAINER]
    if named(containers, keys.KSERVE_CONTAINER) is None:
        rest = rest[1:]
    return {**given(component.spec.pod), "containers": [main, *rest]}


def assistant_workload(
    service: InferenceService, component: Component, labels: Mapping[str, str], predictor: str, facts: Facts, variant: str = ""
) -> Workload:
    """A transformer or an explainer: told where the predictor is."""
    name = component_name(service.name, component.kind, variant)
    _check_storage(component, facts)
    pod = {**given(component.spec.pod), "containers": assistant_containers(service, component, predictor, facts)}
    own = component_labels(name, component.kind, service.name, labels, component.spec.labels)
    return _workload(service, component, name, own, pod, facts)


def _workload(
    service: InferenceService, component: Component, name: str, labels: Mapping[str, str], pod: Json, facts: Facts
) -> Workload:
    disallowed = facts.settings.inference_service.disallowed_annotations
    annotations = component_annotations(service, component, disallowed)
    if component.spec.storage_uris:
        pod = with_several_uris(pod, service, component, annotations, facts)
    pod, dropped = without_duplicates(pod)
    return Workload(kind=component.kind, name=name, namespace=service.namespace, service=service.name, spec=component.spec,
                    labels=labels, annotations=annotations, pod=pod, warnings=tuple(dropped))


def _check_storage(component: Component, facts: Facts) -> None:
    chosen = component.implementation
    if not chosen.storage_uri:
        return
    if component.predictor and chosen.storage and chosen.storage.path:
        raise InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC, "storageUri and storage.path are both given; give one of them")
    check_uri(chosen.storage_uri, facts)
