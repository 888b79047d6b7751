"""managedFields: who owns which field, kept as the real server keeps it.

The arithmetic is in `objects.serverside`; here are the entries around it: names, times, order, and the cap on entries of plain updates.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from serveplane.embedded.apiserver import errors
from serveplane.objects import Json, fieldset, serverside
from serveplane.objects.fieldset import UNTRACKED, Fields
from serveplane.objects.schema import Shape

MOST_UPDATERS = 10
_IDENTITY = ("manager", "operation", "apiVersion", "subresource")
_encode = msgspec.json.Encoder(order="sorted").encode


def _owner(entry: Mapping[str, Any]) -> str:
    """Who an entry is. An applier is the same whatever version of the API it uses, an updater is not."""
    applies = entry["operation"] == "Apply"
    named = {key: entry[key] for key in _IDENTITY if entry.get(key) and not (applies and key == "apiVersion")}
    return _encode(named).decode()


def _owners(entries: list[Json]) -> dict[str, Fields]:
    found: dict[str, Fields] = {}
    for entry in entries:
        name = _owner(entry)
        fields = entry.get("fieldsV1") or {}
        found[name] = fieldset.union(found[name], fields) if name in found else fields
    return found


def bare(value: Json, reset: frozenset[str] = frozenset()) -> Json:
    """The object without what nobody can own, and without what the endpoint does not write."""
    out = {key: item for key, item in value.items() if key not in ("apiVersion", "kind") and key not in reset}
    metadata = value.get("metadata")
    if metadata is not None:
        kept = {key: item for key, item in metadata.items() if key not in UNTRACKED}
        if kept:
            out["metadata"] = kept
        else:
            out.pop("metadata", None)
    return out


def _stripped(fields: Fields) -> Fields:
    """`metadata` itself belongs to nobody either, only what is in it."""
    metadata = fields.get("f:metadata")
    if metadata is None:
        return fields
    kept = {key: node for key, node in metadata.items() if key != "."}
    return (
        {**fields, "f:metadata": kept} if kept else {key: node for key, node in fields.items() if key != "f:metadata"}
    )


class Writer:
    """One writer of one request: its name in managedFields, its time and the fields it can reach at all."""

    def __init__(self, manager: str, operation: str, api_version: str, subresource: str, now: str | None) -> None:
        self.entry: Json = {
            "manager": manager,
            "operation": operation,
            "apiVersion": api_version,
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": {},
        }
        if subresource:
            self.entry["subresource"] = subresource
        self.owner = _owner(self.entry)
        self.moment = now


def after_update(
    live: Json, new: Json, writer: Writer, shape: Shape, reset: frozenset[str] = frozenset(), empty: Json | None = None
) -> list[Json]:
    """The entries after any write but apply. `live` is empty for a create, then `empty` is what an empty object looks like."""
    given = new["metadata"].get("managedFields")
    if given in ([], [{}]):  # how a client gives up all record of owners
        return []
    entries = _entries_to_start_from(live, given)
    owners = _owners(entries)
    before, wanted = bare(live if live else empty or {}, reset), bare(new, reset)
    if not live:  # a list that nobody set is written as null, and is nobody's
        wanted = {key: item for key, item in wanted.items() if item is not None or before.get(key) != []}
        before = {key: item for key, item in before.items() if key in wanted}
    try:
        after = serverside.updated(before, wanted, owners, writer.owner, shape)
    except (
        fieldset.BadList
    ):  # an object that breaks its own list types is stored, as the real server does, without a change of owners
        return entries
    return _written(entries, owners, {name: _stripped(fields) for name, fields in after.items()}, writer)


def _entries_to_start_from(live: Json, given: list[Json] | None) -> list[Json]:
    """A client may hand back entries it edited; an object without any never had owners."""
    if given is not None and live:
        return given
    entries: list[Json] = (live.get("metadata") or {}).get("managedFields") or []
    return entries


def after_apply(
    live: Json, config: Json, writer: Writer, shape: Shape, force: bool, empty: Json | None = None
) -> tuple[Json, list[Json]]:
    """The merged object and its entries; a conflict becomes the real server's 409."""
    entries: list[Json] = (live.get("metadata") or {}).get("managedFields") or []
    owners = _owners(entries)
    if live and not entries:  # written before anybody kept record: all of it belongs to an unnamed update
        owners = _before_first_apply(live, writer, shape, empty or {})
    try:
        merged, after = serverside.applied(bare(live), bare(config), owners, writer.owner, shape, force)
    except serverside.OwnershipConflict as conflict:
        raise _conflict(conflict) from None
    except fieldset.BadList as error:
        raise errors.Refusal(500, "InternalError", f"failed to create typed patch object: {error}") from None
    if live and merged == bare(live):  # nothing changed but who says so: the real server keeps no time for that
        writer.entry["time"] = next((entry.get("time") for entry in entries if _owner(entry) == writer.owner), None)
    entries = _written(entries, owners, {name: _stripped(fields) for name, fields in after.items()}, writer)
    return _with_server_fields(merged, live), entries


