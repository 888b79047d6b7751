"""Which runtimes are refused.

Two runtimes that would both be chosen for a model, with nothing to tell them apart, make the choice depend on chance;
so equal priorities of equal formats are refused among runtimes of one scope.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations

from serveplane.api import keys
from serveplane.api.inferenceservice.validation import gpu_list_problems, gpu_problems, known_gpus
from serveplane.api.model import read
from serveplane.api.pods import blocked_env_problems, group_problems
from serveplane.api.policy import Policy
from serveplane.api.problem import SPEC, FieldError
from serveplane.api.servingruntime import RuntimeWorker, ServingRuntime, SupportedFormat
from serveplane.objects import Json

SIZES = ("PIPELINE_PARALLEL_SIZE", "TENSOR_PARALLEL_SIZE")


def problems(obj: Json, old: Json | None, others: Iterable[Json], policy: Policy) -> list[FieldError]:
    """`others`: the runtimes of the same scope, that is namespace or cluster; a disabled runtime is always fine."""
    runtime = read(ServingRuntime, obj)
    if runtime.spec.disabled:
        return []
    return list(_problems(runtime, read(ServingRuntime, old) if old else None, others, policy))


def _problems(
    runtime: ServingRuntime, old: ServingRuntime | None, others: Iterable[Json], policy: Policy
) -> Iterator[FieldError]:
    rivals = list(others)
    if rivals:  # a lone runtime cannot be mistaken for another; KServe looks no further then, and users rely on it
        yield from _own_priorities(runtime)
    for other in rivals:
        if other["metadata"]["name"] != runtime.name:
            yield from _priority_clashes(runtime, read(ServingRuntime, other))
    yield from blocked_env_problems(runtime.spec.pod, SPEC)
    if old is not None and old.spec.worker_spec is not None and runtime.spec.worker_spec is None:
        yield FieldError(SPEC / "workerSpec", "cannot be removed from a runtime that has it")
    if runtime.spec.worker_spec is not None:
        yield from _worker_problems(runtime, runtime.spec.worker_spec, policy)


def _own_priorities(runtime: ServingRuntime) -> Iterator[FieldError]:
    chosen = [form for form in runtime.spec.supported_model_formats if form.auto_select and form.priority is not None]
    names = {
        one.name for one, other in combinations(chosen, 2) if one.name == other.name and one.priority != other.priority
    }
    for name in sorted(names):
        yield FieldError(SPEC / "supportedModelFormats", f"all entries of {name!r} need the same priority")


def _priority_clashes(runtime: ServingRuntime, other: ServingRuntime) -> Iterator[FieldError]:
    mine, theirs = runtime.spec, other.spec
    if theirs.disabled or mine.multi_model != theirs.multi_model or not _share_protocol(runtime, other):
        return
    for index, form in enumerate(mine.supported_model_formats):
        if any(_clashes(form, rival) for rival in theirs.supported_model_formats):
            yield FieldError(
                SPEC / "supportedModelFormats" / index / "priority",
                f"{other.name} has the same priority for {form.name!r}; give another one, so that the choice is clear",
            )


def _share_protocol(one: ServingRuntime, other: ServingRuntime) -> bool:
    return bool(set(one.spec.protocol_versions) & set(other.spec.protocol_versions))


def _clashes(one: SupportedFormat, other: SupportedFormat) -> bool:
    same = one.name.casefold() == other.name.casefold() and (one.version or "") == (other.version or "")
    return (
        one.auto_select and other.auto_select and same and one.priority is not None and one.priority == other.priority
    )


def _worker_problems(runtime: ServingRuntime, worker: RuntimeWorker, policy: Policy) -> Iterator[FieldError]:
    at, known = SPEC / "workerSpec", known_gpus(runtime.spec.annotations, policy)
    yield from blocked_env_problems(worker.pod, at)
    yield from gpu_list_problems(runtime.spec.annotations, SPEC / "annotations")
    yield from group_problems(worker, at)
    if not worker.containers:
        yield FieldError(at / "containers", "a worker needs a container")
    for index, container in enumerate(runtime.spec.containers):
        if container.get("name") != keys.KSERVE_CONTAINER:
            continue
        here = SPEC / "containers" / index
        for variable in container.get("env") or []:
            if variable.get("name") in SIZES:
                yield FieldError(here / "env", f"{variable['name']} is set from workerSpec; give the size there")
        yield from gpu_problems(container, here, known)
    for index, container in enumerate(worker.containers):
        if container.get("name") == keys.WORKER_CONTAINER:
            yield from gpu_problems(container, at / "containers" / index, known)


MODEL_MESH_FIELDS = (
    ("grpcEndpoint", "grpc_endpoint"),
    ("grpcDataEndpoint", "grpc_data_endpoint"),
    ("httpDataEndpoint", "http_data_endpoint"),
    ("replicas", "replicas"),
    ("storageHelper", "storage_helper"),
    ("builtInAdapter", "built_in_adapter"),
)


def warnings(obj: Json) -> list[str]:
    spec = read(ServingRuntime, obj).spec
    found = [
        FieldError(SPEC / field, "has effect in ModelMesh mode only")
        for field, attribute in MODEL_MESH_FIELDS
        if getattr(spec, attribute) is not None
    ]
    for part, at in ((spec, SPEC), (spec.worker_spec, SPEC / "workerSpec")):
        if part is not None and part.pod.get("hostIPC"):
            found.append(FieldError(at / "hostIPC", "has no effect in a runtime; set it in the predictor"))
    return [str(warning) for warning in found]
