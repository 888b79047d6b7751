"""Credentials for downloads, by reference: no value of a secret is ever copied into a pod.

Two ways lead to a secret: `storage.key` names an entry of the storage secret; otherwise the ServiceAccount's secrets (or the one named
by annotation) are looked through, and the first telling key of each decides what kind of credential it is.
"""
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from serveplane.api import keys
from serveplane.objects import Json
from serveplane.render.facts import Facts
from serveplane.render.names import SCHEME_PLACEHOLDER
from serveplane.render.pods.draft import PodDraft, add_env, add_mount
from serveplane.render.pods.s3 import s3_account_env, s3_secret_env
from serveplane.render.pods.secrets import secret_keys, secret_value
from serveplane.render.runtimes import FailureReason, InvalidSpec

STORAGE_TYPES = ("s3", "hdfs", "webhdfs")
ROLE_ARN = "eks.amazonaws.com/role-arn"
GCS_VOLUME, GCS_MOUNT = "user-gcp-sa", "/var/secrets/"
HDFS_VOLUME, HDFS_MOUNT = "hdfs-secrets", "/var/secrets/kserve-hdfscreds"
AZURE_ENV = ("AZURE_SUBSCRIPTION_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_STORAGE_ACCESS_KEY",
             "AZURE_ACCESS_TOKEN", "AZURE_ACCESS_EXPIRES_ON_SECONDS", "AZURE_ACCOUNT_NAME", "AZURE_SERVICE_URL")
AZURE_ALWAYS = "AZURE_TENANT_ID"


class StorageRequest(NamedTuple):
    """What `storage:` says: an entry of the storage secret, and values that override it."""
    key: str
    parameters: Mapping[str, str]


def storage_request(annotations: Mapping[str, str]) -> StorageRequest | None:
    if annotations.get(keys.STORAGE_SPEC) != "true":
        return None
    parameters = annotations.get(keys.STORAGE_SPEC_PARAMETERS) or "{}"
    return StorageRequest(annotations.get(keys.STORAGE_SPEC_KEY, ""), msgspec.json.decode(parameters, type=dict[str, str]))


def account_name(spec: Json) -> str:
    return spec.get("serviceAccountName") or "default"


def secret_names(annotations: Mapping[str, str], account: Json | None, facts_annotation: str, storage_secret: str) -> list[str]:
    """Which secrets have to be read before the credentials of a pod can be told."""
    if annotations.get(keys.STORAGE_SPEC) == "true":
        return [annotations.get(facts_annotation) or storage_secret]
    if facts_annotation and (name := annotations.get(facts_annotation)):
        return [name]
    return [secret["name"] for secret in (account or {}).get("secrets") or [] if secret.get("name")]


def add_account_credentials(draft: PodDraft, container: Json, account: str, facts: Facts) -> None:
    """What the ServiceAccount's secrets offer. A missing account offers nothing; a missing secret is an error."""
    section = facts.settings.credentials
    found = facts.accounts.get(account)
    if found is not None and ROLE_ARN in (found["metadata"].get("annotations") or {}):
        add_env(container, s3_account_env(found, section.s3))
    chosen = secret_names({key: value for key, value in draft.annotations.items() if key != keys.STORAGE_SPEC}, found,
                          section.storage_secret_name_annotation, section.storage_spec_secret_name)
    for name in chosen:
        secret = facts.secrets.get(name)
        if secret is None:
            raise MissingSecret(name)
        _add_secret(draft, container, secret, facts)


class MissingSecret(InvalidSpec):
    """A secret that the pod needs is not there yet."""

    def __init__(self, name: str, key: str = "") -> None:
        wish = f"the secret {name} has no key {key}" if key else f"there is no secret {name}"
        super().__init__(FailureReason.INVALID_PREDICTOR_SPEC, wish)
        self.secret = name


def add_storage_credentials(draft: PodDraft, container: Json, request: StorageRequest, uri: str, facts: Facts) -> str:
    """The storage secret's entry by reference, and the URI with the scheme and bucket that the entry names."""
    section = facts.settings.credentials
    annotation = section.storage_secret_name_annotation
    name = (draft.annotations.get(annotation) if annotation else "") or section.storage_spec_secret_name or "storage-config"
    kind = request.parameters.get("type", "")
    key = request.key or (f"default_{kind}" if kind else "default")
    entry = _storage_entry(facts.secrets.get(name), name, key, required=bool(request.key))
    bucket = request.parameters.get("bucket", "")
    if entry is not None:
        _refer_to_entry(container, name, key, {} if kind else entry)
    if not kind:
        kind, bucket = _offered_type(entry or {}), bucket or (entry or {}).get("bucket", "")
    if request.parameters:
        text = msgspec.json.encode(request.parameters, order="sorted").decode()
        add_env(container, [{"name": "STORAGE_OVERRIDE_CONFIG", "value": text}])
    return _located(uri, kind, bucket)


