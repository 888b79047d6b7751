"""The environment of S3 downloads: annotations of the secret or account first, then the secret's data, then the central settings."""
from collections.abc import Iterator, Mapping

from serveplane.objects import Json
from serveplane.render.pods.secrets import secret_value
from serveplane.settings.sections import S3

_ANNOTATION = "serving.kserve.io/s3-"


def s3_secret_env(secret: Json, section: S3) -> list[Json]:
    """Keys by reference, the rest as values."""
    name = secret["metadata"]["name"]
    pairs = (("AWS_ACCESS_KEY_ID", section.s3_access_key_id_name), ("AWS_SECRET_ACCESS_KEY", section.s3_secret_access_key_name))
    references = [{"name": variable, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}} for variable, key in pairs]
    return [*references, *_values(secret["metadata"].get("annotations") or {}, secret, section)]


def s3_account_env(account: Json, section: S3) -> list[Json]:
    """For accounts that assume a role, there are no keys, only where and how to connect."""
    return _values(account["metadata"].get("annotations") or {}, {}, section)


def _values(annotations: Mapping[str, str], secret: Json, section: S3) -> list[Json]:
    return [{"name": name, "value": value} for name, value in _pairs(annotations, secret, section) if value]


def _pairs(annotations: Mapping[str, str], secret: Json, section: S3) -> Iterator[tuple[str, str]]:
    def said(annotation: str, variable: str, setting: str) -> str:
        return annotations.get(_ANNOTATION + annotation) or _data(secret, variable) or setting

    yield from _endpoint(said("endpoint", "S3_ENDPOINT", section.s3_endpoint),
                         said("usehttps", "S3_USE_HTTPS", section.s3_use_https))
    yield "S3_VERIFY_SSL", said("verifyssl", "S3_VERIFY_SSL", section.s3_verify_ssl)
    yield "awsAnonymousCredential", said("useanoncredential", "awsAnonymousCredential", section.s3_use_anonymous_credential)
    yield "AWS_DEFAULT_REGION", said("region", "AWS_DEFAULT_REGION", section.s3_region)
    yield "S3_USER_VIRTUAL_BUCKET", said("usevirtualbucket", "S3_USER_VIRTUAL_BUCKET", section.s3_use_virtual_bucket)
    yield "S3_USE_ACCELERATE", said("useaccelerate", "S3_USE_ACCELERATE", section.s3_use_accelerate)
    yield "AWS_CA_BUNDLE", said("cabundle", "AWS_CA_BUNDLE", section.s3_ca_bundle)
    yield "AWS_CA_BUNDLE_CONFIGMAP", said("cabundle-configmap", "AWS_CA_BUNDLE_CONFIGMAP", section.s3_ca_bundle_config_map)


def _endpoint(endpoint: str, use_https: str) -> Iterator[tuple[str, str]]:
    """A scheme in the endpoint decides, then the annotation; encrypted if nobody says."""
    if not endpoint:
        return
    scheme, separator, rest = endpoint.partition("://")
    if separator and scheme in ("http", "https"):
        endpoint, use_https = rest, "1" if scheme == "https" else "0"
    yield "S3_USE_HTTPS", use_https
    yield "S3_ENDPOINT", endpoint
    yield "AWS_ENDPOINT_URL", f"{'http' if use_https == '0' else 'https'}://{endpoint}"


def _data(secret: Json, key: str) -> str:
    return (secret_value(secret, key) or b"").decode(errors="replace")
