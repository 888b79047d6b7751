"""Lists by key in which a key stands twice: server-side apply refuses them, so the last one wins before they are sent.

Pod specs get merged from runtimes, services and webhooks, and two of them naming the same env var, port, mount or
volume is
common. An ordinary create accepts that and the kubelet takes the last; the same is made explicit here, with a warning
each.
"""

from collections.abc import Callable
from typing import Any

from serveplane.objects import Json
from serveplane.objects.fieldset import BadList, member_key, readable
from serveplane.objects.schema import Shape

Warn = Callable[[str], None]


def without_duplicates(obj: Json, shape: Shape, warn: Warn) -> Json:
    """The object with each key once, in the place of its first and with the content of its last mention. Shares
    what is unchanged.
    """
    result: Json = _walk(obj, shape, (), warn)
    return result


def _walk(value: Any, shape: Shape, at: tuple[str, ...], warn: Warn) -> Any:
    if isinstance(value, dict):
        return {name: _walk(child, shape.child(name), (*at, f"f:{name}"), warn) for name, child in value.items()}
    if isinstance(value, list):
        members = _unique(value, shape, at, warn) if shape.list_kind != "atomic" else value
        return [_walk(member, shape.items, at, warn) for member in members]
    return value


def _unique(members: list[Any], shape: Shape, at: tuple[str, ...], warn: Warn) -> list[Any]:
    by_key: dict[str, Any] = {}
    for member in members:
        try:
            key = member_key(shape, member)
        except BadList:
            return members  # the server will say which key is missing
        if key in by_key and by_key[key] != member:
            warn(f"{readable((*at, key))} is given twice; the last one is used")
        by_key[key] = member
    return list(by_key.values()) if len(by_key) < len(members) else members
