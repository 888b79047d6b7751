"""Whether a value has the structure that a schema asks for.

The API server does the same for stored objects, but mutating webhooks see objects before it does, and minimal
definitions leave pod parts to us. After this check the rest of admission may rely on types.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from serveplane.api.problem import FieldError, FieldPath
from serveplane.objects import Json
from serveplane.objects.quantity import is_quantity

Steps = tuple[str | int, ...]
NAMES = {"object": "an object", "array": "a list", "string": "a string", "integer": "a whole number",
         "number": "a number", "boolean": "true or false"}  # fmt: skip
PYTHON: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
}  # fmt: skip
MISSING = "is required"
DEEPEST = 64
LIMITS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def is_too_deep(value: Any, deepest: int = 2 * DEEPEST) -> bool:
    """Whether lists and objects stand in each other so deeply that no honest object needs it. Takes no stack of its own.
    """
    level, depth = [value], 0
    while level and depth <= deepest:
        parts = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [inner for part in parts for inner in part if isinstance(inner, dict | list)]
        depth += 1
    return bool(level)


def structure_problems(value: Any, schema: Json) -> list[FieldError]:
    """Every place where the value is not what the schema says; null counts as absent."""
    return [FieldError(_path(steps), message) for steps, message in _walk(value, schema, ())]


def unknown_fields(value: Any, schema: Json) -> list[FieldPath]:
    """Fields that the schema does not know: misspelt, or of another version."""
    return [_path(steps) for steps in _unknown(value, schema, ())]


def _path(steps: Steps) -> FieldPath:
    path = FieldPath("")
    for step in steps:
        path = path / step
    return path


def _walk(value: Any, schema: Json, at: Steps) -> Iterator[tuple[Steps, str]]:
    kind = schema.get("type")
    if kind is None:
        yield from _int_or_string(value, schema, at)
        return
    if not isinstance(value, PYTHON[kind]) or (kind in ("integer", "number") and isinstance(value, bool)):
        if not (kind == "integer" and isinstance(value, float) and value.is_integer()):
            yield at, f"must be {NAMES[kind]}, not {_told(value)}"
        return
    yield from CHECKS[kind](value, schema, at)


def _object(value: Json, schema: Json, at: Steps) -> Iterator[tuple[Steps, str]]:
    if len(at) > DEEPEST:
        yield at, "is nested too deeply"
        return
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if value.get(name) is None and "default" not in properties.get(name, {}):
            yield (*at, name), MISSING
    for name, item in value.items():
        child = properties.get(name, rest)
        if child is not None and item is not None:
            yield from _walk(item, child, (*at, name))


def _array(value: list[Any], schema: Json, at: Steps) -> Iterator[tuple[Steps, str]]:
    if len(value) < schema.get("minItems", 0):
        yield at, "must not be empty"
    for index, item in enumerate(value):
        yield from _walk(item, schema["items"], (*at, index))


def _string(value: str, schema: Json, at: Steps) -> Iterator[tuple[Steps, str]]:
    if "enum" in schema and value not in schema["enum"]:
        yield at, f"must be one of {', '.join(map(repr, schema['enum']))}, not {value!r}"
    if len(value) < schema.get("minLength", 0):
        yield at, "must not be empty"
    if len(value) > schema.get("maxLength", len(value)):
        yield at, f"must not be longer than {schema['maxLength']} characters"
    if "pattern" in schema and not _expression(schema["pattern"]).search(value):
        yield at, f"must match {schema['pattern']}, {value!r} does not"


def _number(value: float, schema: Json, at: Steps) -> Iterator[tuple[Steps, str]]:
    low, high = LIMITS.get(schema.get("format", ""), LIMITS["int64"])
    low, high = schema.get("minimum", low), schema.get("maximum", high)
    if not isinstance(value, bool) and not low <= value <= high:
        yield at, f"must be between {low} and {high}, not {value}"


def _int_or_string(value: Any, schema: Json, at: Steps) -> Iterator[tuple[Steps, str]]:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if schema.get("format") == "quantity":
        if isinstance(value, bool) or not isinstance(value, int | float | str) or not is_quantity(value):
            yield at, f"must be a quantity such as 100m, 2 or 1Gi, not {_told(value)}"
    elif isinstance(value, bool) or not isinstance(value, int | str):
        yield at, f"must be a whole number or a string, not {_told(value)}"


Check = Callable[[Any, Json, Steps], Iterator[tuple[Steps, str]]]
CHECKS: dict[str, Check] = {
    "object": _object, "array": _array, "string": _string, "integer": _number, "number": _number,
    "boolean": lambda value, schema, at: iter(()),
}  # fmt: skip


def _unknown(value: Any, schema: Json, at: Steps) -> Iterator[Steps]:
    if isinstance(value, dict) and len(at) <= DEEPEST:
        properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
        closed = bool(properties) and not schema.get("x-kubernetes-preserve-unknown-fields")
        for name, item in value.items():
            child = properties.get(name, rest)
            if child is not None:
                yield from _unknown(item, child, (*at, name))
            elif closed:
                yield (*at, name)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _unknown(item, schema["items"], (*at, index))


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _told(value: Any) -> str:
    """A value in few words: an error text is read by people."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
