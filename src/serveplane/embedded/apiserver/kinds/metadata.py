"""Rules for `metadata`, the same for every kind."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.resources import Resource
from serveplane.objects import Json, names

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric "
    "character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an "
    "alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
QUALIFIED, LABEL_VALUE = names.QUALIFIED_NAME_RULE, names.LABEL_VALUE_RULE
OWNER_FIELDS = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
ANNOTATION_BYTES = 256 * 1024
PATH_NAMES = frozenset({"roles", "clusterroles", "rolebindings", "clusterrolebindings"})
LABEL_NAMES = frozenset({"namespaces", "statefulsets.apps"})
RFC_1035_NAMES = frozenset({"services"})


def invalid(field: str, value: Any, why: str) -> Cause:
    shown = f'"{value}"' if isinstance(value, str) else value
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", field)


def check_metadata(resource: Resource, metadata: Json, live: Json | None = None) -> Iterator[Cause]:
    name = metadata.get("name")
    if not name:
        yield Cause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
    elif live is None:
        yield from _name(resource, name)
    prefix = metadata.get("generateName") or ""
    if prefix and live is None and resource.plural not in PATH_NAMES and not names.is_dns_subdomain(prefix.rstrip("-") + "a"):
        yield invalid("metadata.generateName", prefix, SUBDOMAIN)
    yield from check_labels(metadata.get("labels") or {}, "metadata.labels")
    yield from _annotations(metadata.get("annotations") or {})
    yield from _owners(metadata.get("ownerReferences") or ())
    for finalizer in metadata.get("finalizers") or ():
        if not names.is_qualified_name(finalizer):
            yield invalid("metadata.finalizers", finalizer, QUALIFIED)


def _name(resource: Resource, name: str) -> Iterator[Cause]:
    if resource.plural in PATH_NAMES:
        if not names.is_safe_path_part(name) or "%" in name:
            letter = next((letter for letter in "/%" if letter in name), "")
            yield invalid("metadata.name", name, f"may not contain '{letter}'" if letter else f"may not be '{name}'")
    elif resource.bucket in RFC_1035_NAMES:
        if not names.is_dns_1035_label(name):
            yield invalid("metadata.name", name, LABEL_1035)
    elif resource.bucket in LABEL_NAMES:
        if not names.is_dns_label(name):
            yield invalid("metadata.name", name, LABEL)
    elif len(name) > 253:
        yield invalid("metadata.name", name, "must be no more than 253 characters")
    elif not names.is_dns_subdomain(name):
        yield invalid("metadata.name", name, SUBDOMAIN)


def check_labels(labels: Mapping[str, Any], at: str) -> Iterator[Cause]:
    for key, value in labels.items():
        if not names.is_qualified_name(key):
            yield invalid(at, key, QUALIFIED)
        if not names.is_label_value(value):
            yield invalid(at, value, "must be no more than 63 characters" if len(value) > 63 else LABEL_VALUE)


def _annotations(annotations: Mapping[str, str]) -> Iterator[Cause]:
    size = 0
    for key, value in annotations.items():
        if not names.is_qualified_name(key.lower()):
            yield invalid("metadata.annotations", key, QUALIFIED)
        size += len(key) + len(value)
    if size > ANNOTATION_BYTES:
        yield Cause(
            "FieldValueTooLong", f"Too long: may not be more than {ANNOTATION_BYTES} bytes", "metadata.annotations"
        )


def _owners(owners: Any) -> Iterator[Cause]:
    controllers = 0
    for owner in owners:
        at = "metadata.ownerReferences"
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield invalid(
                    f"{at}.{field}",
                    owner.get(field, ""),
                    "version must not be empty" if field == "apiVersion" else "must not be empty",
                )
        controllers += bool(owner.get("controller"))
    if controllers > 1:
        first, second, *_ = [f"{owner.get('kind', '')}/{owner.get('name', '')}" for owner in owners if owner.get("controller")]
        told = f'Only one reference can have Controller set to true. Found "true" in references for {first} and {second}'
        shown = msgspec.json.encode([{key: owner[key] for key in OWNER_FIELDS if key in owner} for owner in owners]).decode()
        yield Cause("FieldValueInvalid", f"Invalid value: {shown}: {told}", "metadata.ownerReferences")


def check_metadata_update(metadata: Json, live: Json) -> Iterator[Cause]:
    if live.get("deletionTimestamp"):
        new = [name for name in metadata.get("finalizers") or () if name not in (live.get("finalizers") or ())]
        if new:
            listed = ", ".join(f'"{name}"' for name in new)
            yield Cause(
                "FieldValueForbidden",
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}",
                "metadata.finalizers",
            )
