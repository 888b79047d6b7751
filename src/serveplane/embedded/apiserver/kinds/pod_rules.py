"""What is checked of pods, their containers and volumes."""

from collections.abc import Iterable, Iterator
from typing import Any

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.kinds.checking import (
    NOT_NEGATIVE,
    at,
    duplicate,
    missing,
    port_name,
    port_number_or_name,
    unsupported,
)
from serveplane.embedded.apiserver.kinds.metadata import check_labels, invalid
from serveplane.objects import Json, quantity

ENV_NAME = "a valid environment variable name must consist only of printable ASCII characters other than '='"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
SOURCES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi", "glusterfs",
    "persistentVolumeClaim", "rbd", "flexVolume", "cinder", "cephfs", "flocker", "downwardAPI", "fc", "azureFile", "configMap",
    "vsphereVolume", "quobyte", "azureDisk", "storageos", "photonPersistentDisk", "portworxVolume", "scaleIO", "projected", "csi",
    "ephemeral", "image",
)  # fmt: skip
"""Where a volume's files may come from, in the order they are looked at."""
LARGEST_ID = 2**31 - 1
LARGEST_MODE = 0o777


def pod_spec(value: Json, path: str) -> Iterator[Cause]:
    if not value.get("containers"):
        yield missing(at(path, "containers"))
    volumes = {one.get("name") for one in value.get("volumes") or ()}
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(value.get(field) or ()):
            here = f"{at(path, field)}[{index}]"
            if container.get("name") in seen:
                yield duplicate(f"{here}.name", container.get("name"))
            seen.add(container.get("name", ""))
            yield from _mounts(container, here, volumes)
    yield from _host_ports(value.get("containers") or (), at(path, "containers"))


def _host_ports(containers: Iterable[Json], path: str) -> Iterator[Cause]:
    """No two containers can have the same port of the node."""
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            told = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if told in seen:
                yield duplicate(f"{path}[{index}].ports[{number}].hostPort", told)
            seen.add(told)


def _mounts(container: Json, path: str, volumes: set[Any]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        here = f"{path}.volumeMounts[{index}]"
        name = mount.get("name") or ""
        if name not in volumes:
            yield Cause("FieldValueNotFound", f'Not found: "{name}"', f"{here}.name")
        if mount.get("mountPath") in seen:
            yield invalid(f"{here}.mountPath", mount["mountPath"], "must be unique")
        seen.add(mount.get("mountPath", ""))


def probe(value: Json, path: str) -> Iterator[Cause]:
    handlers = [field for field in ("exec", "httpGet", "tcpSocket", "grpc") if value.get(field) is not None]
    if not handlers:
        yield missing(path, "must specify a handler type")
    for field in handlers[1:]:
        yield Cause("FieldValueForbidden", "Forbidden: may not specify more than 1 handler type", at(path, field))


def env(value: Json, path: str) -> Iterator[Cause]:
    if not value.get("name"):
        yield missing(at(path, "name"))
    elif not all(" " <= letter <= "~" and letter != "=" for letter in value["name"]):
        yield invalid(at(path, "name"), value["name"], ENV_NAME)
    if value.get("value") and value.get("valueFrom"):
        yield invalid(at(path, "valueFrom"), "", "may not be specified when `value` is not empty")


def ports(container: Json, path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, one in enumerate(container.get("ports") or ()):
        name = one.get("name") or ""
        wrong = list(port_name(name, f"{path}.ports[{index}].name")) if name else []
        yield from wrong
        if not wrong and name in seen:
            yield duplicate(f"{path}.ports[{index}].name", name)
        if name:
            seen.add(name)


def http_get(value: Json, path: str) -> Iterator[Cause]:
    yield from port_number_or_name(value.get("port", 0), at(path, "port"))
    if value.get("scheme") not in ("HTTP", "HTTPS"):
        yield unsupported(at(path, "scheme"), value.get("scheme"), ("HTTP", "HTTPS"))


def lifecycle_handler(value: Json, path: str) -> Iterator[Cause]:
    if not any(value.get(field) is not None for field in ("exec", "httpGet", "tcpSocket", "sleep")):
        yield missing(path, "must specify a handler type")


def security(value: Json, path: str) -> Iterator[Cause]:
    for field in ("runAsUser", "runAsGroup"):
        found = value.get(field)
        if found is not None and not 0 <= found <= LARGEST_ID:
            yield invalid(at(path, field), found, f"must be between 0 and {LARGEST_ID}, inclusive")


def requirements(value: Json, path: str) -> Iterator[Cause]:
    """Amounts of what a container may use: known or qualified names, nothing negative, requests within limits."""
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from _amount(name, amount, f"{at(path, field)}[{name}]")
    for name, amount in requests.items():
        if name in limits and quantity.parse(amount) > quantity.parse(limits[name]):
            yield invalid(at(path, "requests"), amount, f"must be less than or equal to {name} limit of {limits[name]}")


def _amount(name: str, amount: str, path: str) -> Iterator[Cause]:
    parsed = quantity.parse(amount)
    if "/" in name and parsed != int(parsed):
        yield invalid(path, amount, "must be an integer")
    if parsed < 0:
        yield invalid(path, amount, NOT_NEGATIVE)


def toleration(value: Json, path: str) -> Iterator[Cause]:
    operator, effect = value.get("operator") or "", value.get("effect") or ""
    if not value.get("key") and operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(at(path, "operator"), operator, why)
    if value.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(at(path, "effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator not in ("", "Equal", "Exists"):
        yield unsupported(at(path, "operator"), operator, ("Equal", "Exists"))
    elif operator == "Exists" and value.get("value"):
        yield invalid(at(path, "operator"), value["value"], "value must be empty when `operator` is 'Exists'")
    if effect and effect not in EFFECTS:
        yield unsupported(at(path, "effect"), effect, EFFECTS)


def volume(value: Json, path: str) -> Iterator[Cause]:
    for source in [name for name in SOURCES if value.get(name) is not None][1:]:
        yield Cause("FieldValueForbidden", "Forbidden: may not specify more than 1 volume type", at(path, source))


def file_mode(value: Json, path: str) -> Iterator[Cause]:
    mode = value.get("defaultMode")
    if mode is not None and not 0 <= mode <= LARGEST_MODE:
        yield invalid(at(path, "defaultMode"), mode, "must be a number between 0 and 0777 (octal), both inclusive")


def spread(value: Json, path: str) -> Iterator[Cause]:
    if value.get("maxSkew", 0) <= 0:
        yield invalid(at(path, "maxSkew"), value.get("maxSkew", 0), "must be greater than zero")
    if value.get("whenUnsatisfiable") not in ("DoNotSchedule", "ScheduleAnyway"):
        yield unsupported(at(path, "whenUnsatisfiable"), value.get("whenUnsatisfiable", ""), ("DoNotSchedule", "ScheduleAnyway"))


def node_selector(value: Json, path: str) -> Iterator[Cause]:
    yield from check_labels(value.get("nodeSelector") or {}, at(path, "nodeSelector"))
