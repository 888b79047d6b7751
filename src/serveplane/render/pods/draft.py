"""A pod under construction.

The one place in rendering that changes values in place: a pod passes through half a dozen hands, and each adds to the same few lists.
"""
from collections.abc import Iterator

import msgspec

from serveplane.api.keys import KSERVE_CONTAINER, TRANSFORMER_CONTAINER, WORKER_CONTAINER
from serveplane.objects import Json
from serveplane.render.runtimes import FailureReason, InvalidSpec


class PodDraft:
    """A private copy of a pod, or of a pod template, with the little editing that injection needs."""

    def __init__(self, spec: Json, annotations: dict[str, str], labels: dict[str, str], namespace: str,
                 pod_name: str = "") -> None:
        self.spec: Json = msgspec.json.decode(msgspec.json.encode(spec))   # many times faster than copy.deepcopy
        self.annotations = dict(annotations)
        self.labels = dict(labels)
        self.namespace = namespace
        self.pod_name = pod_name

    @property
    def containers(self) -> list[Json]:
        found: list[Json] = self.spec.setdefault("containers", [])
        return found

    @property
    def init_containers(self) -> list[Json]:
        found: list[Json] = self.spec.setdefault("initContainers", [])
        return found

    def container(self, name: str) -> Json | None:
        return next((container for container in self.containers if container.get("name") == name), None)

    def init_container(self, name: str) -> Json | None:
        return next((container for container in self.spec.get("initContainers") or [] if container.get("name") == name), None)

    def model_containers(self) -> list[Json]:
        """Those that read the model: the server (or the worker), and a transformer beside it."""
        server = self.container(KSERVE_CONTAINER) or self.container(WORKER_CONTAINER)
        if server is None:
            raise InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC,
                              f"the pod has neither a {KSERVE_CONTAINER} nor a {WORKER_CONTAINER} that could read the model")
        beside = self.container(TRANSFORMER_CONTAINER)
        return [server] if beside is None else [server, beside]

    def add_volume(self, volume: Json) -> None:
        volumes: list[Json] = self.spec.setdefault("volumes", [])
        if all(known.get("name") != volume["name"] for known in volumes):
            volumes.append(volume)


def add_mount(container: Json, name: str, path: str, *, read_only: bool = False, sub_path: str = "") -> None:
    mounts: list[Json] = container.setdefault("volumeMounts", [])
    if any(known.get("mountPath") == path and known.get("name") == name for known in mounts):
        return
    mount: Json = {"name": name, "mountPath": path}
    if read_only:
        mount["readOnly"] = True
    if sub_path:
        mount["subPath"] = sub_path
    mounts.append(mount)


def set_env(container: Json, name: str, value: str) -> None:
    for entry in _entries(container, name):
        entry.pop("valueFrom", None)
        entry["value"] = value
        return
    container.setdefault("env", []).append({"name": name, "value": value})


def default_env(container: Json, name: str, value: str) -> None:
    """Set only where the container says nothing itself."""
    if not has_env(container, name):
        container.setdefault("env", []).append({"name": name, "value": value})


def add_env(container: Json, entries: list[Json]) -> None:
    """Entries replace those of the same name, so that two sources of credentials do not end up as duplicates."""
    env: list[Json] = container.setdefault("env", [])
    for entry in entries:
        place = next((index for index, known in enumerate(env) if known.get("name") == entry["name"]), None)
        if place is None:
            env.append(entry)
        else:
            env[place] = entry


def has_env(container: Json, name: str) -> bool:
    return next(_entries(container, name), None) is not None


def env_text(container: Json, name: str) -> str:
    entry = next(_entries(container, name), {})
    return entry.get("value") or ""


def _entries(container: Json, name: str) -> Iterator[Json]:
    return (entry for entry in container.get("env") or [] if entry.get("name") == name)
