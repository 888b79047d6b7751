"""The containers of transformers and explainers: what they are told about the predictor, by arguments."""
from collections.abc import Iterator

from serveplane.api import keys
from serveplane.api.inferenceservice.components import Component, ComponentKind
from serveplane.api.inferenceservice.types import ArtExplainer, InferenceService
from serveplane.objects import Json
from serveplane.render.facts import Facts
from serveplane.render.merging import given, with_env
from serveplane.render.names import DEFAULT_PORT, MODEL_MOUNT
from serveplane.render.runtimes import FailureReason, InvalidSpec

Flag = tuple[str, str]


def assistant_containers(service: InferenceService, component: Component, predictor: str, facts: Facts) -> list[Json]:
    """The first container does the work; the others are the user's business."""
    art = component.implementation.spec
    if isinstance(art, ArtExplainer):
        return [_art_container(service, component, art, predictor, facts), *component.spec.containers]
    if not component.spec.containers:      # admission refuses it, but not everything stored has passed by there
        raise InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC, f"The {component.kind.value} has no container")
    first, *rest = component.spec.containers
    args = [*(first.get("args") or [])]
    for name, value in _flags(service, component, predictor):
        if not _is_said(args, name, component.kind):
            args += [name, value]
    first = {**first, "args": args, "name": first.get("name") or keys.KSERVE_CONTAINER}
    if component.kind is ComponentKind.TRANSFORMER:
        first = with_env(first, "INFERENCE_SERVICE_NAME", service.name)
    return [first, *rest]


def _flags(service: InferenceService, component: Component, predictor: str) -> Iterator[Flag]:
    yield "--model_name", service.name
    yield "--predictor_host", f"{predictor}.{service.namespace}"
    yield "--http_port", str(DEFAULT_PORT)
    if component.spec.container_concurrency is not None:
        yield "--workers", str(component.spec.container_concurrency)


def _is_said(args: list[str], name: str, kind: ComponentKind) -> bool:
    # KServe asks a transformer first and tells an explainer its port in any case; both can be seen in the pod template.
    if name == "--http_port" and kind is ComponentKind.EXPLAINER:
        return False
    return any(argument.startswith(name) for argument in args)


def _art_container(service: InferenceService, component: Component, art: ArtExplainer, predictor: str, facts: Facts) -> Json:
    section = facts.settings.explainers.art
    args = [word for flag in _art_flags(service, component, art, predictor) for word in flag]
    own = art.container.get("args") or []
    image = art.container.get("image") or f"{section.image}:{art.runtime_version or section.default_image_version}"
    return given({**art.container, "name": art.container.get("name") or keys.KSERVE_CONTAINER, "image": image,
                  "args": [*args, *own, *own]})  # KServe says them twice; saying them once would roll every pod


def _art_flags(service: InferenceService, component: Component, art: ArtExplainer, predictor: str) -> Iterator[Flag]:
    yield "--model_name", service.name
    yield "--http_port", str(DEFAULT_PORT)
    yield "--predictor_host", f"{predictor}.{service.namespace}"
    if component.spec.container_concurrency is not None:
        yield "--workers", str(component.spec.container_concurrency)
    if art.storage_uri:
        yield "--storage_uri", MODEL_MOUNT
    yield "--adversary_type", art.type or ""
    for name in sorted(art.config):
        yield f"--{name}", art.config[name]
