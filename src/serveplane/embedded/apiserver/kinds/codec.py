"""Objects of Kubernetes' own kinds, as its Go types would read and write them again.

The real server keeps objects as Go structs, and that shows: a struct that is no pointer is always there (`resources: {}`), an
empty value marked `omitempty` never is, quantities come back in canonical form, a wrong type is refused in Go's words. One walk
over a table of those types does all of it and applies the defaults of each struct on its way out.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from serveplane.embedded.apiserver.kinds.defaults import DEFAULTS
from serveplane.embedded.apiserver.kinds.scalars import (
    GO_NAMES,
    SCALARS,
    Decoder,
    Walk,
    WrongType,
    unfit,
    unrestored,
    wrong,
)
from serveplane.objects import Json, quantity

_NO_PROBLEMS = Walk()


class Findings(list[str]):
    """What is to be told about an object, and what in it was given empty."""

    def __init__(self, told: Iterable[str] = ()) -> None:
        super().__init__(told)
        self.emptied: dict[str, str] = {}


class Struct:
    """One Go struct: how its fields are read, and which are there even when nobody set them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.go_name = name.rsplit(".", 1)[-1]
        self.fields: dict[str, tuple[Decoder, bool]] = {}
        """JSON name -> (decoder, whether an empty value is left out)."""
        self.always: list[tuple[str, Callable[[], Any]]] = []
        self.lists: set[str] = set()
        self.structs: dict[str, str] = {}
        self.default = DEFAULTS.get(name)
        self._ready = False

    def prepare(self) -> "Struct":
        if not self._ready:
            self._ready = True
            self._add(self.name)
        return self

    def _add(self, name: str) -> None:
        for field, described in table()[name].items():
            flags, _, kind = described.partition(":")
            if "i" in flags and kind.startswith("@"):
                self._add(kind[1:])
                continue
            decoder, leaves_out = (
                _UNIONS.get((name, field)) or _decoder(kind, self.go_name),
                "o" in flags and "p" not in flags and not kind.startswith("@"),
            )
            self.fields[field] = decoder, leaves_out
            empty = _empty(flags, kind)
            if kind.startswith("["):
                self.lists.add(field)
            if kind.startswith("@") and "p" not in flags:
                self.structs[field] = kind[1:]
            if empty is not None:
                self.always.append((field, empty))

    def decode(self, value: Any, walk: Walk, path: str) -> Json:
        if not isinstance(value, dict):
            raise unrestored("struct", value) if walk.converting else wrong(value, path, self.name, self.go_name)
        if not self._ready:
            self.prepare()
        out: Json = {}
        fields = self.fields
        for key, item in self._in_order(value) if walk.converting else value.items():
            field = fields.get(key)
            if field is None:
                walk.unknown.append(f"{path}.{key}" if path else key)
                continue
            if item is None:
                continue
            try:
                new = field[0](item, walk, f"{path}.{key}" if path else key)
            except WrongType as error:
                walk.remember(error)
                continue
            if new or not field[1]:
                out[key] = new if new or key not in self.lists or walk.as_given else None
                if new == [] and walk.as_given:
                    walk.emptied[f"{path}.{key}" if path else key] = "[]"
            elif item == [] or item == {}:
                walk.emptied[f"{path}.{key}" if path else key] = "{}" if item == {} else "[]"
        for key, empty in self.always:
            if key not in out:
                out[key] = empty()
        if self.default is not None and walk.defaults:
            self.default(out)
        return out

    def _in_order(self, value: Json) -> Iterator[tuple[str, Any]]:
        """Members as the struct has them, which is how values are taken over; texts are read as they come."""
        yield from ((key, value[key]) for key in self.fields if key in value)
        yield from ((key, item) for key, item in value.items() if key not in self.fields)

    def read(self, value: Any, walk: Walk, path: str) -> Json:
        """A whole object; raises what was wrong first, once all of it was read."""
        out = self.decode(value, walk, path)
        if walk.wrong is not None:
            raise walk.wrong
        return out

    def absent(self) -> Json:
        """The struct as Go writes it when nobody mentioned it, defaults applied."""
        return self.decode({}, _NO_PROBLEMS, "")

    def field_when_absent(self, name: str) -> Any:
        """What Go writes for one field that nobody set; nothing if it writes none."""
        self.prepare()
        return next((empty() for key, empty in self.always if key == name), None)

    def zero(self) -> Json:
        """The struct with nothing set. A list nobody set counts as empty, so that its members, not itself, get an owner."""
        self.prepare()
        return {
            key: [] if key in self.lists else _zero(table_kind) if (table_kind := self.structs.get(key)) else empty()
            for key, empty in self.always
        }


