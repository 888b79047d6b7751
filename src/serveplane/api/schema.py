"""Structural schemas from the typed models.

A schema comes in two sizes. *Full* spells out every pod field from Kubernetes' own table, so that the API server
prunes, checks and merges them. *Minimal* leaves pod parts open, which keeps a CRD small enough for client-side apply;
admission then checks those parts against the full schema.

Schemas are built once and share their parts: nobody may change one.
"""

import functools
import types
import typing
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from serveplane.api.model import Described, Inline, Model, Open, Part, Rules, Schemaless, marker, plain
from serveplane.api.parts import part_type
from serveplane.objects import Json

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
QUANTITY = INT_OR_STRING | {"format": "quantity"}
"""A quantity for our own checks; what is published says int-or-string, since API servers do not know the format."""
OBJECT_META: Json = {
    "type": "object",
    "properties": {
        name: {"type": "object", "additionalProperties": {"type": "string"}} for name in ("annotations", "labels")
    },
}
"""What may be said about an object that is yet to be made, such as the claim of an ephemeral volume."""
SCHEMALESS = "x-serveplane-schemaless"
SCALARS = {str: "string", int: "integer", bool: "boolean", float: "number"}
OURS_ONLY = ("optional",)
"""Rules that say something to this module and nothing to the API server."""
COPIED = ("type", "format", "pattern", "enum", "default", "minimum", "maximum", "minLength", "maxLength", "minItems",
          "maxItems", "minProperties", "maxProperties", "x-kubernetes-validations")  # fmt: skip
MARKED = ("list-type", "list-map-keys", "map-type", "preserve-unknown-fields")


@functools.cache
def schema_of(model: type[Model], full: bool = True) -> Json:
    """The schema of a model's object."""
    hints = typing.get_type_hints(model, include_extras=True)
    properties: Json = {}
    required: list[str] = []
    inline: Inline | None = None
    for field in msgspec.structs.fields(model):
        hint = hints[field.name]
        inline = marker(hint, Inline) or inline
        if marker(hint, Inline):
            continue
        properties[field.encode_name] = value_schema(hint, full)
        if field.required and not _rules(hint).get("optional"):
            required.append(field.encode_name)
    schema: Json = {"type": "object"}
    if inline is not None and full:
        part = _inlined(inline)
        properties = part["properties"] | properties
        required += part.get("required", [])
    elif inline is not None:
        schema |= OPEN
    if properties:
        schema["properties"] = dict(sorted(properties.items()))
    return schema | ({"required": sorted(required)} if required else {}) | dict(model.__dict__.get("RULES", {}))


def value_schema(hint: Any, full: bool) -> Json:
    """The schema of one field: its type, then the rules written beside it."""
    part = marker(hint, Part)
    extra = {key: value for key, value in _rules(hint).items() if key not in OURS_ONLY}
    described = marker(hint, Described)
    if described is not None:
        return schema_of(described.model, full) | extra
    if part is not None:
        return (part_schema(part) if full else _opened(part)) | extra
    if marker(hint, Schemaless):
        return _type_schema(plain(hint), full) | extra | {SCHEMALESS: True}
    return _type_schema(plain(hint), full) | extra


def _opened(part: Part) -> Json:
    kind = part_type(part.name).get("type", "object")
    return OPEN if kind == "object" else {"type": kind, "items": OPEN}


def _type_schema(kind: Any, full: bool) -> Json:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in SCALARS:
        return {"type": SCALARS[kind]}
    if isinstance(kind, type) and issubclass(kind, Model):
        return schema_of(kind, full)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": value_schema(arguments[0], full)}
    if origin is dict and arguments[1] is Any:
        return {"type": "object"}
    if origin is dict:
        return {"type": "object", "additionalProperties": value_schema(arguments[1], full)}
    if isinstance(kind, types.UnionType):
        return INT_OR_STRING
    raise TypeError(f"no schema for {kind!r}")


def _rules(hint: Any) -> Json:
    """All keywords beside a type, also through `X | None` and through aliases that carry some of their own."""
    found: Json = {}
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        for inner in typing.get_args(hint):
            found |= _rules(inner)
    elif typing.get_origin(hint) is typing.Annotated:
        found |= _rules(typing.get_args(hint)[0])
        for extra in hint.__metadata__:
            found |= extra.keywords if isinstance(extra, Rules) else OPEN if isinstance(extra, Open) else {}
    return found


