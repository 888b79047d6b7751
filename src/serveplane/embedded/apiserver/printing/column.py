"""One column of a table, and the usual ways to make one."""

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from serveplane.embedded.apiserver.durations import since
from serveplane.objects import Json

Cell = Callable[[Json, datetime.datetime], Any]
NONE = "<none>"


@dataclass(frozen=True)
class Column:
    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    def definition(self) -> Json:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description or self.name,
            "priority": self.priority,
        }


def field(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def labels_text(labels: Json | None) -> str:
    return ",".join(f"{key}={item}" for key, item in sorted((labels or {}).items())) or NONE


def selector_text(selector: Json | None) -> str:
    """A selector as text, keys in order; a plain map of labels is one, too.

    >>> selector_text({"matchLabels": {"b": "1"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]})
    'a in (x,y),b=1'
    """
    if not selector:
        return ""
    whole = "matchLabels" in selector or "matchExpressions" in selector
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {} if whole else selector).items()]
    for one in selector.get("matchExpressions") or () if whole else ():
        listed = ",".join(sorted(one.get("values") or ()))
        told = {"In": f"{one['key']} in ({listed})", "NotIn": f"{one['key']} notin ({listed})", "DoesNotExist": f"!{one['key']}"}
        parts.append((one["key"], told.get(one["operator"], one["key"])))
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0]))


def text(name: str, path: str, priority: int = 0, empty: str = NONE) -> Column:
    def cell(value: Json, now: datetime.datetime) -> Any:
        found = field(value, path)
        return empty if found in (None, "", []) else ",".join(found) if isinstance(found, list) else str(found)

    return Column(name, cell, priority=priority)


def number(name: str, path: str, kind: str = "integer") -> Column:
    return Column(name, lambda value, now: field(value, path) or 0, kind)


def count(name: str, path: str, kind: str = "string") -> Column:
    """How many entries a map or list has."""
    return Column(name, lambda value, now: len(field(value, path) or ()), kind)


def flag(name: str, path: str) -> Column:
    return Column(name, lambda value, now: bool(field(value, path)), "boolean")


def age(path: str = "metadata.creationTimestamp", name: str = "Age", priority: int = 0) -> Column:
    return Column(name, lambda value, now: since(field(value, path), now), priority=priority)


def made(name: str, cell: Callable[[Json], Any], priority: int = 0) -> Column:
    return Column(name, lambda value, now: cell(value), priority=priority)


NAME = Column(
    "Name",
    lambda value, now: value["metadata"].get("name", ""),
    format="name",
    description="Name must be unique within a namespace.",
)
AGE = age()


def columns(*columns: Column | Iterable[Column]) -> tuple[Column, ...]:
    return tuple(inner for column in columns for inner in ([column] if isinstance(column, Column) else column))
