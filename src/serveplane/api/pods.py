"""Checks that every pod part of ours shares, whichever kind it stands in."""

from collections.abc import Iterator
from typing import Protocol

from serveplane.api.problem import FieldError, FieldPath
from serveplane.objects import Json

BLOCKED_ENV = ("PYTHONPATH",)
"""Variables that would let a spec replace the server's own code."""


def blocked_env_problems(pod: Json, at: FieldPath, only_container: bool = False) -> Iterator[FieldError]:
    """`only_container`: `pod` holds one container that stands at `at` itself."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(pod.get(field) or []):
            for place, variable in enumerate(container.get("env") or []):
                if variable.get("name") in BLOCKED_ENV:
                    where = at if only_container else at / field / index
                    yield FieldError(where / "env" / place, f"{variable['name']} must not be set")


def ephemeral_problems(pod: Json, at: FieldPath) -> Iterator[FieldError]:
    if pod.get("ephemeralContainers"):
        yield FieldError(at / "ephemeralContainers", "can only be added to a running pod (kubectl debug)")


class Sizes(Protocol):
    """A group of pods that share a model."""

    @property
    def pipeline_parallel_size(self) -> int | None: ...
    @property
    def tensor_parallel_size(self) -> int | None: ...
    @property
    def containers(self) -> list[Json]: ...


def group_problems(worker: Sizes, at: FieldPath) -> Iterator[FieldError]:
    """What must hold of the worker pods of a service and of a runtime alike."""
    if len(worker.containers) > 1:
        yield FieldError(at / "containers", f"at most one container, not {len(worker.containers)}")
    for field, size in (
        ("pipelineParallelSize", worker.pipeline_parallel_size),
        ("tensorParallelSize", worker.tensor_parallel_size),
    ):
        if size is not None and size < 1:
            yield FieldError(at / field, f"must be 1 or more, not {size}")
