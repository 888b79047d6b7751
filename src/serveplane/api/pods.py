"""Checks that every pod part of ours shares, whichever kind it stands in."""

from collections.abc import Iterator

from serveplane.api.problem import FieldError, FieldPath
from serveplane.objects import Json

BLOCKED_ENV = ("PYTHONPATH",)
"""Variables that would let a spec replace the server's own code."""


def pod_containers(pod: Json) -> list[Json]:
    return [*(pod.get("initContainers") or []), *(pod.get("containers") or [])]


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