def _with_server_fields(merged: Json, live: Json) -> Json:
    """What nobody can own stays as it is, whatever an applier gave up around it."""
    kept = {key: item for key, item in (live.get("metadata") or {}).items() if key in UNTRACKED}
    types: Json = {key: item for key, item in live.items() if key in ("apiVersion", "kind")}
    return {**types, **merged, "metadata": {**kept, **(merged.get("metadata") or {})}}


def check_typed(config: Json, shape: Shape, what: str) -> None:
    """What does not fit the schema cannot be applied at all: unknown fields, wrong types, list members of one key. The real server
    finds that before anything else, and answers 500.
    """
    found = list(_untyped(config, shape, ()))
    if found:
        told = found[0] if len(found) == 1 else "errors:\n" + "\n".join(f"  {line}" for line in found)
        raise errors.Refusal(500, "", f"failed to create typed patch object ({what}): {told}")


def _untyped(value: Any, shape: Shape, path: fieldset.Path) -> Iterator[str]:
    if value is None or shape.container == "any":
        return
    if shape.container == "object":
        yield from _untyped_object(value, shape, path)
    elif shape.container == "list":
        yield from _untyped_list(value, shape, path)
    elif wrong := _wrong_scalar(value, shape):
        yield f"{fieldset.readable(path)}: {wrong}"


def _untyped_object(value: Any, shape: Shape, path: fieldset.Path) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{fieldset.readable(path)}: expected map, got &{{{_go_text(value)}}}"
        return
    for name, item in sorted(value.items()):
        inner = (*path, f"f:{name}")
        if not shape.knows(name) and not shape.open:
            yield f"{fieldset.readable(inner)}: field not declared in schema"
        else:
            yield from _untyped(item, shape.child(name), inner)


def _untyped_list(value: Any, shape: Shape, path: fieldset.Path) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{fieldset.readable(path)}: expected list, got &{{{_go_text(value)}}}"
        return
    seen: set[str] = set()
    for index, member in enumerate(value):
        key = f"i:{index}"
        if shape.list_kind != "atomic":
            try:
                key = fieldset.member_key(shape, member)
            except fieldset.BadList as error:
                yield f"{fieldset.readable(path)}: element {index}: {error}"
                continue
            if key in seen:
                yield f"{fieldset.readable(path)}: duplicate entries for key {fieldset.readable((key,))}"
            seen.add(key)
        yield from _untyped(member, shape.items, (*path, key))


def _wrong_scalar(value: Any, shape: Shape) -> str:
    if shape.format == "int-or-string" or shape.format == "quantity":
        return f"expected any scalar, got &{{{_go_text(value)}}}" if isinstance(value, dict | list) else ""
    if shape.scalar in ("integer", "number") and (not isinstance(value, int | float) or isinstance(value, bool)):
        return f"expected numeric (int or float), got {_go_kind(value)}"
    if shape.scalar == "string" and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{_go_literal(value)}}}"
    if shape.scalar == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got &value.valueUnstructured{{Value:{_go_literal(value)}}}"
    return ""


def _go_text(value: Any) -> str:
    """As Go prints a value.

    >>> _go_text({"b": [1, "x"], "a": None})
    'map[a:<nil> b:[1 x]]'
    """
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_go_text(item)}' for key, item in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_text, value))}]"
    return {None: "<nil>", True: "true", False: "false"}.get(value, str(value)) if value is None or isinstance(value, bool) else str(value)


