"""A predictor over several nodes: how many, with how many GPUs each, and what head and workers are told of each other."""
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from serveplane.api import keys
from serveplane.api.inferenceservice.components import Component
from serveplane.api.inferenceservice.types import InferenceService
from serveplane.api.servingruntime import RuntimeWorker, ServingRuntime
from serveplane.objects import Json
from serveplane.objects.quantity import parse as parse_quantity
from serveplane.render.facts import Facts
from serveplane.render.merging import given, merged_container, merged_pod_spec, with_env
from serveplane.render.metadata import component_annotations
from serveplane.render.names import (
    APP_LABEL,
    GENERATION_LABEL,
    MODEL_MOUNT,
    app_label,
    head_service_name,
    worker_name,
    workers_service_name,
)
from serveplane.render.runtimes import FailureReason, InvalidSpec

DEFAULT_GPU = "nvidia.com/gpu"


class Sizes(NamedTuple):
    """How a model is spread."""
    nodes: int
    head_gpus: int
    worker_gpus: int


@dataclass(frozen=True, kw_only=True)
class Group:
    """The workers beside a head, and what both share."""
    name: str
    head_service: str
    workers_service: str
    generation: int
    sizes: Sizes
    gpu: str
    pipeline: int
    tensor: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod: Json

    @property
    def shared_labels(self) -> dict[str, str]:
        return {GENERATION_LABEL: str(self.generation)}

    @property
    def replicas(self) -> int:
        return self.sizes.nodes - 1


def group(
    service: InferenceService, component: Component, runtime: ServingRuntime, head_labels: Mapping[str, str], facts: Facts
) -> Group:
    """The workers of a predictor that has a `workerSpec`. The runtime must know how to work in a group."""
    predictor, worker = component.predictor, runtime.spec.worker_spec
    assert predictor is not None
    assert predictor.worker_spec is not None
    if worker is None:
        raise _refusal(f"the service has a workerSpec, the runtime {runtime.name} has none")
    head = head_labels[APP_LABEL].removeprefix("isvc.")
    pipeline = predictor.worker_spec.pipeline_parallel_size or worker.pipeline_parallel_size or 1
    tensor = predictor.worker_spec.tensor_parallel_size or worker.tensor_parallel_size or 1
    merged, rest = _worker_containers(worker, predictor.worker_spec.containers)
    types = _gpu_types(service, runtime, facts)
    model = component.implementation.container
    gpu = _gpu_in_use(types, [merged, model, *runtime.spec.containers[:1]])
    explicit_head = _requested(model, gpu) or _requested(_serving(runtime), gpu)
    sizes = spread(runtime.spec.annotations.get(keys.EXECUTOR_BACKEND, ""), pipeline, tensor, explicit_head, _requested(merged, gpu))
    generation = int(service.metadata.get("generation") or 1)
    name = worker_name(head)
    pod = merged_pod_spec(worker.pod, given(predictor.worker_spec.pod))
    shell = Group(
        name=name, head_service=head_service_name(head, generation), workers_service=workers_service_name(head, generation),
        generation=generation, sizes=sizes, gpu=gpu, pipeline=pipeline, tensor=tensor,
        labels={**worker.labels, **head_labels, APP_LABEL: app_label(name), GENERATION_LABEL: str(generation)},
        annotations={**worker.annotations,
                     **component_annotations(service, component, facts.settings.inference_service.disallowed_annotations)},
        pod={})
    containers = [_worker_env(with_gpus(merged, gpu, sizes.worker_gpus), shell, service.name), *rest]
    return replace(shell, pod={**pod, "containers": containers})


def spread(backend: str, pipeline: int, tensor: int, head: int, worker: int) -> Sizes:
    """How many nodes, and the GPUs of each.

    `mp` puts one pipeline stage on each node. Ray counts GPUs: those that are asked for decide, one each otherwise.

    >>> spread("mp", 2, 4, 0, 0), spread("", 2, 1, 0, 0), spread("", 2, 4, 0, 4)
    (Sizes(nodes=2, head_gpus=4, worker_gpus=4), Sizes(nodes=2, head_gpus=1, worker_gpus=1), Sizes(nodes=2, head_gpus=4, worker_gpus=4))
    """
    total = pipeline * tensor
    if backend == "mp":
        return Sizes(pipeline, tensor, tensor)
    if worker > 0:
        nodes = math.ceil(total / worker)
        sizes = Sizes(nodes, head or total - worker * (nodes - 1), worker)
        if sizes.head_gpus >= total or nodes == 1:
            return Sizes(1, total, 0)
    elif head > 0:
        sizes = Sizes(1 + max(0, total - head), head, 1)
    else:
        return Sizes(total, 1, 1)
    available = sizes.head_gpus + sizes.worker_gpus * (sizes.nodes - 1)
    if total > available:
        raise _refusal(f"tensor {tensor} times pipeline {pipeline} takes {total} GPUs, the requests give {available}")
    return sizes


