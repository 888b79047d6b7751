"""Models on disk before the server starts: the storage initializer, volume claims, local copies.

One routine serves two callers. The webhook has one URI from an annotation and mounts it at /mnt/models; the controller has
`storageUris`, each with a path of its own.
"""
import hashlib
import posixpath
from collections.abc import Sequence
from typing import NamedTuple

from serveplane.api import keys
from serveplane.api.storagecontainer import INIT_CONTAINER, ClusterStorageContainer
from serveplane.objects import Json
from serveplane.objects.schema import named_type
from serveplane.objects.strategic import strategic_merged
from serveplane.render.facts import Facts
from serveplane.render.names import MODEL_MOUNT, STORAGE_INITIALIZER
from serveplane.render.pods import oci
from serveplane.render.pods.credentials import (
    StorageRequest,
    account_name,
    add_account_credentials,
    add_storage_credentials,
    storage_request,
)
from serveplane.render.pods.draft import PodDraft, add_mount, default_env, env_text, has_env, set_env
from serveplane.render.runtimes import FailureReason, InvalidSpec

PVC_VOLUME = "kserve-pvc-source"
PROVISION_VOLUME = "kserve-provision-location"
CA_VOLUME = "cabundle-cert"
GLOBAL_CA_BUNDLE = "global-ca-bundle"
HUB_DEFAULTS = (("HF_HUB_ENABLE_HF_TRANSFER", "1"), ("HF_XET_HIGH_PERFORMANCE", "1"), ("HF_XET_NUM_CONCURRENT_RANGE_GETS", "8"))


class Source(NamedTuple):
    """A place to download from and where the files go."""
    uri: str
    path: str = MODEL_MOUNT

    @property
    def is_claim(self) -> bool:
        return self.uri.startswith("pvc://")

    @property
    def claim(self) -> tuple[str, str]:
        """The name of the volume claim and the path inside."""
        name, _, path = self.uri.removeprefix("pvc://").partition("/")
        return name, path


def add_annotated_source(draft: PodDraft, facts: Facts) -> None:
    """The webhook's part: what the annotation names, at the usual place."""
    uri = draft.annotations.get(keys.STORAGE_SOURCE_URI)
    if not uri or keys.AGENT in draft.annotations:
        return
    source = Source(_local_copy(uri, draft))
    if oci.mode_of(source.uri, facts) or draft.init_container(STORAGE_INITIALIZER):
        return   # OCI images are mounted by a step of their own
    container = _storage_container(source.uri, draft, facts)
    if source.is_claim:
        _mount_claim(draft, source, PVC_VOLUME, with_path=True)
    else:
        request = storage_request(draft.annotations)
        _download(draft, [source], source.path, PROVISION_VOLUME, request, container, facts)
    server = draft.model_containers()[0]
    if env_text(server, "STORAGE_URI"):
        set_env(server, "STORAGE_URI", MODEL_MOUNT)


def add_sources(draft: PodDraft, sources: Sequence[Source], request: StorageRequest | None, facts: Facts) -> None:
    """The controller's part: several sources, each at its own path."""
    if keys.AGENT in draft.annotations:
        return
    images = [source for source in sources if oci.mode_of(source.uri, facts)]
    rest = [source for source in sources if source not in images]
    if images:
        oci.add_images(draft, [(source.uri, source.path) for source in images], facts)
    if not rest or draft.init_container(STORAGE_INITIALIZER):
        return
    container = _storage_container(sources[0].uri, draft, facts)     # the first of all decides, whatever kind it is
    if container is not None and not container.spec.supports_multi_model_download:
        raise _refusal(f"the storage container {container.name} cannot download several models into one pod")
    for source in (source for source in rest if source.is_claim):
        _mount_claim(draft, source, volume_name(source.path), with_path=False)
    if downloads := [source for source in rest if not source.is_claim]:
        parent = common_parent([source.path for source in downloads])
        _download(draft, downloads, parent, volume_name(parent), request, container, facts)


def volume_name(path: str) -> str:
    """
    >>> volume_name("/mnt/models/llama")
    'mnt-models-llama'
    """
    return "-".join(part for part in path.lower().replace("_", "-").replace(".", "-").split("/") if part)


def common_parent(paths: Sequence[str]) -> str:
    """
    >>> common_parent(["/models/base", "/models/extra"]), common_parent(["/mnt/models"])
    ('/models', '/mnt/models')
    """
    return posixpath.commonpath([posixpath.normpath(path) for path in paths])


