"""A structural schema compiled once: prune, default and validate custom resources.

A schema becomes a tree of `Node`s; each does the three jobs for its part of a value. Messages are the real server's.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from serveplane.embedded.apiserver.crd import constraints
from serveplane.embedded.apiserver.crd.rules import Rule, rules_of
from serveplane.embedded.apiserver.errors import Cause
from serveplane.objects import Json

ABSENT: Any = object()
"""No old value to compare with."""
META_FIELDS = ("apiVersion", "kind", "metadata")


class Node:
    """One place of a schema."""

    __slots__ = (
        "_schema",
        "checks",
        "default",
        "embedded",
        "has_default",
        "items",
        "keys",
        "list_type",
        "nullable",
        "open",
        "properties",
        "root",
        "rules",
        "type",
        "values",
    )

    def __init__(self, schema: Json, root: bool = False) -> None:
        self._schema = schema
        self.root = root
        self.type: str = "int-or-string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
        self.nullable = bool(schema.get("nullable"))
        self.open = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = root or bool(schema.get("x-kubernetes-embedded-resource"))
        self.has_default = "default" in schema
        self.default: Any = schema.get("default")
        self.properties = {name: Node(child) for name, child in (schema.get("properties") or {}).items()}
        values = schema.get("additionalProperties")
        self.values = (
            Node(values)
            if isinstance(values, dict)
            else Node({"x-kubernetes-preserve-unknown-fields": True})
            if values
            else None
        )
        self.items = Node(schema["items"]) if isinstance(schema.get("items"), dict) else None
        self.list_type: str = schema.get("x-kubernetes-list-type", "atomic")
        self.keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self.checks: list[constraints.Check] = constraints.compiled(schema)
        self.rules: list[Rule] = rules_of(schema)

    # --- pruning

    def prune(self, value: Any, path: str, unknown: list[str]) -> Any:
        """The value without fields the schema does not know; their paths are collected."""
        if isinstance(value, dict):
            return self._prune_object(value, path, unknown)
        if isinstance(value, list) and self.items is not None:
            return [self.items.prune(item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
        return value

    def _prune_object(self, value: Json, path: str, unknown: list[str]) -> Json:
        out: Json = {}
        for name, item in value.items():
            at = f"{path}.{name}" if path else name
            child = self.properties.get(name)
            if child is None and self.values is not None:
                child = self.values
            if self.embedded and name in META_FIELDS:
                out[name] = item
            elif child is not None:
                out[name] = child.prune(item, at, unknown)
            elif self.open:
                out[name] = item
            else:
                unknown.append(at)
        return out

    # --- defaulting

    def fill(self, value: Any) -> None:
        """Set defaults inside the value, in place. A null where none is allowed counts as absent if there is a default."""
        if isinstance(value, dict):
            for name, child in self.properties.items():
                if child.has_default and (name not in value or (value[name] is None and not child.nullable)):
                    value[name] = copy.deepcopy(child.default)
                if value.get(name) is not None:
                    child.fill(value[name])
            if self.values is not None:
                for name, item in value.items():
                    if name not in self.properties:
                        self.values.fill(item)
        elif isinstance(value, list) and self.items is not None:
            for item in value:
                self.items.fill(item)

    # --- validation

    def problems(self, value: Any, path: str, old: Any = ABSENT) -> Iterator[Cause]:
        """What is wrong with a value. What was there before and did not change is let be (ratcheting)."""
        if old is not ABSENT and value == old and type(value) is type(old):
            return
        wrong = self._type_problem(value, path)
        if wrong is not None:
            yield wrong
            return
        if value is None:
            return
        if isinstance(value, list):
            yield from self._list_problems(value, path, old)
        for check in self.checks:
            yield from check(value, path)
        if isinstance(value, list):
            yield from self._duplicates(value, path)
        if isinstance(value, dict):
            yield from self._object_problems(value, path, old)

    def _type_problem(self, value: Any, path: str) -> Cause | None:
        if value is None:
            if self.nullable or (not self.type and self.open):
                return None
            return _wrong_type(path, "null", self.type, "null") if self.type else None
        if not self.type or _TYPES[self.type](value):
            return None
        wanted = "integer,string" if self.type == "int-or-string" else self.type
        return _wrong_type(path, constraints.kind_of(value), wanted, constraints.kind_of(value))

    def _object_problems(self, value: Json, path: str, old: Any) -> Iterator[Cause]:
        before = old if isinstance(old, dict) else {}
        for name, item in value.items():
            child = self.properties.get(name, self.values)
            if child is None or (self.embedded and name == "metadata"):
                continue
            at = f"{path}.{name}" if path else name
            if child is self.values and name not in self.properties:
                at = f"{path}.{name}" if path else name
            yield from child.problems(item, at, before.get(name, ABSENT) if name in before else ABSENT)

    def _list_problems(self, value: list[Any], path: str, old: Any) -> Iterator[Cause]:
        if self.items is None:
            return
        before = old if isinstance(old, list) else []
        known = {self._key(item): item for item in before} if self.list_type == "map" else {}
        for index, item in enumerate(value):
            same = (
                known.get(self._key(item), ABSENT)
                if known
                else item
                if self.list_type == "set" and item in before
                else ABSENT
            )
            yield from self.items.problems(item, f"{path}[{index}]", same)

    def _key(self, item: Any) -> str:
        if not isinstance(item, dict):
            return repr(item)
        return repr(
            [
                (
                    key,
                    item.get(
                        key, self.items.properties[key].default if self.items and key in self.items.properties else None
                    ),
                )
                for key in self.keys
            ]
        )

    def _duplicates(self, value: list[Any], path: str) -> Iterator[Cause]:
        if self.list_type not in ("set", "map"):
            return
        seen: set[str] = set()
        for index, item in enumerate(value):
            key = repr(item) if self.list_type == "set" else self._key(item)
            if key in seen:
                shown = constraints.shown(
                    item if self.list_type == "set" else {name: item.get(name) for name in self.keys if name in item}
                )
                yield Cause("FieldValueDuplicate", f"Duplicate value: {shown}", f"{path}[{index}]")
            seen.add(key)

    # --- rules

    def rule_problems(self, value: Any, path: str, old: Any = ABSENT) -> Iterator[Cause]:
        """CEL rules of this place and of everything below it."""
        if value is None:
            return
        for rule in self.rules:
            yield from rule.problems(
                value, path, None if old is ABSENT else old, ratchet=old is not ABSENT and old == value, node=self
            )
        if isinstance(value, dict):
            before = old if isinstance(old, dict) else {}
            for name, item in value.items():
                child = self.properties.get(name, self.values)
                if child is not None:
                    yield from child.rule_problems(item, f"{path}.{name}" if path else name, before.get(name, ABSENT))
        elif isinstance(value, list) and self.items is not None:
            known = {self._key(item): item for item in old} if isinstance(old, list) and self.list_type == "map" else {}
            for index, item in enumerate(value):
                yield from self.items.rule_problems(
                    item, f"{path}[{index}]", known.get(self._key(item), ABSENT) if known else ABSENT
                )

    def all_rules(self, path: str = "") -> Iterator[tuple[str, Rule]]:
        for rule in self.rules:
            yield path, rule
        for name, child in self.properties.items():
            yield from child.all_rules(f"{path}.{name}" if path else name)
        if self.items is not None:
            yield from self.items.all_rules(f"{path}[*]")
        if self.values is not None:
            yield from self.values.all_rules(f"{path}[*]")


def _is_integer(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": _is_number,
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "int-or-string": lambda value: isinstance(value, str) or _is_integer(value),
}


def _wrong_type(path: str, value: str, wanted: str, given: str) -> Cause:
    name = path or '""'
    return Cause(
        "FieldValueTypeInvalid",
        f'Invalid value: "{value}": {name} in body must be of type {wanted}: "{given}"',
        path or "<nil>",
    )
