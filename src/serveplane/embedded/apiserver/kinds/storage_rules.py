"""What is checked of volumes, claims and where their data lies."""

import posixpath
from collections.abc import Iterator
from typing import Any

import msgspec

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.kinds.checking import SELECTOR_OPERATORS, at, missing, selector_values, unsupported
from serveplane.embedded.apiserver.kinds.metadata import LABEL_VALUE, QUALIFIED, SUBDOMAIN, invalid
from serveplane.objects import Json, names, quantity

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
EXCLUSIVE = "ReadWriteOncePod"
VOLUME_MODES = ("Block", "Filesystem")
RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
NOT_POSITIVE = "must be greater than zero"
SOURCES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs", "iscsi", "cinder",
    "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO", "local",
    "storageos", "csi",
)  # fmt: skip
"""Where a volume's data may lie, in the order they are looked at: all but the first are refused."""


# --- volumes


def volume(value: Json, path: str) -> Iterator[Cause]:
    if not value.get("accessModes"):
        yield missing(at(path, "accessModes"))
    yield from _modes(value, path)
    yield from _capacity(value.get("capacity") or {}, at(path, "capacity"))
    policy = value.get("persistentVolumeReclaimPolicy")
    if policy and policy not in RECLAIM_POLICIES:
        yield unsupported(at(path, "persistentVolumeReclaimPolicy"), policy, RECLAIM_POLICIES)
    yield from _sources(value, path)
    if policy == "Recycle" and posixpath.normpath((value.get("hostPath") or {}).get("path") or ".") == "/":
        why = "may not be 'recycle' for a hostPath mount of '/'"
        yield Cause("FieldValueForbidden", f"Forbidden: {why}", at(path, "persistentVolumeReclaimPolicy"))
    yield from _class_name(value, path, "storageClassName")
    yield from _volume_mode(value, path)
    yield from _attributes_class(value, path)


def _capacity(capacity: Json, path: str) -> Iterator[Cause]:
    if not capacity:
        yield missing(path)
    if set(capacity) != {"storage"}:
        shown = msgspec.json.encode(capacity or None, order="sorted").decode()
        yield Cause("FieldValueNotSupported", f'Unsupported value: {shown}: supported values: "storage"', path)
    for name, amount in capacity.items():
        number = quantity.parse(amount)
        if number < 0:
            yield invalid(f"{path}[{name}]", number.__floor__(), "must be a valid resource quantity")
        if number <= 0:
            yield invalid(f"{path}[{name}]", amount, NOT_POSITIVE)


def _sources(value: Json, path: str) -> Iterator[Cause]:
    given = [name for name in SOURCES if value.get(name) is not None]
    for name in given[1:]:
        yield Cause("FieldValueForbidden", "Forbidden: may not specify more than 1 volume type", at(path, name))
    if not given:
        yield missing(path, "must specify a volume type")
    elif given[0] == "local" and value.get("nodeAffinity") is None:
        yield missing(at(path, "nodeAffinity"), "Local volume requires node affinity")


def _attributes_class(value: Json, path: str) -> Iterator[Cause]:
    name = value.get("volumeAttributesClassName")
    if name is None:
        return
    if not name:
        yield missing(at(path, "volumeAttributesClassName"), "an empty string is disallowed")
    yield from _class_name(value, path, "volumeAttributesClassName")
    if value.get("csi") is None:
        yield missing(at(path, "csi"), "has to be specified when using volumeAttributesClassName")


def host_path(value: Json, path: str) -> Iterator[Cause]:
    yield from local(value, path)
    kind = value.get("type")
    if value.get("path") and kind is not None and kind not in HOST_PATH_TYPES:
        yield unsupported(at(path, "type"), kind, HOST_PATH_TYPES)


def local(value: Json, path: str) -> Iterator[Cause]:
    text = value.get("path") or ""
    if not text:
        yield missing(at(path, "path"))
    elif ".." in text.split("/"):
        yield invalid(at(path, "path"), text, "must not contain '..'")


def nfs(value: Json, path: str) -> Iterator[Cause]:
    for field in ("server", "path"):
        if not value.get(field):
            yield missing(at(path, field))
    if not (value.get("path") or "").startswith("/"):
        yield invalid(at(path, "path"), value.get("path") or "", "must be an absolute path")


def csi_volume(value: Json, path: str) -> Iterator[Cause]:
    driver = value.get("driver") or ""
    if not driver:
        yield missing(at(path, "driver"))
    if not names.is_dns_subdomain(driver.lower()):
        yield invalid(at(path, "driver"), driver, SUBDOMAIN)
    if not value.get("volumeHandle"):
        yield missing(at(path, "volumeHandle"))


