"""Server-side apply as arithmetic: merge, compare, prune and the change of owners.

The API server's own rules, told as functions of values: `applied` for a PATCH with an apply configuration, `updated` for every other
write. What the HTTP layer adds (times, entries, versions) is not here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from serveplane.objects import Json
from serveplane.objects.fieldset import (
    BadList,
    Fields,
    difference,
    fields_of,
    intersection,
    is_granular,
    member_key,
    named_fields_included,
    readable,
    union,
)
from serveplane.objects.schema import Shape

Owners = Mapping[str, Fields]
"""Field sets by whatever names a manager (name, operation, version, subresource together)."""


class OwnershipConflict(Exception):
    """Somebody else owns what this configuration would change."""

    def __init__(self, conflicts: Mapping[str, Fields]) -> None:
        self.conflicts = {owner: list(_told(fields, ())) for owner, fields in conflicts.items()}
        super().__init__(f"conflicts with {self.conflicts}")


def _told(fields: Fields, path: tuple[str, ...]) -> Iterator[str]:
    """Fields in the API server's order: at each place those that end there, then what is below."""
    for key, node in sorted(fields.items()):
        if key != "." and (not node or "." in node):
            yield readable((*path, key))
    for key, node in sorted(fields.items()):
        if key != "." and node:
            yield from _told(node, (*path, key))


@dataclass(frozen=True)
class Difference:
    """Which fields came, changed and went between two versions of an object."""

    added: Fields
    modified: Fields
    removed: Fields

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


# --- merging ------------------------------------------------------------------------------------------------------------


def merged(live: Any, config: Any, shape: Shape) -> Any:
    """The live value with everything that the configuration says; what it is silent about stays."""
    if isinstance(live, dict) and isinstance(config, dict) and is_granular(shape, config):
        return live | {
            name: merged(live[name], value, shape.child(name)) if name in live else value
            for name, value in config.items()
        }
    if isinstance(live, list) and isinstance(config, list) and is_granular(shape, config):
        return _merged_list(live, config, shape)
    return config


