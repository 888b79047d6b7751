"""TrainedModel v1alpha1: one model of a multi-model InferenceService."""

from typing import Annotated

import msgspec

from serveplane.api.model import Described, Model, Quantity
from serveplane.api.reported import Address, Reported
from serveplane.objects import Json


class TrainedModelStatus(Reported):
    url: str | None = None
    address: Address | None = None


class ModelToServe(Model):
    storage_uri: str
    framework: str
    memory: Quantity


class TrainedModelSpec(Model):
    inference_service: str
    model: ModelToServe


class TrainedModel(Model):
    metadata: Json = msgspec.field(default_factory=dict)
    spec: TrainedModelSpec
    status: Annotated[Json, Described(TrainedModelStatus)] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.metadata.get("name") or "")
