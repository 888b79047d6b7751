"""From a world to a plan. No I/O: `serveplane plan`, the tests and the controller all come through here."""
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from serveplane.api import keys
from serveplane.api.inferenceservice.components import Component, components
from serveplane.api.mode import Mode
from serveplane.controllers.inferenceservice.world import CONFIG_MAP, DEPLOYMENT, Notice, Plan, World
from serveplane.kube.kind import Kind, ObjectRef, kind_of
from serveplane.objects import Json
from serveplane.render.autoscalers import autoscalers
from serveplane.render.canaries import canaries, reduced_minimum
from serveplane.render.deployments import deployments
from serveplane.render.metadata import is_multi_model
from serveplane.render.names import model_config_name
from serveplane.render.pods.storage import GLOBAL_CA_BUNDLE
from serveplane.render.routes import Shares, routes
from serveplane.render.runtimes import FailureReason, InvalidSpec, Selection
from serveplane.render.services import services
from serveplane.render.workloads import Blueprint, Canary, Workload, select_runtime, stable_blueprint
from serveplane.settings import Settings
from serveplane.status.deployments import available_replicas
from serveplane.status.service import is_ready

CA_BUNDLE_KEY = "cabundle.crt"


def decide(world: World) -> Plan:
    """Everything that should exist for a service. A spec that cannot be rendered gives a plan that says so and changes nothing."""
    if world.mode is not Mode.STANDARD:
        return Plan(frozen=True)   # whatever there is belongs to whoever carries out that mode
    head = components(world.service)[0]
    selection = select_runtime(head, world.facts)
    if world.is_stopped:
        return Plan(selection=selection, shared=_shared(world))
    try:
        return _standard(world, head, selection)
    except InvalidSpec as failure:
        return Plan(selection=selection, failure=failure, frozen=True, notices=(_refusal(failure),))


def _standard(world: World, head: Component, selection: Selection | None) -> Plan:
    service, settings = world.service, world.facts.settings
    _check_bundle(world)
    blueprint = stable_blueprint(service, selection, world.facts)
    blueprint = replace(blueprint, canaries=tuple(canaries(world.raw, service, world.facts)))
    ready = [canary for canary in blueprint.canaries if _is_up(world, canary)]
    blueprint = _lightened(blueprint, ready)
    children = [child for workload in blueprint.workloads for child in workload_children(workload, settings)]
    children += routes(service, blueprint, Shares.of(blueprint, ready), settings, gateway_api=world.uses_gateway_api)
    if is_multi_model(head):
        children.append(_model_config(world))
    missing = list(dict.fromkeys(kind for kind in map(kind_of, children) if kind in world.absent_kinds))
    children = [child for child in children if kind_of(child) not in world.absent_kinds]
    notices = [*_absences(world, missing)]
    notices += [Notice("Warning", "DuplicateEntry", text) for workload in blueprint.workloads for text in workload.warnings]
    broken = [canary for canary in blueprint.canaries if canary.failure]
    notices += [Notice("Warning", "CanaryInvalid", f"canary {canary.name}: {canary.failure}") for canary in broken]
    return Plan(children=tuple(children), shared=_shared(world), blueprint=blueprint, selection=selection,
                notices=tuple(notices), frozen=_is_frozen(world), prune=not broken,
                missing=tuple(missing))


def workload_children(workload: Workload, settings: Settings) -> list[Json]:
    """A workload's own objects; the Service first, so that its name is known before the pods ask for it."""
    if workload.is_stopped:
        return []
    return [*services(workload, settings), *deployments(workload, settings), *autoscalers(workload, settings)]


def _is_up(world: World, canary: Canary) -> bool:
    live = (world.live.get(ObjectRef(DEPLOYMENT, workload.namespace, workload.name)) for workload in canary.workloads)
    return not canary.failure and (world.assume_healthy or all(available_replicas(deployment) > 0 for deployment in live))


def _lightened(blueprint: Blueprint, ready: list[Canary]) -> Blueprint:
    """The stable predictor gives up what ready canaries carry."""
    taken = sum(canary.replicas for canary in ready)
    predictor = blueprint.predictor
    spec = msgspec.structs.replace(predictor.spec, min_replicas=reduced_minimum(predictor.spec.min_replicas, taken))
    return replace(blueprint, stable=(replace(predictor, spec=spec), *blueprint.stable[1:]))


def _is_frozen(world: World) -> bool:
    """`disable-auto-update` keeps a ready service as it is when runtimes or settings change; the user's own edits still count."""
    status = world.raw.get("status") or {}
    wish = world.service.annotations.get(keys.DISABLE_AUTO_UPDATE) == "true"
    return wish and is_ready(status) and status.get("observedGeneration") == world.raw["metadata"].get("generation")


def _model_config(world: World) -> Json:
    """The ConfigMap that an agent watches; which models stand in it is the TrainedModels' business."""
    metadata = world.raw["metadata"]
    ref = ObjectRef(CONFIG_MAP, metadata.get("namespace", ""), model_config_name(metadata["name"]))
    models = ((world.live.get(ref) or {}).get("data") or {}).get("models.json", "[]")
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": {"models.json": models},
            "metadata": {"name": ref.name, "namespace": ref.namespace, "labels": dict(world.service.labels)}}


def _check_bundle(world: World) -> None:
    """Pods would wait for certificates that nobody can give them."""
    name = world.facts.settings.storage_initializer.ca_bundle_config_map_name
    if name and not world.ca_bundle and not world.assume_healthy:
        where = f"{world.facts.control_namespace}/{name}"
        raise InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC,
                          f"the settings name the ConfigMap {where} for certificates, and it has no key {CA_BUNDLE_KEY}")


def _shared(world: World) -> tuple[Json, ...]:
    if not world.ca_bundle:
        return ()
    metadata = {"name": GLOBAL_CA_BUNDLE, "namespace": world.service.namespace}
    return ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {CA_BUNDLE_KEY: world.ca_bundle}},)


def _absences(world: World, missing: list[Kind]) -> Iterator[Notice]:
    """What a service asks for and the cluster cannot give; everything else is made all the same."""
    if world.facts.settings.ingress.enable_gateway_api and not world.uses_gateway_api:
        yield Notice("Warning", "GatewayApiNotInstalled", "The Gateway API is not installed here; an Ingress is used instead")
    for kind in missing:
        words = f"The cluster does not know {kind.kind} ({kind.api_version}), which this service asks for"
        yield Notice("Warning", "KindNotInstalled", words)


def _refusal(failure: InvalidSpec) -> Notice:
    return Notice("Warning", failure.reason.value, failure.message)