def _inlined(inline: Inline) -> Json:
    whole = part_schema(Part(inline.name))
    chosen = inline.only or tuple(whole["properties"])
    properties = {name: whole["properties"][name] for name in chosen if name not in inline.without}
    required = [name for name in whole.get("required", []) if name in properties and name not in inline.optional]
    return {"properties": properties, "required": required}


@functools.cache
def part_schema(part: Part) -> Json:
    """A type that is not ours, with every reference in it written out."""
    schema = _expanded(part_type(part.name))
    required = [name for name in schema.get("required", []) if name not in part.optional]
    rest = {key: value for key, value in schema.items() if key != "required"}
    return rest | ({"required": required} if required else {})


@functools.cache
def _named(name: str) -> Json:
    return _expanded(part_type(name))


def _expanded(node: Json) -> Json:
    """One node of the compact table as the API server wants it."""
    if node.get("ref") == "meta.v1.ObjectMeta":
        return OBJECT_META
    if "ref" in node:
        target = _named(node["ref"])
        beside = _keywords(node)
        return target | beside if beside else target
    if node.get("format") in ("quantity", "int-or-string"):
        kind = QUANTITY if node["format"] == "quantity" else INT_OR_STRING
        return kind | _keywords(node, without=("type", "format"))
    schema = _keywords(node)
    if "properties" in node:
        schema["properties"] = {name: _expanded(child) for name, child in sorted(node["properties"].items())}
    if "items" in node:
        schema["items"] = _keyed(_expanded(node["items"]), node.get("list-map-keys", ()))
    if "values" in node:
        schema["additionalProperties"] = _expanded(node["values"])
    if node.get("required"):
        schema["required"] = sorted(node["required"])
    return schema


def _keywords(node: Json, without: Iterable[str] = ()) -> Json:
    """Kubernetes' own enums are left out: a newer cluster may know a value more."""
    copied = {key: node[key] for key in COPIED if key in node and key not in without}
    return copied | {f"x-kubernetes-{key}": node[key] for key in MARKED if key in node}


def _keyed(item: Json, keys: Iterable[str]) -> Json:
    """A key of a list by key must be required or have a default; Kubernetes leaves that out where the zero value will do.
    """
    missing = [key for key in keys if key not in item.get("required", ()) and "default" not in item["properties"][key]]
    if not missing:
        return item
    defaults = {key: item["properties"][key] | {"default": ""} for key in missing}
    return item | {"properties": item["properties"] | defaults}


UNSAID = (
    ("format", "quantity"),
    ("format", "int32"),
    ("format", "int64"),
    ("x-kubernetes-list-type", "atomic"),
)
"""What an API server ignores or assumes anyway; said thousands of times it is a tenth of all definitions."""


MERGE_MARKS = ("x-kubernetes-map-type", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")


def published(schema: Json) -> Json:
    """A schema as an API server takes it. Parts that are shared stay shared, so this is quick."""
    return _published(schema, False, {})


def _published(schema: Json, owned: bool, done: dict[tuple[int, bool], Json]) -> Json:
    """`owned`: something around it has one owner as a whole, so how its parts merge means nothing."""
    if (id(schema), owned) in done:
        return done[id(schema), owned]
    if SCHEMALESS in schema:
        return {"x-kubernetes-preserve-unknown-fields": True}
    result = {key: value for key, value in schema.items() if (key, value) not in UNSAID}
    if owned or len(schema.get("properties", ())) == 1:
        result = {key: value for key, value in result.items() if key not in MERGE_MARKS}
    within = owned or _has_one_owner(schema)
    if "properties" in schema:
        result["properties"] = {name: _published(child, within, done) for name, child in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = _published(schema[key], within, done)
    done[id(schema), owned] = result
    return result


def _has_one_owner(schema: Json) -> bool:
    merges = schema.get("x-kubernetes-list-type") in ("map", "set")
    return schema.get("x-kubernetes-map-type") == "atomic" or (schema.get("type") == "array" and not merges)


HINDRANCES = ("pattern", "x-kubernetes-validations", "minLength", "minItems", "minProperties")


def relaxed(schema: Json) -> Json:
    """A schema that also takes template expressions in place of values. Parts that are shared stay shared."""
    return _relaxed(schema, {})


def _relaxed(schema: Json, done: dict[int, Json]) -> Json:
    if id(schema) in done:
        return done[id(schema)]
    result = {key: value for key, value in schema.items() if key not in HINDRANCES}
    if "properties" in schema:
        result["properties"] = {name: _relaxed(child, done) for name, child in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = _relaxed(schema[key], done)
    done[id(schema)] = result
    return result