def _zero(name: str) -> Json:
    return struct(name).zero()


def _empty(flags: str, kind: str) -> Callable[[], Any] | None:
    """The value of a field nobody set, where Go would write one."""
    if "p" in flags or "z" in flags:
        return None if "o" in flags or "z" in flags else _null
    if kind.startswith("@"):
        return struct(kind[1:]).absent
    if "o" in flags:
        return _null if kind in ("t", "T") else None
    scalars: dict[str, Callable[[], Any]] = {
        "s": str,
        "b": bool,
        "i": int,
        "I": int,
        "f": int,
        "q": lambda: "0",
        "x": int,
    }
    return scalars.get(kind, _null)


def _null() -> None:
    return None


def _decoder(kind: str, owner: str) -> Decoder:
    if kind.startswith("@"):
        return struct(kind[1:]).decode
    if kind.startswith("["):
        return _list(_decoder(kind[1:], owner), owner, kind)
    if kind.startswith("{"):
        return _map(_decoder(kind[1:], owner), owner, kind)
    return SCALARS[kind](owner)


def _list(inner: Decoder, owner: str, kind: str) -> Decoder:
    plain = kind in ("[s",)

    def decode(value: Any, walk: Walk, path: str) -> Any:
        if not isinstance(value, list) and walk.converting:
            raise unrestored("slice", value)
        if not isinstance(value, list):
            raise wrong(value, path, "[]" + GO_NAMES.get(kind[1:], kind.rsplit(".", 1)[-1]), owner)
        if plain:
            for item in value:
                if not isinstance(item, str):
                    raise unfit(item, "string") if walk.converting else wrong(item, path, "string", owner)
            return value
        found = []
        for index, item in enumerate(value):
            try:
                found.append(inner({} if item is None else item, walk, f"{path}[{index}]"))
            except WrongType as error:
                walk.remember(error)
        return found

    return decode


def _map(inner: Decoder, owner: str, kind: str) -> Decoder:
    strings, amounts = kind == "{s", kind == "{q"

    def decode(value: Any, walk: Walk, path: str) -> Any:
        if not isinstance(value, dict) and walk.converting:
            raise unrestored("map", value)
        if not isinstance(value, dict):
            raise wrong(value, path, "map[string]" + GO_NAMES.get(kind[1:], kind.rsplit(".", 1)[-1]), owner)
        if strings:
            for item in value.values():
                if item.__class__ is not str and item is not None:
                    raise unfit(item, "string") if walk.converting else wrong(item, path, "string", owner)
            return value if None not in value.values() else {key: item or "" for key, item in value.items()}
        found = {}
        for key, item in value.items():
            try:
                if item is not None:
                    new = inner(item, walk, f"{path}.{key}")
                    found[key] = quantity.to_milli(new) if amounts else new
                elif amounts:
                    found[key] = "0"
            except WrongType as error:
                walk.remember(error)
        return found

    return decode


SCHEMA = "apiextensions.v1.JSONSchemaProps"


def _schema(value: Any, walk: Walk, path: str) -> Any:
    return struct(SCHEMA).decode(value, walk, path)


_UNIONS: dict[tuple[str, str], Decoder] = {
    (SCHEMA, "items"): _schema,
    (SCHEMA, "additionalProperties"): lambda value, walk, path: value if isinstance(value, bool) else _schema(value, walk, path),
}
"""Fields of a type that reads itself: a schema, or something simpler in its place. A list of schemas is nowhere allowed."""
@cache
def struct(name: str) -> Struct:
    return Struct(name)


@cache
def table() -> dict[str, dict[str, str]]:
    data = resources.files("serveplane.embedded.apiserver").joinpath("data/gotypes.json").read_bytes()
    found: dict[str, dict[str, str]] = msgspec.json.decode(data)
    return found


@cache
def struct_for(group: str, version: str, kind: str) -> Struct | None:
    """The Go type of a kind: `apps/v1 Deployment` is `apps.v1.Deployment`."""
    package = {"": "core", "rbac.authorization.k8s.io": "rbac"}.get(group, group.split(".")[0])
    name = f"{package}.{version}.{kind}"
    return struct(name).prepare() if name in table() else None


_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")


def settle(value: Json, emptied: Iterable[str]) -> None:
    """Make nothing of the lists at these paths, where they are still there and empty: that is how they are stored."""
    for path in emptied:
        *steps, last = _STEP.findall(path)
        holder: Any = value
        for step in steps:
            try:
                holder = holder[int(step[1:-1])] if step[0] == "[" else holder.get(step)
            except (AttributeError, IndexError, KeyError, TypeError):
                break
        if isinstance(holder, dict) and holder.get(last) == []:
            holder[last] = None