def _local_copy(uri: str, draft: PodDraft) -> str:
    """A model that the node already has comes from the node's own volume."""
    if keys.LOCAL_MODEL not in draft.labels:
        return uri
    claim, source = draft.annotations.get(keys.LOCAL_MODEL_PVC), draft.annotations.get(keys.LOCAL_MODEL_SOURCE_URI, "")
    if not claim:
        raise _refusal(f"the annotation {keys.LOCAL_MODEL_PVC} is missing on a pod that uses a local model")
    folder = hashlib.sha256(source.encode()).hexdigest()[:16]
    return f"pvc://{claim}/models/{folder}/{uri.removeprefix(source).lstrip('/')}"


def _storage_container(uri: str, draft: PodDraft, facts: Facts) -> ClusterStorageContainer | None:
    """The one that the user named, which must fit, or the first that does."""
    name = draft.annotations.get(keys.STORAGE_CONTAINER_NAME)
    if not name:
        return facts.storage_container(uri)
    found = next((container for container in facts.storage_containers if container.name == name), None)
    if found is None:
        raise _refusal(f"there is no ClusterStorageContainer {name}")
    if found.disabled or found.spec.workload_type != INIT_CONTAINER or not found.supports(uri):
        raise _refusal(f"the ClusterStorageContainer {name} is disabled, not an initContainer, or does not support {uri}")
    return found


def _mount_claim(draft: PodDraft, source: Source, volume: str, *, with_path: bool) -> None:
    claim, path = source.claim
    draft.add_volume({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
    for container in draft.model_containers():
        add_mount(container, volume, source.path, read_only=_is_read_only(draft), sub_path=path if with_path else "")


def _download(draft: PodDraft, sources: Sequence[Source], mount: str, volume: str, request: StorageRequest | None,
              storage_container: ClusterStorageContainer | None, facts: Facts) -> None:
    container = initializer(facts)
    uris = [source.uri for source in sources]
    if request is not None:
        uris = [add_storage_credentials(draft, container, request, uri, facts) for uri in uris]
    add_mount(container, volume, mount)
    draft.add_volume({"name": volume, "emptyDir": {}})
    for reader in draft.model_containers():
        add_mount(reader, volume, mount, read_only=_is_read_only(draft))
    if request is None:
        add_account_credentials(draft, container, account_name(draft.spec), facts)
    container["args"] = [word for uri, source in zip(uris, sources, strict=True) for word in (uri, source.path)]
    if storage_container is not None:
        container = strategic_merged(container, storage_container.spec.container, named_type("core.v1.Container"))
    add_ca_bundle(draft, container, facts)
    for name, value in HUB_DEFAULTS:
        default_env(container, name, value)
    _add_confidential(draft, container)
    draft.init_containers.append(container)


def initializer(facts: Facts) -> Json:
    section = facts.settings.storage_initializer
    return {"name": STORAGE_INITIALIZER, "image": section.image, "terminationMessagePolicy": "FallbackToLogsOnError",
            "resources": section.requirements}


def add_ca_bundle(draft: PodDraft, container: Json, facts: Facts) -> None:
    """Certificates that downloads trust: the cluster's own bundle, or one that the credentials name."""
    section = facts.settings.storage_initializer
    named = env_text(container, "AWS_CA_BUNDLE_CONFIGMAP")
    if not section.ca_bundle_config_map_name and not has_env(container, "AWS_CA_BUNDLE_CONFIGMAP"):
        return
    usual = section.ca_bundle_config_map_name if draft.namespace == facts.control_namespace else GLOBAL_CA_BUNDLE
    config_map, path = named or usual, section.ca_bundle_volume_mount_path or "/etc/ssl/custom-certs"
    if bundle := env_text(container, "AWS_CA_BUNDLE"):
        path = posixpath.dirname(bundle)
    set_env(container, "CA_BUNDLE_CONFIGMAP_NAME", config_map)
    set_env(container, "CA_BUNDLE_VOLUME_MOUNT_POINT", path)
    draft.add_volume({"name": CA_VOLUME, "configMap": {"name": config_map}})
    add_mount(container, CA_VOLUME, path, read_only=True)


def _add_confidential(draft: PodDraft, container: Json) -> None:
    if draft.annotations.get(keys.CONFIDENTIAL_ENABLED) == "true":
        set_env(container, "CONFIDENTIAL_ENABLED", "true")
        if resource := draft.annotations.get(keys.CONFIDENTIAL_RESOURCE_ID):
            set_env(container, "CONFIDENTIAL_RESOURCE_ID", resource)


def _is_read_only(draft: PodDraft) -> bool:
    return draft.annotations.get(keys.STORAGE_READONLY) != "false"


def _refusal(message: str) -> InvalidSpec:
    return InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC, message)
