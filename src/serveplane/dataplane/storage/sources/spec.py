"""The storage spec of an InferenceService: a JSON secret in STORAGE_CONFIG, overridden by STORAGE_OVERRIDE_CONFIG."""
from collections.abc import Mapping
from typing import Any

import msgspec

from serveplane.dataplane.storage.errors import StorageError

_S3_KEYS = {
    "endpoint_url": "AWS_ENDPOINT_URL", "access_key_id": "AWS_ACCESS_KEY_ID", "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "region": "AWS_DEFAULT_REGION", "ca_bundle": "AWS_CA_BUNDLE", "verify_ssl": "S3_VERIFY_SSL", "anonymous": "awsAnonymousCredential",
}


def with_storage_spec(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with what the storage spec says put in the usual variables."""
    spec = {**_object(environment, "STORAGE_CONFIG"), **_object(environment, "STORAGE_OVERRIDE_CONFIG")}
    if spec.get("type") != "s3":
        return dict(environment)
    return {**environment, **{variable: str(spec[key]) for key, variable in _S3_KEYS.items() if key in spec}}


def _object(environment: Mapping[str, str], name: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(environment.get(name) or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise StorageError(f"{name} is not a JSON object") from None   # its content may be a secret: not quoted
