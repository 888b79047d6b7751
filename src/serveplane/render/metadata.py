"""The labels and annotations that everything made for a component carries.

They are how the pod webhook learns what the controller knows: where the model is, whether to log, to batch, to load models.
"""
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import msgspec

from serveplane.api import keys
from serveplane.api.inferenceservice.components import Component, ComponentKind
from serveplane.api.inferenceservice.types import (
    Batcher,
    Confidential,
    Framework,
    InferenceService,
    Logger,
    StorageSpec,
)
from serveplane.objects import Json
from serveplane.render.names import (
    APP_LABEL,
    COMPONENT_LABEL,
    MODEL_MOUNT,
    SCHEME_PLACEHOLDER,
    app_label,
    model_config_name,
)

Pairs = Iterator[tuple[str, str]]
MODEL_CONFIG_MOUNT = "/mnt/configs"


def filtered(values: Mapping[str, str], disallowed: Iterable[str]) -> dict[str, str]:
    refused = frozenset(disallowed)
    return {key: value for key, value in values.items() if key not in refused}


def component_labels(name: str, kind: ComponentKind, service: str, *given: Mapping[str, str]) -> dict[str, str]:
    """Later ones win, ours over all."""
    fixed = {keys.INFERENCE_SERVICE: service, COMPONENT_LABEL: kind.value, APP_LABEL: app_label(name)}
    return {**dict(chain.from_iterable(labels.items() for labels in given)), **fixed}


def component_annotations(service: InferenceService, component: Component, disallowed: Iterable[str]) -> dict[str, str]:
    """The service's own, those that carry the spec to the pod webhook, then the component's."""
    return {**filtered(service.annotations, disallowed), **dict(spec_annotations(service, component)),
            **filtered(component.spec.annotations, disallowed)}


def spec_annotations(service: InferenceService, component: Component) -> Pairs:
    """What the webhook must know of the component's spec. Explainers do not batch."""
    predictor = component.predictor
    if component.spec.logger:
        yield from _logger(component.spec.logger)
    if component.spec.batcher and component.kind is not ComponentKind.EXPLAINER:
        yield from _batcher(component.spec.batcher)
    if predictor and (storage := component.implementation.storage):
        yield from _storage_spec(storage)
    if is_multi_model(component):
        yield from _agent(service.name)
    if uri := component.implementation.storage_uri:
        yield keys.STORAGE_SOURCE_URI, uri
    if predictor and predictor.storage_container_name:
        yield keys.STORAGE_CONTAINER_NAME, predictor.storage_container_name
    if isinstance(component.implementation.spec, Framework) and component.implementation.spec.confidential:
        yield from _confidential(component.implementation.spec.confidential)


def is_multi_model(component: Component) -> bool:
    """Whether an agent loads models into the predictor as TrainedModels come and go."""
    predictor = component.predictor
    if predictor is None:
        return False
    if predictor.containers:
        first = predictor.containers[0].get("env") or []
        return any(item.get("name") == "MULTI_MODEL_SERVER" and item.get("value") == "true" for item in first)
    model = predictor.model
    return bool(model and not model.storage_uri and not model.storage and not predictor.storage_uris
                and model.model_format.name != "huggingface")


def owner_reference(service: Json) -> Json:
    metadata = service["metadata"]
    return {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": metadata["name"],
            "uid": metadata.get("uid", ""), "controller": True, "blockOwnerDeletion": True}


def _logger(logger: Logger) -> Pairs:
    yield keys.LOGGER, "true"
    if logger.url:
        yield keys.LOGGER_SINK_URL, logger.url
    yield keys.LOGGER_MODE, logger.mode or ""
    if logger.metadata_headers:
        yield keys.LOGGER_METADATA_HEADERS, ",".join(logger.metadata_headers)
    if logger.metadata_annotations:
        yield keys.LOGGER_METADATA_ANNOTATIONS, ",".join(logger.metadata_annotations)


def _batcher(batcher: Batcher) -> Pairs:
    yield keys.BATCHER, "true"
    if batcher.max_batch_size is not None:
        yield keys.BATCHER_MAX_BATCH_SIZE, str(batcher.max_batch_size)
    if batcher.max_latency is not None:
        yield keys.BATCHER_MAX_LATENCY, str(batcher.max_latency)


def _storage_spec(storage: StorageSpec) -> Pairs:
    yield keys.STORAGE_SPEC, "true"
    if storage.parameters:
        yield keys.STORAGE_SPEC_PARAMETERS, msgspec.json.encode(storage.parameters, order="sorted").decode()
    if storage.key:
        yield keys.STORAGE_SPEC_KEY, storage.key
    if storage.path:
        yield keys.STORAGE_SOURCE_URI, f"{SCHEME_PLACEHOLDER}://{storage.path.removeprefix('/')}"


def _agent(service: str) -> Pairs:
    yield keys.AGENT, "true"
    yield keys.CONFIG_VOLUME_NAME, model_config_name(service)
    yield keys.CONFIG_MOUNT_PATH, MODEL_CONFIG_MOUNT
    yield keys.MODEL_DIR, MODEL_MOUNT


def _confidential(confidential: Confidential) -> Pairs:
    if confidential.enabled:
        yield keys.CONFIDENTIAL_ENABLED, "true"
        if confidential.resource_id:
            yield keys.CONFIDENTIAL_RESOURCE_ID, confidential.resource_id
