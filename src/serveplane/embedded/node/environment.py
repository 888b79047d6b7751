"""A container's environment: its env and envFrom, the downward API, and `$(NAME)` in commands and arguments.

Pure: what is referred to (ConfigMaps, Secrets, the pod's own fields) has been fetched before. Nothing of the node's own
environment gets in but what a process needs to start, so no cloud key or token leaks into a pod.
"""
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import msgspec

from serveplane.objects import Json, quantity

INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT",
             "PYTHONPYCACHEPREFIX", "VIRTUAL_ENV")
VARIABLE = re.compile(r"\$\$|\$\(([^)]*)\)|\$")
FIELD_WITH_KEY = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]$")


class MissingReference(Exception):
    """A ConfigMap, Secret or field that the spec needs is not there; the container waits until it is."""


@dataclass(frozen=True)
class References:
    """The ConfigMaps and Secrets of the pod's namespace that it refers to; absent ones are simply not there."""
    config_maps: Mapping[str, Json] = field(default_factory=dict)
    secrets: Mapping[str, Json] = field(default_factory=dict)


def expand(text: str, values: Mapping[str, str]) -> str:
    """`$(NAME)` by its value; `$$` is one dollar; an unknown name stays as written.

    >>> expand("$(A) $$(A) $(B) $A", {"A": "1"})
    '1 $(A) $(B) $A'
    """
    def replaced(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return values.get(found[1], found[0]) if found[1] is not None else "$"
    return VARIABLE.sub(replaced, text)


def variables(container: Json, pod: Json, references: References, allocatable: Mapping[str, Fraction],
              given: Mapping[str, str]) -> dict[str, str]:
    """What the spec says the environment is, on top of what the node gives to every container (service addresses)."""
    result = dict(given)
    for source in container.get("envFrom") or ():
        result.update(_from_source(source, references))
    for entry in container.get("env") or ():
        value = _value(entry, pod, container, references, allocatable, result)
        if value is not None:
            result[entry["name"]] = value
    return result


def inherited(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The little that a process needs of the node's own environment."""
    return {name: environment[name] for name in INHERITED if name in environment}


def field_value(path: str, pod: Json) -> str:
    """The downward API's `fieldRef`, for variables and for files."""
    metadata, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    keyed = FIELD_WITH_KEY.match(path)
    if keyed:
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    plain: dict[str, Callable[[], str]] = {
        "metadata.name": lambda: metadata["name"], "metadata.namespace": lambda: metadata.get("namespace", ""),
        "metadata.uid": lambda: metadata.get("uid", ""),
        "metadata.labels": lambda: _listing(metadata.get("labels")),
        "metadata.annotations": lambda: _listing(metadata.get("annotations")),
        "spec.nodeName": lambda: spec.get("nodeName", ""),
        "spec.serviceAccountName": lambda: spec.get("serviceAccountName", "default"),
        "status.podIP": lambda: status.get("podIP", ""), "status.hostIP": lambda: status.get("hostIP", ""),
        "status.podIPs": lambda: ",".join(entry["ip"] for entry in status.get("podIPs") or ()),
        "status.hostIPs": lambda: ",".join(entry["ip"] for entry in status.get("hostIPs") or ()),
    }
    if path not in plain:
        raise MissingReference(f"unsupported fieldPath: {path}")
    return plain[path]()


def resource_value(reference: Json, pod: Json, container: Json, allocatable: Mapping[str, Fraction]) -> str:
    """The downward API's `resourceFieldRef`: the amount in units of the divisor, rounded up."""
    name = reference.get("containerName") or container.get("name")
    everyone = [*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ())]
    owner = next((other for other in everyone if other["name"] == name), container)
    section, _, resource = str(reference["resource"]).partition(".")
    amount = ((owner.get("resources") or {}).get(section) or {}).get(resource)
    if amount is not None:
        size = quantity.parse(amount)
    else:   # no limit means all that the node has
        size = allocatable.get(resource, Fraction(0)) if section == "limits" else Fraction(0)
    return str(math.ceil(size / (quantity.parse(reference.get("divisor") or "1") or 1)))


def _from_source(source: Json, references: References) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    if "configMapRef" in source:
        data = referred(source["configMapRef"], references.config_maps, "configmap")
        return {prefix + key: str(value) for key, value in (data.get("data") or {}).items() if _is_name(prefix + key)}
    if "secretRef" in source:
        data = referred(source["secretRef"], references.secrets, "secret")
        return {prefix + key: decode_secret(value).decode("utf-8", "replace")
                for key, value in (data.get("data") or {}).items() if _is_name(prefix + key)}
    return {}


def _value(entry: Json, pod: Json, container: Json, references: References, allocatable: Mapping[str, Fraction],
           so_far: Mapping[str, str]) -> str | None:
    source = entry.get("valueFrom")
    if not source:
        return expand(str(entry.get("value") or ""), so_far)
    if "fieldRef" in source:
        return field_value(source["fieldRef"]["fieldPath"], pod)
    if "resourceFieldRef" in source:
        return resource_value(source["resourceFieldRef"], pod, container, allocatable)
    if "configMapKeyRef" in source:
        return _key(source["configMapKeyRef"], references.config_maps, "configmap", str)
    if "secretKeyRef" in source:
        return _key(source["secretKeyRef"], references.secrets, "secret",
                    lambda text: decode_secret(text).decode("utf-8", "replace"))
    raise MissingReference(f"variable {entry['name']}: this kind of valueFrom is not supported")


def referred(reference: Json, known: Mapping[str, Json], kind: str) -> Json:
    """The object that is meant; nothing at all where it may be absent."""
    found = known.get(reference.get("name", ""))
    if found is None and not reference.get("optional"):
        raise MissingReference(f'{kind} "{reference.get("name", "")}" not found')
    return found or {}


def _key(reference: Json, known: Mapping[str, Json], kind: str, read: Callable[[str], str]) -> str | None:
    data = referred(reference, known, kind).get("data") or {}
    if reference["key"] in data:
        return read(data[reference["key"]])
    if reference.get("optional"):
        return None
    raise MissingReference(f'couldn\'t find key {reference["key"]} in {kind} "{reference.get("name", "")}"')


def decode_secret(text: str) -> bytes:
    """A Secret's value as bytes; JSON carries it in base64."""
    return msgspec.convert(text, bytes)


def _is_name(name: str) -> bool:
    return bool(name) and "=" not in name and "\0" not in name


def _listing(labels: Mapping[str, str] | None) -> str:
    """Labels as the downward API writes them into a file: one `key="value"` per line, sorted."""
    return "\n".join(f'{key}="{_escaped(value)}"' for key, value in sorted((labels or {}).items()))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
