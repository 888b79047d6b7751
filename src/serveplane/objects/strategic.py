"""Strategic merge: Kubernetes' patch that knows which lists are merged by which key.

One implementation for runtimes merged with services, for presets merged with LLM services and for the embedded API server.
The order of a merged list decides whether pods roll, so it follows Kubernetes' rule to the letter (see `in_order`).
"""

from collections.abc import Callable, Iterable
from typing import Any

from serveplane.objects import Json
from serveplane.objects.schema import Shape

DIRECTIVE, RETAIN = "$patch", "$retainKeys"
DELETE_FROM, SET_ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


class BadPatch(ValueError):
    """A strategic merge patch that cannot be carried out; the message says why."""


def strategic_merged(original: Json, patch: Json, shape: Shape) -> Json:
    """`original` changed by a strategic merge patch. Neither argument is changed."""
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {name: _plain(value) for name, value in patch.items() if value is not None and not name.startswith("$")}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise BadPatch(f"unknown patch type found in the map: {directive!r}")
    out = _retained(original, patch)
    for name, value in patch.items():
        if name.startswith(DELETE_FROM):
            _delete_members(out, name.removeprefix(DELETE_FROM), value)
        elif not name.startswith("$"):
            _merge_field(out, name, value, patch, shape.child(name))
    for name in patch:
        if name.startswith(SET_ORDER):
            _set_order(out, original, name.removeprefix(SET_ORDER), patch, shape)
    return out


def _retained(original: Json, patch: Json) -> Json:
    keep = patch.get(RETAIN)
    if keep is None:
        return dict(original)
    if not isinstance(keep, list):
        raise BadPatch(f"{RETAIN} needs a list of field names")
    return {name: value for name, value in original.items() if name in keep}


def _delete_members(out: Json, name: str, gone: Any) -> None:
    if isinstance(out.get(name), list) and isinstance(gone, list):
        out[name] = [member for member in out[name] if member not in gone]


def _merge_field(out: Json, name: str, value: Any, patch: Json, shape: Shape) -> None:
    if value is None:
        out.pop(name, None)
        return
    old = out.get(name)
    if isinstance(value, dict) and isinstance(old, dict) and "replace" not in shape.strategies:
        out[name] = strategic_merged(old, value, shape)
    elif isinstance(value, list) and isinstance(old, list) and "merge" in shape.strategies:
        out[name] = merged_list(old, value, shape)
    elif isinstance(value, dict) and value.get(DIRECTIVE) == "delete":
        out.pop(name, None)
    else:
        out[name] = _plain(value)


def _plain(value: Any) -> Any:
    """A value of the patch taken as it is: without directives, without nulls in objects, without members marked for deletion."""
    if isinstance(value, dict):
        return {name: _plain(child) for name, child in value.items() if child is not None and not name.startswith("$")}
    if isinstance(value, list):
        return [_plain(member) for member in value if not _is_directive(member)]
    return value


def _is_directive(member: Any) -> bool:
    return isinstance(member, dict) and member.get(DIRECTIVE) in ("delete", "replace")


def merged_list(original: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    """Two lists merged by the key that the type prescribes, or as sets where members are plain values."""
    if not all(isinstance(member, dict) for member in [*original, *patch]):
        if not all(map(_is_plain, [*original, *patch])):
            raise BadPatch("the list holds plain values and objects, which cannot be merged")
        return in_order(list(dict.fromkeys([*original, *patch])), patch, original, lambda member: member)
    key = shape.merge_key
    if not key:
        return [_plain(member) for member in patch]
    if any(member.get(DIRECTIVE) == "replace" for member in patch):
        return [_plain(member) for member in patch if DIRECTIVE not in member]
    deleted = {_key(member, key) for member in patch if member.get(DIRECTIVE) == "delete"}
    patch = [member for member in patch if member.get(DIRECTIVE) != "delete"]
    out = [member for member in original if member.get(key) not in deleted]
    for member in patch:
        _merge_member(out, member, key, shape)
    return in_order(out, patch, original, lambda member: member.get(key))


def _key(member: Json, key: str) -> Any:
    if key not in member:
        raise BadPatch(f"map: {member} does not contain declared merge key: {key}")
    if not _is_plain(member[key]):
        raise BadPatch(f"map: {member} has no plain value under its merge key: {key}")
    return member[key]


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _merge_member(out: list[Any], member: Json, key: str, shape: Shape) -> None:
    wanted = _key(member, key)
    for index, old in enumerate(out):
        if old.get(key) == wanted:
            out[index] = strategic_merged(old, member, shape.items)
            return
    out.append(_plain(member))


def in_order(members: list[Any], patch: Iterable[Any], original: list[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Members of the patch in the patch's order, those only the original has in its own; woven together.

    The head of the original's own members goes first only if both heads stand in the original and it stands earlier there, so
    what is new in the patch comes before the original's remaining members.

    >>> in_order(["A", "B", "X"], ["X"], ["A", "B"], lambda name: name)
    ['X', 'A', 'B']
    >>> in_order(["A", "B", "X"], ["B", "X"], ["A", "B"], lambda name: name)
    ['A', 'B', 'X']
    """
    patch_rank = {key(member): rank for rank, member in reversed(list(enumerate(patch)))}
    original_rank = {key(member): rank for rank, member in reversed(list(enumerate(original)))}
    theirs = sorted((m for m in members if key(m) in patch_rank), key=lambda m: patch_rank[key(m)])
    own = sorted((m for m in members if key(m) not in patch_rank), key=lambda m: original_rank.get(key(m), len(original)))
    out: list[Any] = []
    while own and theirs:
        first, second = original_rank.get(key(own[0])), original_rank.get(key(theirs[0]))
        earlier = first is not None and second is not None and first < second
        out.append((own if earlier else theirs).pop(0))
    return out + own + theirs


def _set_order(out: Json, original: Json, name: str, patch: Json, shape: Shape) -> None:
    """kubectl says with a patch in which order the list stands in the user's file."""
    wanted, members = patch[SET_ORDER + name], out.get(name)
    if not isinstance(members, list) or not isinstance(wanted, list):
        return
    merge_key = shape.child(name).merge_key

    def key(member: Any) -> Any:
        return member.get(merge_key) if isinstance(member, dict) else member

    if not all(_is_plain(key(member)) for member in wanted):
        raise BadPatch(f"{SET_ORDER}{name} lists more than plain values and objects with the key {merge_key}")
    out[name] = in_order(members, wanted, original.get(name) or [], key)
