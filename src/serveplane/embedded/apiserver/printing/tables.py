"""Tables for `kubectl get`: the columns are those of the real server, custom resources bring their own."""

import datetime
from collections.abc import Iterable, Iterator
from typing import Any

from serveplane.embedded.apiserver import jsonpath
from serveplane.embedded.apiserver.durations import since
from serveplane.embedded.apiserver.printing import pods
from serveplane.embedded.apiserver.printing.column import NAME, Cell, Column, age
from serveplane.embedded.apiserver.printing.kinds import KINDS
from serveplane.embedded.apiserver.resources import Resource
from serveplane.objects import Json

CREATED_AT = Column("Created At", lambda value, now: value["metadata"].get("creationTimestamp"), "date")


def table(
    resource: Resource, items: Iterable[Json], metadata: Json, version: str, include: str, now: datetime.datetime
) -> Json:
    columns = list(_columns(resource))
    rows = [_row(resource, columns, item, include, now) for item in items]
    found = [column.definition() for column in columns]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": found,
        "rows": rows,
    }


def _row(resource: Resource, columns: list[Column], item: Json, include: str, now: datetime.datetime) -> Json:
    row: Json = {"cells": [column.cell(item, now) for column in columns]}
    told = pods.conditions(item) if resource.bucket == "pods" else []
    return {**row, **({"conditions": told} if told else {}), "object": _object(item, include)}


def _object(item: Json, include: str) -> Any:
    if include == "None":
        return None
    if include == "Object":
        return item
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


def _columns(resource: Resource) -> Iterator[Column]:
    if resource.custom is not None:
        yield NAME
        yield from _custom_columns(resource)
        return
    known = KINDS.get(resource.bucket)
    yield from known if known is not None else (NAME, CREATED_AT)


def _custom_columns(resource: Resource) -> Iterator[Column]:
    listed = resource.custom.columns if resource.custom else []
    if not listed:
        yield age()
        return
    for entry in listed:
        yield Column(
            entry["name"],
            _path_cell(entry["jsonPath"], entry["type"]),
            entry["type"],
            entry.get("priority") or 0,
            entry.get("format") or "",
            entry.get("description") or "",
        )


_RIGHT: dict[str, type | tuple[type, ...]] = {"integer": int, "number": (int, float), "boolean": bool}


def _path_cell(path: str, kind: str) -> Cell:
    def cell(value: Json, now: datetime.datetime) -> Any:
        found = jsonpath.values(value, path)
        if not found or found[0] is None:
            return None
        if kind == "string":
            return ",".join(one if isinstance(one, str) else jsonpath.text(one) for one in found)
        if kind == "date":
            return since(found[0], now) if isinstance(found[0], str) else None
        return found[0] if isinstance(found[0], _RIGHT.get(kind, object)) else None

    return cell