def _go_literal(value: Any) -> str:
    """As Go would write a value in a program."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_quoted(key)}:{_go_literal(item)}" for key, item in sorted(value.items()))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_literal, value))}}}"
    return _quoted(value) if isinstance(value, str) else "interface {}(nil)" if value is None else _go_text(value)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _go_kind(value: Any) -> str:
    return (
        "string"
        if isinstance(value, str)
        else "boolean"
        if isinstance(value, bool)
        else "list"
        if isinstance(value, list)
        else "map"
    )


def _before_first_apply(live: Json, writer: Writer, shape: Shape, empty: Json) -> dict[str, Fields]:
    entry = {"manager": "before-first-apply", "operation": "Update", "apiVersion": writer.entry["apiVersion"]}
    there = {key: item for key, item in bare(live).items() if item is not None or empty.get(key) != []}
    owned = serverside.updated({key: item for key, item in bare(empty).items() if key in there}, there, {}, _owner(entry), shape)
    return {name: _stripped(fields) for name, fields in owned.items()}


def _written(
    entries: list[Json], before: Mapping[str, Fields], after: Mapping[str, Fields], writer: Writer
) -> list[Json]:
    known = {_owner(entry): entry for entry in entries}
    out = []
    for owner, fields in after.items():
        if not fields:
            continue
        fresh = owner == writer.owner and before.get(owner) != fields
        start = writer.entry if owner == writer.owner else known.get(owner) or _identity(owner, writer)
        time = (
            writer.entry["time"]
            if fresh or (owner == writer.owner and owner not in known)
            else known[owner].get("time")
            if owner in known
            else writer.moment
        )
        out.append({**start, "fieldsV1": fields, "time": time})
    return _capped(sorted(map(_ordered, out), key=_order))


def _identity(owner: str, writer: Writer) -> Json:
    return {"apiVersion": writer.entry["apiVersion"], **msgspec.json.decode(owner), "fieldsType": "FieldsV1"}


def _ordered(entry: Json) -> Json:
    names = ("manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource")
    return {name: entry[name] for name in names if entry.get(name) is not None}


def _order(entry: Json) -> tuple[str, ...]:
    return (
        entry["operation"],
        entry.get("time") or "",
        entry["manager"],
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def _capped(entries: list[Json]) -> list[Json]:
    """Too many updaters: the oldest become one entry."""
    updates = [entry for entry in entries if entry["operation"] == "Update"]
    surplus = len(updates) - MOST_UPDATERS
    if surplus <= 0:
        return entries
    by_version: dict[str, Json] = {}
    for entry in updates[: surplus + 1]:
        known = by_version.get(entry["apiVersion"])
        fields = entry["fieldsV1"] if known is None else fieldset.union(known["fieldsV1"], entry["fieldsV1"])
        by_version[entry["apiVersion"]] = {**entry, "manager": "ancient-changes", "fieldsV1": fields}
    applies = [entry for entry in entries if entry["operation"] != "Update"]
    return [*applies, *by_version.values(), *updates[surplus + 1 :]]


def _conflict(conflict: serverside.OwnershipConflict) -> errors.Refusal:
    told = [(_told(owner), path) for owner, found in conflict.conflicts.items() for path in found]
    causes = [errors.Cause("FieldManagerConflict", f"conflict with {owner}", path) for owner, path in told]
    if len(told) == 1:
        return errors.apply_conflict(f"Apply failed with 1 conflict: conflict with {told[0][0]}: {told[0][1]}", causes)
    lines = []
    for owner, found in sorted(conflict.conflicts.items(), key=lambda pair: _sorted_name(pair[0])):
        lines += [f"conflicts with {_told(owner)}:", *(f"- {path}" for path in found)]
    return errors.apply_conflict(f"Apply failed with {len(told)} conflicts: " + "\n".join(lines), causes)


def _sorted_name(owner: str) -> str:
    """Owners are told in the order of their names as Go writes them: manager first."""
    entry = msgspec.json.decode(owner)
    return msgspec.json.encode(
        {key: entry[key] for key in ("manager", "operation", "apiVersion", "subresource") if key in entry}
    ).decode()


def _told(owner: str) -> str:
    entry = msgspec.json.decode(owner)
    told = f'"{entry["manager"]}"'
    if entry.get("subresource"):
        told += f' with subresource "{entry["subresource"]}"'
    return f"{told} using {entry['apiVersion']}" if entry["operation"] == "Update" else told