def node_affinity(value: Json, path: str) -> Iterator[Cause]:
    if value.get("required") is None:
        yield missing(at(path, "required"), "must specify required node constraints")


def node_selector(value: Json, path: str) -> Iterator[Cause]:
    if not value.get("nodeSelectorTerms"):
        yield missing(at(path, "nodeSelectorTerms"), "must have at least one node selector term")


def node_requirement(value: Json, path: str) -> Iterator[Cause]:
    operator, given = value.get("operator"), value.get("values") or []
    if operator in SELECTOR_OPERATORS:
        yield from selector_values(operator, given, path)
    elif operator not in ("Gt", "Lt"):
        yield invalid(at(path, "operator"), operator or "", "not a valid selector operator")
    elif len(given) != 1:
        yield missing(at(path, "values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")
    if not names.is_qualified_name(value.get("key") or ""):
        yield invalid(at(path, "key"), value.get("key") or "", QUALIFIED)
    for index, one in enumerate(given):
        if not names.is_label_value(one):
            yield invalid(f"{at(path, 'values')}[{index}]", one, LABEL_VALUE)


# --- claims


def claim(value: Json, path: str) -> Iterator[Cause]:
    if not value.get("accessModes"):
        yield missing(at(path, "accessModes"), "at least 1 access mode is required")
    yield from _modes(value, path)
    yield from _size(((value.get("resources") or {}).get("requests") or {}).get("storage"), f"{at(path, 'resources')}[storage]")
    yield from _class_name(value, path, "storageClassName")
    yield from _volume_mode(value, path)
    for field in ("dataSource", "dataSourceRef"):
        if value.get(field) is not None:
            yield from _data_source(value[field], at(path, field))
    yield from _same_source(value, path)
    yield from _class_name(value, path, "volumeAttributesClassName")


def _size(size: str | None, path: str) -> Iterator[Cause]:
    if size is None:
        yield missing(path)
    elif quantity.parse(size) <= 0:
        yield invalid(path, size, NOT_POSITIVE)


def _data_source(value: Json, path: str) -> Iterator[Cause]:
    for field in ("name", "kind"):
        if not value.get(field):
            yield missing(at(path, field))
    group, kind = value.get("apiGroup") or "", value.get("kind") or ""
    if not group and kind != "PersistentVolumeClaim":
        yield invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
    if group and not names.is_dns_subdomain(group):
        yield invalid(at(path, "apiGroup"), group, SUBDOMAIN)


def _same_source(value: Json, path: str) -> Iterator[Cause]:
    one, other = value.get("dataSource"), value.get("dataSourceRef")
    if one is None or other is None:
        return
    shown = msgspec.json.encode({}).decode()
    if other.get("namespace"):
        yield Cause("FieldValueInvalid", f"Invalid value: {shown}: may not be specified when dataSourceRef.namespace is specified", path)
    elif any(one.get(field) != other.get(field) for field in ("apiGroup", "kind", "name")):
        yield Cause("FieldValueInvalid", f"Invalid value: {shown}: must match dataSourceRef", path)


# --- both


def _modes(value: Json, path: str) -> Iterator[Cause]:
    given = value.get("accessModes") or []
    for mode in given:
        if mode not in ACCESS_MODES:
            yield unsupported(at(path, "accessModes"), mode, ACCESS_MODES)
    if EXCLUSIVE in given and any(mode in ACCESS_MODES and mode != EXCLUSIVE for mode in given):
        why = f"may not use {EXCLUSIVE} with other access modes"
        yield Cause("FieldValueForbidden", f"Forbidden: {why}", at(path, "accessModes"))


def _class_name(value: Json, path: str, field: str) -> Iterator[Cause]:
    name = value.get(field)
    if name and not names.is_dns_subdomain(name):
        yield invalid(at(path, field), name, SUBDOMAIN)


def _volume_mode(value: Json, path: str) -> Iterator[Cause]:
    mode = value.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        yield unsupported(at(path, "volumeMode"), mode, VOLUME_MODES)


# --- status


def status_problems(bucket: str, value: Json) -> Iterator[Cause]:
    """What is checked when somebody writes the status of a claim."""
    if bucket != "persistentvolumeclaims":
        return
    status: Json = value.get("status") or {}
    for field in ("capacity", "allocatedResources"):
        amounts: dict[str, Any] = status.get(field) or {}
        for name, amount in amounts.items():
            if quantity.parse(amount) < 0:
                why = "must be a valid resource quantity"
                yield invalid(f"status.{field}[{name}]", quantity.parse(amount).__floor__(), why)
