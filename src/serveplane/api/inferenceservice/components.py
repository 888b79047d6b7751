"""Predictor, transformer and explainer as one shape.

Which implementation a component has, and what can be asked of it (container, storage, protocol), is worked out here
once; renderers, defaults and validation go over `components(service)` and know no third code path.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from serveplane.api import keys
from serveplane.api.inferenceservice.types import (
    ArtExplainer,
    ComponentSpec,
    Explainer,
    Framework,
    InferenceService,
    InferenceServiceSpec,
    ModelSpec,
    Predictor,
    StorageSpec,
)
from serveplane.objects import Json

# The order in which implementations are looked for; the first one found is the one that counts.
_BLOCKS = "xgboost pytorch triton sklearn tensorflow onnx pmml lightgbm paddle huggingface model"
PREDICTOR_BLOCKS = tuple(_BLOCKS.split())
V2_BY_NATURE = ("triton", "huggingface")


class ComponentKind(StrEnum):
    PREDICTOR = "predictor"
    TRANSFORMER = "transformer"
    EXPLAINER = "explainer"


class Implementation(NamedTuple):
    """What does the work of a component.

    `block` is the field that says so: `model`, a framework's name, `art`, or `containers` for the user's own.
    """

    block: str
    spec: Framework | ArtExplainer | None
    container: Json

    @property
    def is_custom(self) -> bool:
        return self.block == "containers"

    @property
    def model(self) -> ModelSpec | None:
        return self.spec if isinstance(self.spec, ModelSpec) else None

    @property
    def storage(self) -> StorageSpec | None:
        return self.spec.storage if self.spec else None

    @property
    def storage_uri(self) -> str | None:
        """The one URI of the model; a custom container says it by its environment."""
        if self.spec is not None:
            return self.spec.storage_uri
        return env_value(self.container, "STORAGE_URI")


class Component(NamedTuple):
    kind: ComponentKind
    spec: ComponentSpec
    implementations: tuple[Implementation, ...]

    @property
    def implementation(self) -> Implementation:
        """The implementation; validation has seen to it that there is exactly one. Without any: an empty custom one."""
        return self.implementations[0] if self.implementations else Implementation("containers", None, {})

    @property
    def predictor(self) -> Predictor | None:
        return self.spec if isinstance(self.spec, Predictor) else None

    @property
    def protocol(self) -> str:
        """The protocol that the component speaks, as far as its own spec tells."""
        chosen = self.implementation
        if isinstance(chosen.spec, Framework):
            return chosen.spec.protocol_version or ("v2" if chosen.block in V2_BY_NATURE else "v1")
        if chosen.spec is not None or self.kind is ComponentKind.EXPLAINER:
            return "v1"
        asked = (
            named(self.spec.containers, keys.TRANSFORMER_CONTAINER) if self.kind is ComponentKind.PREDICTOR else None
        )
        first = self.spec.containers[0] if self.spec.containers else {}
        return env_value(asked or first, "PROTOCOL") or "v1"


def components(service: InferenceService | InferenceServiceSpec) -> tuple[Component, ...]:
    """The components that the service has, the predictor first."""
    spec = service.spec if isinstance(service, InferenceService) else service
    given = (
        (ComponentKind.PREDICTOR, spec.predictor),
        (ComponentKind.TRANSFORMER, spec.transformer),
        (ComponentKind.EXPLAINER, spec.explainer),
    )
    return tuple(component(kind, part) for kind, part in given if part is not None)


def component(kind: ComponentKind, spec: ComponentSpec) -> Component:
    return Component(kind, spec, tuple(_implementations(spec)))


def _implementations(spec: ComponentSpec) -> Iterator[Implementation]:
    match spec:
        case Predictor():
            yield from _predictor_implementations(spec)
        case Explainer():
            if spec.art is not None:
                yield Implementation("art", spec.art, spec.art.container)
            if spec.containers:
                yield Implementation("containers", None, spec.containers[0])
        case _:
            if spec.containers:
                yield Implementation("containers", None, spec.containers[0])


def _predictor_implementations(predictor: Predictor) -> Iterator[Implementation]:
    """A `model` beside sidecars is one implementation; a `model` beside a `kserve-container` is two, which validation refuses.
    """
    found = 0
    for name in PREDICTOR_BLOCKS:
        block: Framework | None = getattr(predictor, name)
        if block is not None:
            found += 1
            yield Implementation(name, block, block.container)
    for container in predictor.containers:
        if container.get("name") == keys.KSERVE_CONTAINER:
            found += 1
            yield Implementation("containers", None, container)
    if not found and predictor.containers:
        yield Implementation("containers", None, predictor.containers[0])


def named(containers: list[Json], name: str) -> Json | None:
    return next((container for container in containers if container.get("name") == name), None)


def env_value(container: Json, name: str) -> str | None:
    """The literal value of an environment variable; None if it is absent, empty or comes from elsewhere."""
    for variable in container.get("env") or []:
        if variable.get("name") == name:
            return variable.get("value") or None
    return None
