"""Which certificate authorities are believed, from the environment that the pod webhook writes."""
from collections.abc import Mapping
from pathlib import Path

from serveplane import pod
from serveplane.dataplane.storage.connection import Trust
from serveplane.dataplane.storage.errors import StorageError

DEFAULT_MOUNT = "/etc/ssl/custom-certs"


def trust_from(environment: Mapping[str, str], verify: bool = True, own_bundle: str = "") -> Trust:
    """The system's authorities, and beside them `own_bundle` or the bundle of the central ConfigMap."""
    if not verify:
        return Trust(verify=False)
    if own_bundle:
        return Trust(_existing(own_bundle))
    if environment.get("CA_BUNDLE_CONFIGMAP_NAME"):
        return Trust(_existing(str(Path(environment.get("CA_BUNDLE_VOLUME_MOUNT_POINT") or DEFAULT_MOUNT, "cabundle.crt"))))
    return Trust(environment.get("REQUESTS_CA_BUNDLE", ""))


def _existing(path: str) -> str:
    real = pod.real_path(path)
    if not Path(real).is_file():
        raise StorageError(f"the CA bundle {path} does not exist")
    return real
