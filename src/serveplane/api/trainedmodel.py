"""TrainedModel v1alpha1: one model of a multi-model InferenceService."""

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec

from serveplane.api.model import Described, Model, Named, Quantity, read
from serveplane.api.problem import METADATA, SPEC, FieldError
from serveplane.api.reported import Address, Reported
from serveplane.objects import Json
from serveplane.objects.quantity import equal, parse

NAME = re.compile(r"[a-zA-Z0-9_-]+")
PREFIXES = ("s3://", "gs://", "https://", "http://")


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


class TrainedModel(Named):
    spec: TrainedModelSpec
    status: Annotated[Json, Described(TrainedModelStatus)] = msgspec.field(default_factory=dict)


def problems(obj: Json, old: Json | None = None) -> list[FieldError]:
    if (obj.get("metadata") or {}).get("deletionTimestamp"):
        return []
    model = read(TrainedModel, obj)
    return list(_problems(model, read(TrainedModel, old) if old is not None else None))


def _problems(new: TrainedModel, old: TrainedModel | None) -> Iterator[FieldError]:
    at = SPEC / "model"
    if not NAME.fullmatch(new.name):
        yield FieldError(METADATA / "name", f"must be letters, digits, '-' and '_', {new.name!r} is not")
    if not new.spec.inference_service:
        yield FieldError(SPEC / "inferenceService", "must name the InferenceService that serves the model")
    if not new.spec.model.storage_uri.startswith(PREFIXES):
        yield FieldError(
            at / "storageUri", f"must begin with {', '.join(PREFIXES)}; {new.spec.model.storage_uri!r} does not"
        )
    memory = new.spec.model.memory
    if parse(memory) < 0:
        yield FieldError(at / "memory", f"must not be negative, not {memory}")
    if old is not None and not equal(memory, old.spec.model.memory):
        yield FieldError(at / "memory", f"cannot change from {old.spec.model.memory} to {memory}")
