"""Models that are container images: a sidecar that shares its files, an image volume, or a download.

`oci://` follows the central settings; `oci+native://` and `oci+fetch://` choose for themselves.
"""
import posixpath
from collections.abc import Sequence

from serveplane.api import keys
from serveplane.objects import Json
from serveplane.render.facts import Facts
from serveplane.render.names import MODEL_MOUNT, STORAGE_INITIALIZER
from serveplane.render.pods.draft import PodDraft, add_mount, set_env
from serveplane.render.runtimes import FailureReason, InvalidSpec

MODELCAR, NATIVE, FETCH = "modelcar", "native", "fetch"
MOST_IMAGES = 10
MODELCAR_VOLUME = "kserve-provision-location"
DOCKER_CONFIG_VOLUME, DOCKER_CONFIG_MOUNT, DOCKER_CONFIG_FILE = "kserve-oci-fetch-docker-config", "/mnt/oci-fetch-auth", "config.json"


def mode_of(uri: str, facts: Facts) -> str:
    """How a URI is mounted; empty if it is no image, or if images are switched off and it does not choose for itself."""
    if uri.startswith("oci://"):
        return facts.settings.storage_initializer.oci_mode
    if uri.startswith("oci+"):
        suffix = uri.removeprefix("oci+").partition("://")[0]
        return suffix if suffix in (NATIVE, FETCH) else MODELCAR
    return ""


def add_annotated_image(draft: PodDraft, facts: Facts) -> None:
    """The webhook's part: the image that the annotation names."""
    uri = draft.annotations.get(keys.STORAGE_SOURCE_URI, "")
    if uri and keys.AGENT not in draft.annotations and mode_of(uri, facts) and facts.settings.storage_initializer.oci_mode:
        add_images(draft, [(uri, MODEL_MOUNT)], facts)


def add_images(draft: PodDraft, images: Sequence[tuple[str, str]], facts: Facts) -> None:
    if len(images) > MOST_IMAGES:
        raise _refusal(f"{len(images)} model images are given, a pod takes at most {MOST_IMAGES}")
    _refuse_collisions(images, facts)
    for number, (uri, path) in enumerate(images):
        match mode_of(uri, facts):
            case "native": _add_volume(draft, uri, path)
            case "fetch": _add_fetch(draft, uri, path, facts)
            case _: _add_modelcar(draft, uri, path, f"-{number}" if number else "", facts)


def _refuse_collisions(images: Sequence[tuple[str, str]], facts: Facts) -> None:
    """Image volumes need a path each; the others share a parent folder, which only one of them can have."""
    taken: set[str] = set()
    for uri, path in images:
        place = path if mode_of(uri, facts) == NATIVE else posixpath.dirname(path.rstrip("/"))
        if place in taken:
            raise _refusal(f"two model images want to be mounted at {place}")
        taken.add(place)


def _image(uri: str) -> str:
    return uri.partition("://")[2]


def _add_modelcar(draft: PodDraft, uri: str, path: str, suffix: str, facts: Facts) -> None:
    """A sidecar of the image keeps its files reachable through /proc; a link puts them where the server looks."""
    if draft.container(f"modelcar{suffix}"):
        return   # webhooks are called again when others changed the pod
    section = facts.settings.storage_initializer
    volume, parent = MODELCAR_VOLUME + suffix, posixpath.dirname(path.rstrip("/"))
    draft.add_volume({"name": volume, "emptyDir": {}})
    for container in draft.model_containers():
        add_mount(container, volume, parent)
        set_env(container, "MODEL_INIT_MODE", "async")
        _run_as(container, section.uid_modelcar)
    resources = {"cpu": section.cpu_modelcar or "10m", "memory": section.memory_modelcar or "15Mi"}
    base: Json = {"image": _image(uri), "resources": {"limits": resources, "requests": resources},
                  "terminationMessagePolicy": "FallbackToLogsOnError"}
    car = {"name": f"modelcar{suffix}", **base, "args": ["sh", "-c", _link_command(path, parent)]}
    add_mount(car, volume, parent)
    _run_as(car, section.uid_modelcar)
    draft.containers.append(car)
    draft.init_containers.append({"name": f"modelcar-init{suffix}", **base, "args": ["sh", "-c", _check_command(_image(uri))]})
    draft.spec["shareProcessNamespace"] = True


def _link_command(path: str, parent: str) -> str:
    prepare = "" if path == MODEL_MOUNT else f"mkdir -p {parent} && "
    return f"{prepare}ln -sf /proc/$$$$/root/models {path} && sleep infinity"


def _check_command(image: str) -> str:
    return (f"echo 'Pre-fetching modelcar {image}: ' && [ -d /models ] && [ \"$$(ls -A /models)\" ] && "
            "echo 'OK ... Prefetched and valid (/models exists)' || "
            "(echo 'NOK ... Prefetched but modelcar is invalid (/models does not exist or is empty)' && exit 1)")


def _run_as(container: Json, user: int | None) -> None:
    """The files under /proc of another container can be read by the same user only."""
    if user is not None:
        container["securityContext"] = {**(container.get("securityContext") or {}), "runAsUser": user}


def _add_volume(draft: PodDraft, uri: str, path: str) -> None:
    from serveplane.render.pods.storage import volume_name
    name = volume_name(path) or "oci-model"
    for container in draft.model_containers():
        other = next((mount for mount in container.get("volumeMounts") or [] if mount.get("mountPath") == path), None)
        if other is not None and other.get("name") != name:
            raise _refusal(f"the path {path} of the model image is taken by the volume {other.get('name')}")
        add_mount(container, name, path, read_only=True, sub_path="models")
    draft.add_volume({"name": name, "image": {"reference": _image(uri), "pullPolicy": "IfNotPresent"}})


def _add_fetch(draft: PodDraft, uri: str, path: str, facts: Facts) -> None:
    """Downloaded like any other model, with the pod's own pull secret."""
    from serveplane.render.pods.storage import add_ca_bundle, initializer, volume_name
    container = draft.init_container(STORAGE_INITIALIZER)
    if container is None:
        container = initializer(facts)
        draft.init_containers.append(container)
    pair, words = [f"oci://{_image(uri)}", path], container.get("args") or []
    if pair not in (words[place:place + 2] for place in range(0, len(words), 2)):
        container["args"] = [*words, *pair]
    _add_pull_secret(draft, container)
    add_ca_bundle(draft, container, facts)
    if facts.settings.storage_initializer.oci_insecure_registry:
        set_env(container, "KSERVE_OCI_INSECURE_REGISTRY", "true")
    volume = volume_name(path) or "oci-fetch-model"
    draft.add_volume({"name": volume, "emptyDir": {}})
    for reader in (container, *draft.model_containers()):
        add_mount(reader, volume, path)


def _add_pull_secret(draft: PodDraft, container: Json) -> None:
    secrets = draft.spec.get("imagePullSecrets") or []
    if not secrets:
        return
    items = [{"key": ".dockerconfigjson", "path": DOCKER_CONFIG_FILE}]
    source = {"secretName": secrets[0]["name"], "items": items, "defaultMode": 0o400}
    draft.add_volume({"name": DOCKER_CONFIG_VOLUME, "secret": source})
    add_mount(container, DOCKER_CONFIG_VOLUME, DOCKER_CONFIG_MOUNT, read_only=True)
    set_env(container, "KSERVE_OCI_DOCKER_CONFIG", f"{DOCKER_CONFIG_MOUNT}/{DOCKER_CONFIG_FILE}")


def _refusal(message: str) -> InvalidSpec:
    return InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC, message)
