"""Sets of fields as `managedFields` has them, and the few operations on them.

A set is kept in the form in which the API writes it (FieldsV1), a tree of path elements:

    {"f:spec": {"f:replicas": {}, "f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}}}}}

`f:` is a field, `k:` a list member by its keys, `v:` one by its value, `i:` one by its index. A node without children is a member;
one with children is a member only if it has `.`. No function here changes its arguments.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from serveplane.objects import Json
from serveplane.objects.schema import Shape

Fields = dict[str, Any]
Path = tuple[str, ...]
UNTRACKED = ("name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "resourceVersion", "managedFields")
"""Fields of `metadata` that nobody owns."""
_SELF = "."
_NESTED = (dict, list)
_encode = msgspec.json.Encoder(order="sorted").encode


class BadList(ValueError):
    """A list whose members cannot be told apart by the keys that its type prescribes."""


def member_key(shape: Shape, member: Any) -> str:
    """The path element of one member of a set or of a list by key."""
    if shape.list_kind == "set":
        return "v:" + _encode(member).decode()
    keys: Json = {}
    for key in shape.keys:
        value = member.get(key) if isinstance(member, dict) else None
        value = shape.key_default(key) if value is None else value
        if value is not None:
            keys[key] = value
        elif key not in shape.items.source.get("properties", {}) or key in shape.items.required or len(shape.keys) == 1:
            raise BadList(f"associative list with keys has an element that omits key field {key!r} (and doesn't have default value)")
    return "k:" + _encode(keys).decode()


def is_granular(shape: Shape, value: Any) -> bool:
    """Whether the inside of a value has owners of its own."""
    if isinstance(value, dict):
        return not shape.atomic and shape.container in ("object", "any")
    return isinstance(value, list) and shape.container == "list" and shape.list_kind != "atomic"


def fields_of(value: Any, shape: Shape) -> Fields:
    """Every field that a value says something about: what its applier owns."""
    if isinstance(value, dict):
        return {f"f:{name}": _field(child, shape.child(name), named=_is_named(shape, name)) if isinstance(child, _NESTED) else {}
                for name, child in value.items() if child != [] or not _says_nothing(child, shape.child(name))}  # fmt: skip
    members = [(member_key(shape, member), member) for member in value]
    counts: dict[str, int] = {}
    for key, _ in members:
        counts[key] = counts.get(key, 0) + 1
    return {key: {} if counts[key] > 1 else _field(member, shape.items, named=False) for key, member in members}


def _is_named(shape: Shape, name: str) -> bool:
    return name in shape.source.get("properties", ())


def _says_nothing(value: Any, shape: Shape) -> bool:
    """An empty list by key or set has no members, and nothing else that could be owned."""
    return isinstance(value, list) and not value and is_granular(shape, value)


def _field(value: Any, shape: Shape, named: bool) -> Fields:
    """One node: a named field is only the way to its inside, a map's entry or a list's member also belongs to somebody itself."""
    if not is_granular(shape, value) or not value:
        return {}
    inside = fields_of(value, shape)
    return inside if named or not inside else {_SELF: {}, **inside}


def _member(node: Fields) -> bool:
    return not node or _SELF in node


def _node(member: bool, children: Fields) -> Fields | None:
    """A node in its one canonical form; None if there is nothing in it."""
    if not children:
        return {} if member else None
    return {_SELF: {}, **children} if member else children


def _children(node: Fields) -> Fields:
    return {key: child for key, child in node.items() if key != _SELF} if _SELF in node else node


def union(one: Fields, other: Fields) -> Fields:
    if not one or not other:
        return one or other
    out = dict(_children(one))
    for key, node in _children(other).items():
        mine = out.get(key)
        out[key] = node if mine is None else _united(mine, node)
    return {_SELF: {}, **out} if _SELF in one or _SELF in other else out


def _united(one: Fields, other: Fields) -> Fields:
    children = union(_children(one), _children(other))
    return _node(_member(one) or _member(other), children) or {}


def difference(one: Fields, other: Fields) -> Fields:
    """What is in the first and not in the second, member by member."""
    out: Fields = {}
    for key, node in _children(one).items():
        theirs = other.get(key)
        left = node if theirs is None else _node(_member(node) and not _member(theirs), difference(_children(node), _children(theirs)))
        if left is not None:
            out[key] = left
    return out


def intersection(one: Fields, other: Fields) -> Fields:
    out: Fields = {}
    for key, node in _children(one).items():
        theirs = other.get(key)
        if theirs is None:
            continue
        both = _node(_member(node) and _member(theirs), intersection(_children(node), _children(theirs)))
        if both is not None:
            out[key] = both
    return out


def paths(fields: Fields, at: Path = ()) -> Iterator[Path]:
    """Every member, as a path of elements."""
    for key, node in fields.items():
        if key == _SELF:
            continue
        if _member(node):
            yield (*at, key)
        yield from paths(node, (*at, key))


def readable(path: Path) -> str:
    """A path as the API tells it in conflicts.

    >>> readable(("f:spec", "f:containers", 'k:{"name":"a"}', "f:image"))
    '.spec.containers[name="a"].image'
    """
    return "".join(_told(key) for key in path)


def _told(key: str) -> str:
    kind, _, rest = key.partition(":")
    if kind == "f":
        return "." + rest
    if kind == "k":
        pairs = msgspec.json.decode(rest)
        return "[" + ",".join(f"{name}={_encode(value).decode()}" for name, value in pairs.items()) + "]"
    return f"[={rest}]" if kind == "v" else f"[{rest}]"


def named_fields_included(fields: Fields, shape: Shape) -> Fields:
    """The same set with every field that a type names on the way also a member of it."""
    out: Fields = {}
    for key, node in _children(fields).items():
        inner = shape.child(key[2:]) if key.startswith("f:") else shape.items
        children = named_fields_included(node, inner)
        named = key.startswith("f:") and _is_named(shape, key[2:])
        out[key] = _node(_member(node) or named, children) or {}
    return out
