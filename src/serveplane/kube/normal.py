"""An object in the form in which server-side apply does with it what a plain create would.

*Duplicates.* Pod specs get merged from runtimes, services and webhooks, and two of them naming the same env var, port, mount
or volume is common. A create accepts that and the kubelet takes the last one; apply answers 500. So the last one wins here,
with a warning each.

*Twins.* `serviceAccount` is the old name of `serviceAccountName`, and the server keeps both alike. If only one is applied, it
can never be removed again: it comes back from its twin. So both are applied.
"""

from collections.abc import Callable
from typing import Any

from serveplane.objects import Json
from serveplane.objects.fieldset import BadList, member_key, readable
from serveplane.objects.schema import Shape

Warn = Callable[[str], None]
TWINS = (("serviceAccountName", "serviceAccount"),)
_NESTED = (dict, list)


def applicable(obj: Json, shape: Shape, warn: Warn) -> Json:
    """The object with each key once (in the place of its first and with the content of its last mention) and twins complete."""
    result: Json = _walk(obj, shape, (), warn)
    return result


def _walk(value: Any, shape: Shape, at: tuple[str, ...], warn: Warn) -> Any:
    if isinstance(value, dict):
        walked = {
            name: _walk(child, shape.child(name), (*at, f"f:{name}"), warn) if isinstance(child, _NESTED) else child
            for name, child in value.items()
        }
        return _with_twins(walked, shape)
    if isinstance(value, list):
        members = _unique(value, shape, at, warn) if shape.list_kind != "atomic" else value
        return [_walk(member, shape.items, (*at, _step(member, shape, n)), warn) for n, member in enumerate(members)]
    return value


def _step(member: Any, shape: Shape, index: int) -> str:
    """The path element of a list's member, for messages."""
    try:
        return member_key(shape, member) if shape.list_kind != "atomic" else f"i:{index}"
    except BadList:
        return f"i:{index}"


def _with_twins(value: Json, shape: Shape) -> Json:
    for name, twin in TWINS:
        if name in value and twin not in value and twin in shape.fields and name in shape.fields:
            value[twin] = value[name]
    return value


def _unique(members: list[Any], shape: Shape, at: tuple[str, ...], warn: Warn) -> list[Any]:
    by_key: dict[str, Any] = {}
    nameless = shape.keys and not any(isinstance(member, dict) and shape.keys[0] in member for member in members)
    if nameless:
        return members  # the server will say what is missing
    for member in members:
        try:
            key = member_key(shape, member)
        except BadList:
            return members  # the server will say which key is missing
        if key in by_key and by_key[key] != member:
            warn(f"{readable((*at, key))} is given twice; the last one is used")
        by_key[key] = member
    return list(by_key.values()) if len(by_key) < len(members) else members
