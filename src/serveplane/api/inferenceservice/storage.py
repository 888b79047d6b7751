"""Where models come from: which URIs and mount paths are refused."""

import posixpath
import re
from collections.abc import Iterator, Sequence

from serveplane.api import keys
from serveplane.api.inferenceservice.components import Component, ComponentKind, env_value, named
from serveplane.api.inferenceservice.types import ArtExplainer, ComponentSpec, Confidential, Framework, StorageUri
from serveplane.api.problem import FieldError, FieldPath
from serveplane.api.storagecontainer import INIT_CONTAINER, ClusterStorageContainer

_SCHEMES = "gs s3 pvc file https http hdfs webhdfs oci oci+native oci+fetch hf modelscope"
SCHEMES = tuple(_SCHEMES.split())
HAS_SCHEME = re.compile(r"^([\w+.-]+?)://")
AZURE_BLOB = re.compile(r"https://(.+?)\.blob\.core\.windows\.net/(.+)")
KEY_OF_BROKER = re.compile(r"kbs:///[a-zA-Z0-9_.-]+/[a-zA-Z0-9_.-]+/[a-zA-Z0-9_.-]+")
SPEC_SCHEMES = ("s3", "hdfs", "webhdfs")


def problems(
    part: Component, at: FieldPath, storage_containers: Sequence[ClusterStorageContainer]
) -> Iterator[FieldError]:
    chosen = part.implementation
    uri_at = at / "containers" if chosen.is_custom else at / chosen.block / "storageUri"
    if chosen.storage_uri:
        yield from uri_problems(chosen.storage_uri, uri_at, storage_containers)
    if part.spec.storage_uris:
        yield from _storage_uris_problems(part.spec, at, storage_containers, also=chosen.storage_uri)
    if part.kind is ComponentKind.PREDICTOR:
        yield from _collocated_problems(part, at)
    if isinstance(chosen.spec, Framework) and chosen.spec.confidential is not None:
        yield from _confidential_problems(chosen.spec.confidential, chosen.storage_uri, at / chosen.block)
    if isinstance(chosen.spec, ArtExplainer) and chosen.spec.storage is not None:
        yield from _explainer_storage_problems(chosen.spec, at / "art")


def uri_problems(
    uri: str, at: FieldPath, storage_containers: Sequence[ClusterStorageContainer]
) -> Iterator[FieldError]:
    """A URI is fine if a storage container says it can download it, or if it has a scheme we know, or none."""
    scheme = HAS_SCHEME.match(uri)
    if scheme is None or any(_downloads(container, uri) for container in storage_containers):
        return
    if "blob.core.windows.net" in uri and not AZURE_BLOB.match(uri):
        yield FieldError(at, f"must look like https://<account>.blob.core.windows.net/<container>/<path>, not {uri!r}")
    elif scheme[1] not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        yield FieldError(at, f"nothing downloads {scheme[1]}://; known are {known} (more by ClusterStorageContainers)")


def _downloads(container: ClusterStorageContainer, uri: str) -> bool:
    return not container.disabled and container.spec.workload_type == INIT_CONTAINER and container.supports(uri)


def _storage_uris_problems(
    spec: ComponentSpec, at: FieldPath, storage_containers: Sequence[ClusterStorageContainer], also: str | None
) -> Iterator[FieldError]:
    if also:
        yield FieldError(at / "storageUris", "cannot be given beside a single storage URI: choose one of them")
    for index, entry in enumerate(spec.storage_uris):
        here = at / "storageUris" / index
        yield from uri_problems(entry.uri, here / "uri", storage_containers)
        yield from _mount_problems(entry, here)
    claims = [entry.mount_path for entry in spec.storage_uris if entry.uri.startswith("pvc://")]
    others = [entry.mount_path for entry in spec.storage_uris if not entry.uri.startswith("pvc://")]
    for path in sorted({path for path in claims if claims.count(path) > 1}):
        yield FieldError(at / "storageUris", f"two claims cannot be mounted at {path}")
    if len(others) > 1 and all(path.startswith("/") for path in others) and posixpath.commonpath(others) == "/":
        paths = ", ".join(others)
        yield FieldError(at / "storageUris", f"the mount paths {paths} need a common folder below /, such as /mnt")


def _mount_problems(entry: StorageUri, at: FieldPath) -> Iterator[FieldError]:
    if not entry.uri:
        yield FieldError(at / "uri", "must not be empty")
    path = entry.mount_path
    if not path.startswith("/") or path == "/" or ".." in path:
        yield FieldError(at / "mountPath", f"must be an absolute path below / without '..', not {path!r}")


def _collocated_problems(part: Component, at: FieldPath) -> Iterator[FieldError]:
    collocated = named(part.spec.containers, keys.TRANSFORMER_CONTAINER)
    if collocated is not None and env_value(collocated, "STORAGE_URI"):
        yield FieldError(
            at / "containers", f"{keys.TRANSFORMER_CONTAINER} must not have STORAGE_URI: the model is mounted for it"
        )


def _confidential_problems(confidential: Confidential, uri: str | None, at: FieldPath) -> Iterator[FieldError]:
    if not confidential.enabled:
        return
    if not uri:
        yield FieldError(at / "storageUri", "is required for a confidential model")
    if confidential.resource_id and not KEY_OF_BROKER.fullmatch(confidential.resource_id):
        yield FieldError(at / "confidential" / "resourceId", "must look like kbs:///<repository>/<type>/<tag>")


def _explainer_storage_problems(art: ArtExplainer, at: FieldPath) -> Iterator[FieldError]:
    assert art.storage is not None
    kind = (art.storage.parameters or {}).get("type")
    scheme = HAS_SCHEME.match(art.storage_uri or "")
    if kind not in SPEC_SCHEMES and (scheme is None or scheme[1] not in SPEC_SCHEMES):
        yield FieldError(at / "storage", f"needs parameters.type or a storageUri of {', '.join(SPEC_SCHEMES)}")
