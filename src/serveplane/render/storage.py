"""Storage URIs: which are allowed, and the pod of a component that names several."""
import re
from collections.abc import Mapping

from serveplane.api.inferenceservice.components import Component
from serveplane.api.inferenceservice.types import InferenceService
from serveplane.objects import Json
from serveplane.render.facts import Facts
from serveplane.render.pods.credentials import StorageRequest
from serveplane.render.pods.draft import PodDraft
from serveplane.render.pods.storage import Source, add_sources
from serveplane.render.runtimes import FailureReason, InvalidSpec

SCHEMES = ("gs://", "s3://", "pvc://", "file://", "https://", "http://", "hdfs://", "webhdfs://",
           "oci://", "oci+native://", "oci+fetch://", "hf://")
_HAS_SCHEME = re.compile(r"\w+?://")
_AZURE_HOST = "blob.core.windows.net"
_AZURE_BLOB = re.compile(r"https://(.+?).blob.core.windows.net/(.+)")


def check_uri(uri: str, facts: Facts) -> None:
    """Raises if nothing could download from there. A storage container of the cluster widens what is possible."""
    if facts.storage_container(uri) is not None or not _HAS_SCHEME.search(uri):
        return
    if _AZURE_HOST in uri:
        if not _AZURE_BLOB.match(uri):
            raise _refusal(f"{uri} does not look like https://ACCOUNT.blob.core.windows.net/CONTAINER/PATH")
    elif not uri.startswith(SCHEMES):
        raise _refusal(f"{uri} has a scheme that nothing here can download; known are {', '.join(SCHEMES)}")


def with_several_uris(
    pod: Json, service: InferenceService, component: Component, annotations: Mapping[str, str], facts: Facts
) -> Json:
    """The pod with `storageUris` mounted. The controller does it, so the pod webhook has nothing left to do."""
    draft = PodDraft(pod, dict(annotations), dict(service.labels), service.namespace)
    sources = [Source(item.uri, item.mount_path) for item in component.spec.storage_uris]
    add_sources(draft, sources, _credentials_of(service), facts)
    return draft.spec


def _credentials_of(service: InferenceService) -> StorageRequest | None:
    """The predictor's storage entry serves all components; it takes both a key and parameters."""
    model = service.spec.predictor.model
    storage = model.storage if model else None
    if storage and storage.key and storage.parameters:
        return StorageRequest(storage.key, storage.parameters)
    return None


def _refusal(message: str) -> InvalidSpec:
    return InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC, message)