def _refer_to_entry(container: Json, name: str, key: str, entry: Mapping[str, str]) -> None:
    if bundle := entry.get("cabundle_configmap"):
        add_env(container, [{"name": "AWS_CA_BUNDLE_CONFIGMAP", "value": bundle}])
    add_env(container, [_reference("STORAGE_CONFIG", name, key)])


def _storage_entry(secret: Json | None, name: str, key: str, *, required: bool) -> Mapping[str, str] | None:
    text = secret_value(secret, key) if secret else None
    if text is None:
        if required:
            raise MissingSecret(name, key if secret else "")
        return None
    try:
        values: dict[str, object] = msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError as error:
        raise InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC, f"the key {key} of secret {name} is not a JSON object") from error
    return {field: value for field, value in values.items() if isinstance(value, str)}


def _offered_type(entry: Mapping[str, str]) -> str:
    """What the secret says is checked; what the user says in `parameters` is taken at their word, as KServe does."""
    kind = entry.get("type", "")
    if kind not in STORAGE_TYPES:
        raise InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC,
                          f"the storage type must be one of {', '.join(STORAGE_TYPES)}, not {kind or 'empty'}")
    return kind


def _located(uri: str, kind: str, bucket: str) -> str:
    prefix = f"{SCHEME_PLACEHOLDER}://"
    if not uri.startswith(prefix):
        return uri
    path = uri.removeprefix(prefix)
    if kind != "s3":
        return f"{kind}://{path}"
    if not bucket:
        raise InvalidSpec(FailureReason.INVALID_PREDICTOR_SPEC, "storage of type s3 names no bucket")
    return f"s3://{bucket}/{path}"


def _add_secret(draft: PodDraft, container: Json, secret: Json, facts: Facts) -> None:
    present = secret_keys(secret)
    section = facts.settings.credentials
    name = secret["metadata"]["name"]
    if section.s3.s3_secret_access_key_name in present:
        add_env(container, s3_secret_env(secret, section.s3))
    elif section.gcs.gcs_credential_file_name in present:
        _add_gcs(draft, container, name, section.gcs.gcs_credential_file_name)
    else:
        rule = next((rule for telling, rule in _RULES if present & telling), None)
        if rule is not None:
            rule(draft, container, name, secret)


def _add_gcs(draft: PodDraft, container: Json, secret: str, file: str) -> None:
    draft.add_volume({"name": GCS_VOLUME, "secret": {"secretName": secret}})
    add_mount(container, GCS_VOLUME, GCS_MOUNT, read_only=True)
    add_env(container, [{"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": GCS_MOUNT + file}])


def _add_azure(draft: PodDraft, container: Json, name: str, secret: Json) -> None:
    """Older secrets spell the keys `AZ_…`; the variables are the same."""
    present = secret_keys(secret)
    for variable in AZURE_ENV:
        older = variable.replace("AZURE_", "AZ_", 1)
        key = older if older in present else variable
        if key in present or variable == AZURE_ALWAYS:
            add_env(container, [_reference(variable, name, key)])


def _add_hdfs(draft: PodDraft, container: Json, name: str, secret: Json) -> None:
    draft.add_volume({"name": HDFS_VOLUME, "secret": {"secretName": name}})
    add_mount(container, HDFS_VOLUME, HDFS_MOUNT, read_only=True)


def _add_https(draft: PodDraft, container: Json, name: str, secret: Json) -> None:
    """The variable is named by the host, the headers stay in the secret: KServe would copy them into the pod."""
    host = (secret_value(secret, "https-host") or b"").decode(errors="replace").strip()
    add_env(container, [_reference(f"{host}-headers", name, "headers")])


def _key_as_env(variable: str) -> Callable[[PodDraft, Json, str, Json], None]:
    def add(draft: PodDraft, container: Json, name: str, secret: Json) -> None:
        add_env(container, [_reference(variable, name, variable)])
    return add


def _reference(variable: str, secret: str, key: str) -> Json:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


_Rule = Callable[[PodDraft, Json, str, Json], None]
_RULES: Iterable[tuple[frozenset[str], _Rule]] = (
    (frozenset(("AZ_CLIENT_ID", "AZURE_CLIENT_ID", "AZURE_ACCESS_TOKEN")), _add_azure),
    (frozenset(("AZURE_STORAGE_ACCESS_KEY",)), _key_as_env("AZURE_STORAGE_ACCESS_KEY")),
    (frozenset(("https-host",)), _add_https),
    (frozenset(("HDFS_NAMENODE",)), _add_hdfs),
    (frozenset(("HF_TOKEN",)), _key_as_env("HF_TOKEN")),
    (frozenset(("MODELSCOPE_API_TOKEN",)), _key_as_env("MODELSCOPE_API_TOKEN")),
)