def headed(pod: Json, nodes: Group, service: InferenceService, component: Component) -> Json:
    """The head's pod: its server told of the sizes and of the model."""
    first, *rest = pod["containers"]
    for name, value in (("PIPELINE_PARALLEL_SIZE", nodes.pipeline), ("TENSOR_PARALLEL_SIZE", nodes.tensor),
                        ("RAY_NODE_COUNT", nodes.sizes.nodes), ("REQUEST_GPU_COUNT", nodes.sizes.head_gpus)):
        first = with_env(first, name, str(value))
    scheme = (component.implementation.storage_uri or "").partition("://")[0]
    first = with_env(first, "MODEL_NAME", service.name)
    if scheme in ("pvc", "oci"):
        first = with_env(first, "MODEL_DIR", MODEL_MOUNT)
    return {**pod, "containers": [with_gpus(first, nodes.gpu, nodes.sizes.head_gpus), *rest]}


def with_gpus(container: Json, gpu: str, count: int) -> Json:
    resources = dict(container.get("resources") or {})
    for field in ("limits", "requests"):
        resources[field] = {**(resources.get(field) or {}), gpu: str(count)}
    return {**container, "resources": resources}


def _worker_containers(worker: RuntimeWorker, own: list[Json]) -> tuple[Json, list[Json]]:
    theirs = next((container for container in worker.containers if container.get("name") == keys.WORKER_CONTAINER), None)
    if theirs is None:
        raise _refusal(f"the runtime's workerSpec has no container named {keys.WORKER_CONTAINER}")
    merged = merged_container(theirs, {**own[0], "name": keys.WORKER_CONTAINER}) if own else theirs
    return merged, [container for container in worker.containers if container is not theirs]


def _worker_env(container: Json, nodes: Group, service: str) -> Json:
    pairs = (("RAY_NODE_COUNT", nodes.sizes.nodes), ("REQUEST_GPU_COUNT", nodes.sizes.worker_gpus),
             ("PIPELINE_PARALLEL_SIZE", nodes.pipeline), ("TENSOR_PARALLEL_SIZE", nodes.tensor),
             ("ISVC_NAME", service), ("HEAD_SVC", nodes.head_service), ("WORKER_SVC", nodes.workers_service))
    for name, value in pairs:
        container = with_env(container, name, str(value))
    return container


def _gpu_types(service: InferenceService, runtime: ServingRuntime, facts: Facts) -> tuple[str, ...]:
    """Known kinds of GPU: Kubernetes', the administrator's, and those that the service or its runtime adds."""
    added = [name for text in (service.annotations.get(keys.GPU_RESOURCE_TYPES), runtime.spec.annotations.get(keys.GPU_RESOURCE_TYPES))
             for name in _names(text)]
    return (*facts.settings.multi_node.gpu_resource_types, *added)


def _names(text: str | None) -> list[str]:
    try:
        return msgspec.json.decode(text or "[]", type=list[str])
    except msgspec.DecodeError as error:
        raise _refusal(f"the annotation {keys.GPU_RESOURCE_TYPES} is not a JSON list of names: {text}") from error


def _gpu_in_use(types: tuple[str, ...], containers: list[Json]) -> str:
    return next((gpu for container in containers for gpu in types if _amount(container, "limits", gpu) or _requested(container, gpu)),
                DEFAULT_GPU)


def _requested(container: Json, gpu: str) -> int:
    """Requests count, limits do not: the sizes are then written into both, as KServe does."""
    return _amount(container, "requests", gpu)


def _amount(container: Json, field: str, gpu: str) -> int:
    return int(parse_quantity(((container.get("resources") or {}).get(field) or {}).get(gpu) or 0))


def _serving(runtime: ServingRuntime) -> Json:
    return next((container for container in runtime.spec.containers if container.get("name") == keys.KSERVE_CONTAINER), {})


def _refusal(message: str) -> InvalidSpec:
    return InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC, message)
