"""InferenceService v1beta1: types, components, defaults, validation."""

from serveplane.api.inferenceservice.components import Component, ComponentKind, Implementation, component, components
from serveplane.api.inferenceservice.types import InferenceService, Predictor
from serveplane.api.model import read
from serveplane.objects import Json

__all__ = [
    "Component",
    "ComponentKind",
    "Implementation",
    "InferenceService",
    "Predictor",
    "component",
    "components",
    "inference_service",
]


def inference_service(obj: Json) -> InferenceService:
    """The typed view of an InferenceService object."""
    return read(InferenceService, obj)
