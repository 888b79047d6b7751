"""An InferencePool's spec in the two shapes of the Inference Extension, v1alpha2 (older) and v1."""

from typing import Any

from serveplane.objects import Json

PICKER_PORT = 9002
"""The port of an endpoint picker that names none."""


def newer_pool(older: Json) -> Json:
    """The v1 shape. Whatever cannot be read is left out rather than guessed; validation then says what is missing."""
    pool: Json = {}
    if isinstance(older.get("selector"), dict):
        pool["selector"] = {"matchLabels": older["selector"]}
    if "targetPortNumber" in older:
        pool["targetPorts"] = [{"number": older["targetPortNumber"]}]
    if isinstance(older.get("extensionRef"), dict):
        pool["endpointPickerRef"] = _picker(older["extensionRef"])
    return pool


def _picker(extension: Json) -> Json:
    kind = extension.get("kind") or "Service"
    port = extension.get("portNumber") or (PICKER_PORT if kind == "Service" else None)
    picker = {"kind": kind, "name": extension.get("name"), "failureMode": extension.get("failureMode") or "FailClose"}
    if "group" in extension:
        picker["group"] = extension["group"]
    return picker | ({"port": {"number": port}} if port else {})


def older_pool(newer: Json) -> Json:
    """The v1alpha2 shape, which has room for the first port only."""
    pool: Json = {}
    selector = newer.get("selector")
    if isinstance(selector, dict):
        pool["selector"] = selector.get("matchLabels") or {}
    first = _first(newer.get("targetPorts"))
    if "number" in first:
        pool["targetPortNumber"] = first["number"]
    picker = newer.get("endpointPickerRef")
    if isinstance(picker, dict):
        extension = {key: picker[key] for key in ("group", "kind", "name", "failureMode") if key in picker}
        number = (picker.get("port") or {}).get("number") if isinstance(picker.get("port"), dict) else None
        pool["extensionRef"] = extension | ({"portNumber": number} if number is not None else {})
    return pool


def _first(ports: Any) -> Json:
    """The first of the target ports; an empty list is an answer too."""
    return ports[0] if isinstance(ports, list) and ports and isinstance(ports[0], dict) else {}
