"""Tables for `kubectl get`: columns per kind, cells per object."""

from collections.abc import Iterable
from typing import Any

from serveplane.embedded.apiserver.resources import Resource
from serveplane.objects import Json

NAME: Json = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "Name must be unique within a namespace.",
    "priority": 0,
}
AGE: Json = {"name": "Created At", "type": "date", "format": "", "description": "CreationTimestamp", "priority": 0}


def table(resource: Resource, items: Iterable[Json], metadata: Json, version: str, include: str) -> Json:
    rows = [
        {
            "cells": [item["metadata"].get("name", ""), item["metadata"].get("creationTimestamp")],
            "object": _object(item, include),
        }
        for item in items
    ]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": [NAME, AGE],
        "rows": rows,
    }


def _object(item: Json, include: str) -> Any:
    if include == "None":
        return None
    if include == "Object":
        return item
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}
