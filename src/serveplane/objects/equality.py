"""Whether two values mean the same to the API server, however they are written."""

from typing import Any

from serveplane.objects import quantity
from serveplane.objects.schema import Shape


def same(one: Any, other: Any, shape: Shape) -> bool:
    """Equal by meaning: quantities as numbers, `80` and `"80"` where either may stand, empty as absent, and lists in order.

    >>> from serveplane.objects.schema import named_type
    >>> same({"limits": {"cpu": "1000m"}}, {"limits": {"cpu": 1}, "requests": {}}, named_type("core.v1.ResourceRequirements"))
    True
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one.get(name), other.get(name), shape.child(name)) for name in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b, shape.items) for a, b in zip(one, other, strict=True))
    return same_leaf(one, other, shape)


def same_leaf(one: Any, other: Any, shape: Shape) -> bool:
    if is_empty(one) and is_empty(other):
        return True
    if isinstance(one, bool) or isinstance(other, bool):  # True == 1 for Python, not for JSON
        return one is other
    if shape.format == "quantity" and _is_scalar(one) and _is_scalar(other):
        return quantity.equal(one, other)
    return bool(one == other)


def is_empty(value: Any) -> bool:
    """What the API server stores as nothing."""
    return value is None or value == {} or value == []


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def says_the_same(desired: Any, live: Any, shape: Shape) -> bool:
    """Whether every leaf of `desired` stands in `live` with the same meaning; `live` may say more (defaults, other owners).

    Lists by key are compared member by member and in the order in which they stand in `desired`; all others whole. What has
    one owner as a whole must not say more either, but for what the server fills in: nobody's field set tells of its inside.
    """
    if isinstance(desired, dict):
        if not isinstance(live, dict):
            return not desired and is_empty(live)
        if shape.atomic:
            return same_but_for_defaults(desired, live, shape)
        # Equal strings, which most leaves are, mean the same in any shape.
        return all((type(value) is str and value == live.get(name)) or says_the_same(value, live.get(name), shape.child(name))
                   for name, value in desired.items())
    if isinstance(desired, list) and isinstance(live, list):
        return _list_says_the_same(desired, live, shape)
    return same_leaf(desired, live, shape)


# What the server fills in inside of values with one owner, where its published schema does not say so: field and a
# neighbour that tells the type (fieldRef, resourceFieldRef, a projected token, a claim template).
_FILLED_IN = {
    ("apiVersion", "fieldPath"): "v1",
    ("divisor", "resource"): "0",
    ("expirationSeconds", "audience"): 3600,
    ("volumeMode", "accessModes"): "Filesystem",
}


def same_but_for_defaults(desired: Any, live: Any, shape: Shape) -> bool:
    """Equal by meaning, except that live may also have what the server fills in.

    >>> from serveplane.objects.schema import named_type
    >>> field = named_type("core.v1.ObjectFieldSelector")
    >>> same_but_for_defaults({"fieldPath": "metadata.name"}, {"apiVersion": "v1", "fieldPath": "metadata.name"}, field)
    True
    """
    if isinstance(desired, dict) and isinstance(live, dict):
        said = all(same_but_for_defaults(value, live.get(name), shape.child(name)) for name, value in desired.items())
        return said and all(_is_filled_in(name, value, shape) for name, value in live.items() if name not in desired)
    if isinstance(desired, list) and isinstance(live, list):
        return len(desired) == len(live) and all(same_but_for_defaults(a, b, shape.items) for a, b in zip(desired, live, strict=True))
    return same_leaf(desired, live, shape)


def _is_filled_in(name: str, value: Any, shape: Shape) -> bool:
    if is_empty(value):
        return True
    inner = shape.child(name)
    if inner.default is not None and same(value, inner.default, inner):
        return True
    known = (default for (field, neighbour), default in _FILLED_IN.items() if field == name and shape.knows(neighbour))
    return any(same(value, default, inner) for default in known)


def _list_says_the_same(desired: list[Any], live: list[Any], shape: Shape) -> bool:
    if shape.list_kind == "atomic":
        return same_but_for_defaults(desired, live, shape)
    if shape.list_kind == "set":
        return [member for member in live if member in desired] == desired
    ours = [_identity(member, shape) for member in desired]
    theirs = {_identity(member, shape): member for member in live}
    in_same_order = [key for key in theirs if key in set(ours)] == ours
    return in_same_order and all(says_the_same(member, theirs[key], shape.items) for key, member in zip(ours, desired, strict=True))


def _identity(member: Any, shape: Shape) -> tuple[Any, ...]:
    return tuple(member.get(key, shape.key_default(key)) for key in shape.keys)