def _merged_list(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    """Members by key. The order is the configuration's; members that only live has keep their place among the shared ones."""
    old = _by_key(live, shape, unique=False)
    new = _by_key(config, shape, unique=True)
    live_keys = [member_key(shape, member) for member in live]
    shared = iter([key for key in new if key in old])
    expected = next(shared, None)
    out: list[Any] = []
    index = 0
    for key, member in new.items():
        while index < len(live_keys) and live_keys[index] != key:
            here = live_keys[index]
            if here in new and (expected is None or here == expected):
                break
            if here not in new:
                out.append(live[index])
            index += 1
        if index < len(live_keys) and live_keys[index] == key:
            index += 1
        out.append(merged(old[key], member, shape.items) if key in old else member)
        if key == expected:
            expected = next(shared, None)
    out += [member for key, member in zip(live_keys[index:], live[index:], strict=True) if key not in new]
    return out


def _by_key(members: list[Any], shape: Shape, unique: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for member in members:
        key = member_key(shape, member)
        if key in out and unique:
            raise BadList(f"duplicate entries for key {readable((key,))}")
        out.setdefault(key, member)
    return out


# --- comparing ----------------------------------------------------------------------------------------------------------


def compared(before: Any, after: Any, shape: Shape) -> Difference:
    """What a write changed, field by field."""
    result = Difference({}, {}, {})
    _compare(before, after, shape, result.added, result.modified, result.removed)
    return result


_ABSENT = object()


def _compare(before: Any, after: Any, shape: Shape, added: Fields, modified: Fields, removed: Fields) -> None:
    """Walk both values at once; `added`, `modified` and `removed` are the nodes of this place and get what is found below it."""
    for key, old, new, inner in _pairs(before, after, shape):
        if old is new or (type(old) is type(new) and old == new):  # most of an object is not what a write is about
            continue
        if not _has_inside(old, new, inner):
            _compare_leaf(key, old, new, added, modified, removed)
            continue
        below: tuple[Fields, Fields, Fields] = ({}, {}, {})
        nothing = type(new if old is _ABSENT else old)()
        _compare(nothing if old is _ABSENT else old, nothing if new is _ABSENT else new, inner, *below)
        if old is _ABSENT:
            below[0]["."] = {}
        elif new is _ABSENT:
            below[2]["."] = {}
        for node, found in zip((added, modified, removed), below, strict=True):
            if found:
                node[key] = found if len(found) > 1 or "." not in found else {}


def _compare_leaf(key: str, old: Any, new: Any, added: Fields, modified: Fields, removed: Fields) -> None:
    if old is _ABSENT:
        added[key] = {}
    elif new is _ABSENT:
        removed[key] = {}
    elif old != new or type(old) is not type(new):
        modified[key] = {}


def _has_inside(old: Any, new: Any, shape: Shape) -> bool:
    """A place to descend into. Two empty values count as a leaf, which keeps empty and absent apart; so do two of unlike types."""
    there = [value for value in (old, new) if value is not _ABSENT]
    return (
        any(there) and len({type(value) for value in there}) == 1 and all(is_granular(shape, value) for value in there)
    )


def _pairs(before: Any, after: Any, shape: Shape) -> Iterable[tuple[str, Any, Any, Shape]]:
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*before, *(name for name in after if name not in before)]
        return [(f"f:{name}", before.get(name, _ABSENT), after.get(name, _ABSENT), shape.child(name)) for name in names]
    old, new = _groups(before, shape), _groups(after, shape)
    return [(key, old.get(key, _ABSENT), new.get(key, _ABSENT), shape.items) for key in {**old, **new}]


def _groups(members: list[Any], shape: Shape) -> dict[str, Any]:
    """Members by key; those that share a key (older objects may) are compared as one."""
    out: dict[str, Any] = {}
    twice: set[str] = set()
    for member in members:
        key = member_key(shape, member)
        if key in out:
            out[key] = [*(out[key] if key in twice else [out[key]]), member]
            twice.add(key)
        else:
            out[key] = member
    return out


# --- removing -----------------------------------------------------------------------------------------------------------


def without(value: Any, fields: Fields, shape: Shape) -> Any:
    """The value less every member of the set."""
    if isinstance(value, dict):
        kept = ((name, child, fields.get(f"f:{name}")) for name, child in value.items())
        return {
            name: child if node is None else without(child, node, shape.child(name))
            for name, child, node in kept
            if not _gone(node)
        }
    keyed = ((member, fields.get(member_key(shape, member))) for member in value)
    return [member if node is None else without(member, node, shape.items) for member, node in keyed if not _gone(node)]


def _gone(node: Fields | None) -> bool:
    return node is not None and (not node or "." in node)


# --- the two kinds of writes --------------------------------------------------------------------------------------------


def applied(
    live: Json, config: Json, owners: Owners, manager: str, shape: Shape, force: bool
) -> tuple[Json, dict[str, Fields]]:
    """The object and its owners after `manager` applied `config`. Fields it owned before and no longer names go, unless shared."""
    last = owners.get(manager, {})
    now = {**owners, manager: fields_of(config, shape)}
    result = _pruned(merged(live, config, shape), last, now, manager, shape)
    change = compared(live, result, shape)
    return result, _handed_over(now, manager, change, force)


def _pruned(whole: Json, last: Fields, owners: Owners, manager: str, shape: Shape) -> Json:
    if (
        not last or last == owners[manager] or not difference(last, owners[manager])
    ):  # it still names all it named: nothing can have to go
        return whole

    def closed(fields: Fields) -> Fields:
        return named_fields_included(fields, shape)

    last = closed(last)
    there = closed(fields_of(whole, shape))
    kept = closed(fields_of(without(whole, last, shape), shape))
    for fields in owners.values():
        kept = union(kept, closed(fields))
    candidates = difference(there, kept)
    left: Json = without(whole, intersection(candidates, last), shape)
    return left


def _handed_over(owners: Owners, manager: str, change: Difference, force: bool) -> dict[str, Fields]:
    """Who owns what after a write by `manager`: others lose what it changed and what is gone."""
    touched = union(change.modified, change.added)
    conflicts = {
        owner: both for owner, fields in owners.items() if owner != manager and (both := intersection(fields, touched))
    }
    if conflicts and not force:
        raise OwnershipConflict(conflicts)
    lost = union(touched, change.removed)
    out = {owner: fields if owner == manager else difference(fields, lost) for owner, fields in owners.items()}
    return {owner: fields for owner, fields in out.items() if fields}


def updated(live: Json, new: Json, owners: Owners, manager: str, shape: Shape) -> dict[str, Fields]:
    """Who owns what after `manager` wrote the object by any verb but apply."""
    change = compared(live, new, shape)
    mine = union(union(owners.get(manager, {}), change.modified), change.added)
    mine = difference(mine, change.removed)
    return _handed_over({**owners, manager: mine}, manager, change, force=True)
