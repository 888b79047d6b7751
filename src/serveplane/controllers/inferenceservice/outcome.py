"""From a plan and the children as they are now to the status. Pure."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from serveplane.api import keys
from serveplane.api.inferenceservice.components import ComponentKind, components
from serveplane.api.mode import Mode
from serveplane.controllers.inferenceservice.world import DEPLOYMENT, HTTP_ROUTE, INGRESS, SERVICE, Plan, World
from serveplane.kube.kind import ObjectRef
from serveplane.objects import Json
from serveplane.objects.conditions import condition
from serveplane.render import hosts
from serveplane.render.names import component_name
from serveplane.render.runtimes import Selection
from serveplane.render.workloads import Canary, Workload
from serveplane.status.blockers import probe_deadline
from serveplane.status.deployments import FALSE, TRUE, UNKNOWN, Judgement, available_replicas, judged
from serveplane.status.downloads import current, words
from serveplane.status.images import CONDITION, image_volume_trouble
from serveplane.status.localmodels import with_cache_words
from serveplane.status.models import invalid, model_status
from serveplane.status.routes import RouteTrouble, route_trouble
from serveplane.status.service import (
    CANARY_READY,
    COMPONENT_READY,
    INGRESS_READY,
    MODEL_DOWNLOADED,
    NEIGHBOURS_READY,
    ROLLING_OUT,
    STOPPED,
    Report,
    Told,
    component_condition,
    status_of,
)

Live = Mapping[ObjectRef, Json]
NO_MODEL: Json = {"transitionStatus": ""}
ROUTE_KINDS = (f"{HTTP_ROUTE.kind}/", f"{INGRESS.kind}/")     # how the error of a child begins: with the child


@dataclass(frozen=True)
class Outcome:
    """The status to write, and when to look again though nothing changes."""
    status: Json
    look_again: timedelta | None = None


@dataclass(frozen=True)
class _Scene:
    world: World
    plan: Plan
    live: Live
    judgements: Mapping[ComponentKind, Judgement] = field(default_factory=dict)

    @property
    def previous(self) -> Json:
        return self.world.raw.get("status") or {}

    @property
    def namespace(self) -> str:
        return self.world.service.namespace


def outcome(world: World, plan: Plan, live: Live, error: str = "") -> Outcome:
    """The status after the plan was carried out, or after as much of it as was possible."""
    scene = _Scene(world, plan, live)
    if world.mode is not Mode.STANDARD:
        return Outcome(_other_mode(scene))
    if world.is_stopped:
        return Outcome(_stopped(scene))
    if plan.blueprint is None:
        return Outcome(_invalid(scene))
    return _running(scene, error)


def _running(scene: _Scene, error: str) -> Outcome:
    world, blueprint = scene.world, scene.plan.blueprint
    assert blueprint is not None
    judgements = {workload.kind: _judge(scene, workload) for workload in blueprint.stable}
    if error and not _is_of_route(error):
        kind = _at_fault(error, blueprint.stable)
        judgements[kind] = Judgement(FALSE, "ReconcileFailed", f"fails to reconcile {kind.value}: {error}")
    scene = _Scene(world, scene.plan, scene.live, judgements)
    route = _refused_route(error) if _is_of_route(error) else _route_condition(scene)
    rolling = "; ".join(judgement.rolling for judgement in judgements.values() if judgement.rolling)
    serving = judgements[ComponentKind.PREDICTOR].serves
    conditions = [*(component_condition(kind, judgement) for kind, judgement in judgements.items()), route,
                  Told(STOPPED, FALSE), *_missing_condition(scene), *_image_condition(world), *_rolling_condition(judgements, rolling),
                  *_canary_condition(scene), *_download_condition(scene)]
    all_serve = serving and route.status == TRUE and all(judgement.serves for judgement in judgements.values())
    report = Report(
        mode=world.mode, generation=_generation(world), conditions=conditions, runtime=_runtime(scene),
        model_status=_model(scene, serving, bool(judgements[ComponentKind.PREDICTOR].rolling)),
        url=_url(scene, route), address=_address(scene, route), component_urls=_component_urls(scene),
        canaries=_canary_statuses(scene), generation_serves=all_serve and not rolling)
    pods = [pod for workload in blueprint.stable for pod in _pods(scene, workload)]
    wait = None if all_serve and not rolling else probe_deadline(pods, world.now)
    return Outcome(status_of(report, scene.previous, world.now), None if wait is None else timedelta(seconds=wait + 0.5))


def _judge(scene: _Scene, workload: Workload) -> Judgement:
    if workload.is_stopped:
        return Judgement(FALSE, "Stopped", f"the {workload.kind.value} is stopped by its own annotation")
    names = [workload.name, *([workload.multi_node.name] if workload.multi_node else [])]
    live = [scene.live.get(ObjectRef(DEPLOYMENT, workload.namespace, name)) for name in names]
    judgement = judged(live, _pods(scene, workload), scene.world.now)
    if workload.kind is not ComponentKind.PREDICTOR:
        return judgement
    return with_cache_words(judgement, scene.world.service.labels.get(keys.LOCAL_MODEL, ""), scene.world.local_cache)


def _pods(scene: _Scene, workload: Workload) -> Sequence[Json]:
    names = [workload.name, *([workload.multi_node.name] if workload.multi_node else [])]
    return [pod for name in names for pod in scene.world.pods.get(name, ())]


def _at_fault(error: str, workloads: Sequence[Workload]) -> ComponentKind:
    """The component whose child the error names; the predictor if none is."""
    named = (workload.kind for workload in reversed(workloads) if f"/{workload.name}" in error or f'"{workload.name}"' in error)
    return next(named, ComponentKind.PREDICTOR)


def _is_of_route(error: str) -> bool:
    return error.startswith(ROUTE_KINDS)


def _refused_route(error: str) -> Told:
    """The predictor may serve all the same: only the way in is missing."""
    return Told(INGRESS_READY, FALSE, "RouteNotCreated", f"fails to create the route: {error}")


def _route_condition(scene: _Scene) -> Told:
    """A route counts once everything behind it serves: a route to nothing is no way in."""
    service, section = scene.world.service, scene.world.facts.settings.ingress
    if not hosts.has_route(service, section):
        return Told(INGRESS_READY, TRUE)
    waiting = next((kind for kind, judgement in scene.judgements.items() if not judgement.serves), None)
    if waiting is not None:
        name = waiting.value.capitalize()
        return Told(INGRESS_READY, FALSE, f"{name} Deployment NotReady", f"the route waits for the {waiting.value}")
    trouble = _gateway_trouble(scene) if scene.world.uses_gateway_api else _ingress_trouble(scene)
    return Told(INGRESS_READY, FALSE, trouble.reason, trouble.message) if trouble else Told(INGRESS_READY, TRUE)


def _gateway_trouble(scene: _Scene) -> RouteTrouble | None:
    service = scene.world.service
    names = [(kind.value.capitalize(), component_name(service.name, kind)) for kind in scene.judgements]
    wanted = [*names, ("InferenceService", service.name)]
    return route_trouble([(label, scene.live.get(ObjectRef(HTTP_ROUTE, scene.namespace, name))) for label, name in wanted])


def _ingress_trouble(scene: _Scene) -> RouteTrouble | None:
    found = scene.live.get(ObjectRef(INGRESS, scene.namespace, scene.world.service.name))
    return None if found is not None else RouteTrouble("Predictor ingress not created", "the Ingress is not created yet")


def _rolling_condition(judgements: Mapping[ComponentKind, Judgement], rolling: str) -> list[Told]:
    """Said only while old and new serve side by side; a first start is no roll."""
    under_way = [judgement for judgement in judgements.values() if judgement.rolling and judgement.serves]
    if not under_way:
        return []
    blocker = next((judgement.blocker for judgement in under_way if judgement.blocker), None)
    if blocker is None:
        return [Told(ROLLING_OUT, TRUE, "ReplicasUpdating", rolling)]
    return [Told(ROLLING_OUT, FALSE, blocker.reason, f"{rolling}; {blocker.message}")]


def _missing_condition(scene: _Scene) -> list[Told]:
    """Said only while a neighbour is missing: the service runs, but not all of what was asked for."""
    names = ", ".join(f"{kind.kind} ({kind.api_version})" for kind in scene.plan.missing)
    words = f"the cluster does not know {names}, which this service asks for"
    return [Told(NEIGHBOURS_READY, FALSE, "KindNotInstalled", words)] if names else []


def _image_condition(world: World) -> list[Told]:
    trouble = image_volume_trouble(world.server_version)
    return [Told(CONDITION, FALSE, *trouble)] if trouble else []


def _download_condition(scene: _Scene) -> list[Told]:
    """Said only while a model is being downloaded. A condition, since `modelStatus` has no field for it and unknown ones are pruned."""
    assert scene.plan.blueprint is not None
    download = current(_pods(scene, scene.plan.blueprint.predictor), scene.world.downloads)
    return [Told(MODEL_DOWNLOADED, FALSE, "Downloading", words(download))] if download else []


def _canary_condition(scene: _Scene) -> list[Told]:
    statuses = _canary_statuses(scene)
    if not statuses:
        return []
    late = [_canary_words(status) for status in statuses if not status["ready"]]
    if late:
        return [Told(CANARY_READY, FALSE, "CanariesNotReady", f"not ready: {'; '.join(late)}")]
    return [Told(CANARY_READY, TRUE, "AllCanariesReady")]


def _canary_words(status: Json) -> str:
    why = (status["modelStatus"].get("lastFailureInfo") or {}).get("message")
    return f"{status['name']}: {why}" if why else str(status["name"])


def _canary_statuses(scene: _Scene) -> list[Json]:
    blueprint = scene.plan.blueprint
    result = []
    for canary in blueprint.canaries if blueprint else ():
        live = [scene.live.get(ObjectRef(DEPLOYMENT, own.namespace, own.name)) for own in canary.workloads]
        ready = not canary.failure and all(available_replicas(deployment) > 0 for deployment in live)
        result.append({"name": canary.name, "ready": ready, "trafficPercent": canary.percent,
                       "modelStatus": _canary_model(scene, canary, ready)})
    return result


def _canary_model(scene: _Scene, canary: Canary, ready: bool) -> Json:
    if canary.failure:
        return invalid(canary.failure.reason, canary.failure.message, {})
    known: Json = next((entry for entry in scene.previous.get("canaryStatuses") or [] if entry.get("name") == canary.name), {})
    pods = [pod for own in canary.workloads if own.kind is ComponentKind.PREDICTOR for pod in scene.world.pods.get(own.name, ())]
    return model_status(pods, ready, False, known.get("modelStatus") or {}, scene.world.now)


def _model(scene: _Scene, serving: bool, rolling: bool) -> Json:
    blueprint = scene.plan.blueprint
    assert blueprint is not None
    previous = scene.previous.get("modelStatus") or {}
    return model_status(_pods(scene, blueprint.predictor), serving, rolling, previous, scene.world.now)


def _runtime(scene: _Scene) -> tuple[str, str] | None:
    selection: Selection | None = scene.plan.selection
    if selection is None or selection.runtime is None:
        return None
    runtime = selection.runtime
    return ("ServingRuntime" if runtime.namespace else "ClusterServingRuntime", runtime.name)


def _url(scene: _Scene, route: Told) -> str:
    if route.status != TRUE:
        return str(scene.previous.get("url") or "")
    return hosts.external_url(scene.world.service, scene.world.facts.settings.ingress)


def _address(scene: _Scene, route: Told) -> str:
    blueprint = scene.plan.blueprint
    assert blueprint is not None
    entry = scene.live.get(ObjectRef(SERVICE, scene.namespace, blueprint.entry.name))
    if route.status != TRUE or entry is None:
        return str((scene.previous.get("address") or {}).get("url") or "")
    return hosts.internal_url(entry, scene.world.facts.cluster_domain)


def _component_urls(scene: _Scene) -> dict[ComponentKind, str]:
    """Told once the component serves; kept while it pauses."""
    known = scene.previous.get("components") or {}
    return {kind: _component_url(scene, kind) if judgement.serves else (known.get(kind.value) or {}).get("url", "")
            for kind, judgement in scene.judgements.items()}


def _component_url(scene: _Scene, kind: ComponentKind) -> str:
    """The host of an HTTPRoute is the same for all variants of a predictor, so that it outlives a promotion."""
    service, section, blueprint = scene.world.service, scene.world.facts.settings.ingress, scene.plan.blueprint
    workload = blueprint.workload(kind) if blueprint else None
    is_routed = scene.world.uses_gateway_api and hosts.has_route(service, section)
    name = component_name(service.name, kind) if is_routed or workload is None else workload.name
    return hosts.component_url(name, service, section)


def _stopped(scene: _Scene) -> Json:
    """Nothing runs; what is known of the runtime stays. The generation counts as served once all children are gone."""
    kinds = [component.kind for component in components(scene.world.service)]
    conditions = [*(Told(COMPONENT_READY[kind], FALSE, "Stopped") for kind in kinds), Told(INGRESS_READY, FALSE, "Stopped"),
                  Told(STOPPED, TRUE)]
    canaries: list[Json] = [{"name": entry.predictor.name or "", "ready": False, "trafficPercent": entry.traffic_percent,
                             "modelStatus": NO_MODEL} for entry in scene.world.service.spec.canary]
    if canaries:
        conditions.append(Told(CANARY_READY, FALSE, "Stopped"))
    gone = not any(ref.kind in (DEPLOYMENT, SERVICE) for ref in scene.live)
    report = Report(mode=scene.world.mode, generation=_generation(scene.world), conditions=conditions, model_status=NO_MODEL,
                    runtime=_runtime(scene), canaries=canaries, generation_serves=gone)
    return status_of(report, scene.previous, scene.world.now)


def _invalid(scene: _Scene) -> Json:
    """Nothing could be rendered; what served before may still serve, so its addresses, runtime and copies stay."""
    failure, previous = scene.plan.failure, scene.previous
    assert failure is not None
    if conditions := _still_serving(scene):
        conditions += [Told(STOPPED, FALSE), Told(ROLLING_OUT, FALSE, failure.reason.value, failure.message)]
    else:
        predictor = Told(COMPONENT_READY[ComponentKind.PREDICTOR], FALSE, failure.reason.value, failure.message)
        conditions = [predictor, Told(INGRESS_READY, UNKNOWN), Told(STOPPED, FALSE)]
    report = Report(mode=scene.world.mode, generation=_generation(scene.world), conditions=conditions,
                    runtime=_runtime(scene) or _known_runtime(previous),
                    model_status=invalid(failure.reason, failure.message, previous.get("modelStatus") or {}),
                    url=str(previous.get("url") or ""), address=str((previous.get("address") or {}).get("url") or ""),
                    component_urls=_known_urls(previous))
    return status_of(report, previous, scene.world.now)


def _still_serving(scene: _Scene) -> list[Told]:
    """Conditions of what the last good spec left running; none unless its predictor serves.

    `Ready` speaks of serving: a runtime that was deleted, or an edit that cannot work, stops no pod.
    """
    world, judgements = scene.world, {}
    for component in components(world.service):
        name = component_name(world.service.name, component.kind, component.predictor.name if component.predictor else "")
        live = scene.live.get(ObjectRef(DEPLOYMENT, scene.namespace, name))
        if live is not None:
            judgements[component.kind] = judged([live], world.pods.get(name, ()), world.now)
    route = condition(scene.previous.get("conditions"), INGRESS_READY)
    if route is None or ComponentKind.PREDICTOR not in judgements or not judgements[ComponentKind.PREDICTOR].serves:
        return []
    way = Told(INGRESS_READY, route["status"], route.get("reason", ""), route.get("message", ""))
    return [*(component_condition(kind, judgement) for kind, judgement in judgements.items()), way]


def _known_runtime(previous: Json) -> tuple[str, str] | None:
    fields = (("ServingRuntime", "servingRuntimeName"), ("ClusterServingRuntime", "clusterServingRuntimeName"))
    return next(((scope, str(previous[field])) for scope, field in fields if previous.get(field)), None)


def _known_urls(previous: Json) -> dict[ComponentKind, str]:
    return {ComponentKind(name): (part or {}).get("url", "") for name, part in (previous.get("components") or {}).items()}


def _other_mode(scene: _Scene) -> Json:
    """Modes that something else carries out, or that nothing here does yet: said plainly instead of left to guess.

    ModelMesh's controller writes this status itself, so it is begun here and never touched again.
    """
    mode, previous = scene.world.mode, scene.previous
    if mode is Mode.MODEL_MESH:
        if previous.get("conditions"):
            return previous
        told = Told(COMPONENT_READY[ComponentKind.PREDICTOR], UNKNOWN, "LeftToModelMesh", "ModelMesh's own controller serves this service")
    else:
        told = Told(COMPONENT_READY[ComponentKind.PREDICTOR], FALSE, "ModeNotSupported",
                    f"deployment mode {mode.value} is not supported here yet; set the annotation "
                    "serving.kserve.io/deploymentMode to Standard on a new service")
    report = Report(mode=mode, generation=_generation(scene.world), conditions=[told, Told(INGRESS_READY, UNKNOWN)], model_status=NO_MODEL,
                    url=str(previous.get("url") or ""), address=str((previous.get("address") or {}).get("url") or ""),
                    component_urls=_known_urls(previous))
    return status_of(report, previous, scene.world.now)


def _generation(world: World) -> int:
    return int(world.raw["metadata"].get("generation") or 0)
