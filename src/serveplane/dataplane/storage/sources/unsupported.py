"""Schemes that KServe knows and we refuse, each with what to do instead."""
from collections.abc import Mapping

from serveplane.dataplane.storage.errors import StorageError
from serveplane.dataplane.storage.files import Listing, Patterns

_INSTEAD = {
    "modelscope://": "mirror the model to s3://, gs:// or hf://",
    "pvc://": "a PersistentVolumeClaim is mounted into the pod by the webhook and never downloaded",
}


def listing(uri: str, patterns: Patterns, environment: Mapping[str, str]) -> Listing:
    for prefix, instead in _INSTEAD.items():
        if uri.startswith(prefix):
            raise StorageError(f"{prefix} cannot be downloaded: {instead}")
    if ".file." in uri:
        raise StorageError("Azure file shares cannot be downloaded; use a blob container, or mount the share as a volume")
    raise StorageError("git repositories cannot be downloaded; use an archive of the revision (https://…/archive/v1.tar.gz)")
