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

from serveplane.clock import micro_timestamp, parse_timestamp, timestamp
from serveplane.embedded.apiserver.kinds.defaults import DEFAULTS
from serveplane.objects import Json, quantity

Decoder = Callable[[Any, "Walk", str], Any]
GO_NAMES = {"s": "string", "b": "bool", "i": "int32", "I": "int64", "f": "float64", "y": "[]uint8"}
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*={0,2}\s*")
_MICRO = re.compile(r".{19}\.\d{6}(Z|[+-]\d\d:\d\d)")
INT32, INT64 = 1 << 31, 1 << 63


class WrongType(Exception):
    """A value that its Go type cannot hold; the message is the one encoding/json gives.

    Most are remembered while Go reads on, and the first of them is told in the end. Types that read themselves end it at once.
    """

    def __init__(self, message: str, at_once: bool = False) -> None:
        super().__init__(message)
        self.at_once = at_once


class Walk:
    """What one walk collects: unknown fields by path."""

    __slots__ = ("as_given", "converting", "defaults", "emptied", "unknown", "wrong")

    def __init__(self, defaults: bool = True, converting: bool = False, as_given: bool = False) -> None:
        self.unknown: list[str] = []
        self.defaults = defaults
        self.wrong: WrongType | None = None
        self.emptied: dict[str, str] = {}
        """Lists and maps that were given empty, by path: Go tells that from nothing, and what is stored does not."""
        self.as_given = as_given
        """Leave lists that were given empty as they are, until owners are known: `settle` then makes nothing of them."""
        self.converting = converting
        """From a value instead of a text: other words for what does not fit, and numbers are cut."""


    def remember(self, error: WrongType) -> None:
        if error.at_once or self.converting:
            raise error
        self.wrong = self.wrong or error


_NO_PROBLEMS = Walk()


class Findings(list[str]):
    """What is to be told about an object, and what in it was given empty."""

    def __init__(self, told: Iterable[str] = ()) -> None:
        super().__init__(told)
        self.emptied: dict[str, str] = {}


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def _wrong(value: Any, path: str, go_type: str, struct: str = "") -> WrongType:
    what = "number " + str(value) if _kind_of(value) == "number" and go_type.startswith("int") else _kind_of(value)
    plain = re.sub(r"\[\d+\]", "", path)
    return WrongType(f"json: cannot unmarshal {what} into Go struct field {struct}.{plain} of type {go_type}")


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
            raise _unrestored("struct", value) if walk.converting else _wrong(value, path, self.name, self.go_name)
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
    return _SCALARS[kind](owner)


def _list(inner: Decoder, owner: str, kind: str) -> Decoder:
    plain = kind in ("[s",)

    def decode(value: Any, walk: Walk, path: str) -> Any:
        if not isinstance(value, list) and walk.converting:
            raise _unrestored("slice", value)
        if not isinstance(value, list):
            raise _wrong(value, path, "[]" + GO_NAMES.get(kind[1:], kind.rsplit(".", 1)[-1]), owner)
        if plain:
            for item in value:
                if not isinstance(item, str):
                    raise _unfit(item, "string") if walk.converting else _wrong(item, path, "string", owner)
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
            raise _unrestored("map", value)
        if not isinstance(value, dict):
            raise _wrong(value, path, "map[string]" + GO_NAMES.get(kind[1:], kind.rsplit(".", 1)[-1]), owner)
        if strings:
            for item in value.values():
                if item.__class__ is not str and item is not None:
                    raise _unfit(item, "string") if walk.converting else _wrong(item, path, "string", owner)
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


def _simple(types: type | tuple[type, ...], code: str) -> Callable[[str], Decoder]:
    def made(owner: str) -> Decoder:
        def decode(value: Any, walk: Walk, path: str) -> Any:
            if not isinstance(value, types) or (code != "b" and value.__class__ is bool):
                raise _unfit(value, GO_NAMES[code]) if walk.converting else _wrong(value, path, GO_NAMES[code], owner)
            return value

        return decode

    return made


def _integer(limit: int, code: str) -> Callable[[str], Decoder]:
    def made(owner: str) -> Decoder:
        def decode(value: Any, walk: Walk, path: str) -> Any:
            if value.__class__ is float and value.is_integer():
                value = int(value)
            if walk.converting:
                return _cut(value, limit, GO_NAMES[code])
            if value.__class__ is not int or not -limit <= value < limit:
                raise _wrong(value, path, GO_NAMES[code], owner)
            return value

        return decode

    return made


def _cut(value: Any, limit: int, name: str) -> int:
    if value.__class__ is not int:
        raise _unfit(value, name)
    return int((value + limit) % (2 * limit) - limit)


def _unfit(value: Any, wanted: str) -> WrongType:
    """A value that is no text any more: numbers could be made into others or into texts, in Go, but are not."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (wanted.startswith(("int", "float")) or (wanted == "string" and isinstance(value, int))):
        return WrongType(f"cannot convert {_go_type(value)} to {wanted}")
    return WrongType(f"unrecognized type: {wanted}")


def _unrestored(what: str, value: Any) -> WrongType:
    kind = {bool: "bool", str: "string", float: "float64", int: "int64", list: "slice"}.get(type(value), "map")
    return WrongType(f"cannot restore {what} from{':' if what == 'struct' else ''} {kind}")


def _go_type(value: Any) -> str:
    kinds = {bool: "bool", str: "string", float: "float64", int: "int64", list: "[]interface {}"}
    return kinds.get(type(value), "map[string]interface {}")


def _bytes(owner: str) -> Decoder:
    def decode(value: Any, walk: Walk, path: str) -> Any:
        if not isinstance(value, str):
            raise _wrong(value, path, "[]uint8", owner)
        if not _BASE64.fullmatch(value) or len(value.replace("\n", "")) % 4:
            told = f"illegal base64 data at input byte {_bad_byte(value)}"
            raise WrongType(f"error decoding from json: {told}" if walk.converting else told)
        return value

    return decode


def _bad_byte(value: str) -> int:
    match = re.search(r"[^A-Za-z0-9+/=\s]", value)
    return match.start() if match else max(len(value) - len(value) % 4, 0)


def _quantity(owner: str) -> Decoder:
    def decode(value: Any, walk: Walk, path: str) -> Any:
        try:
            return quantity.canonical(value)
        except (quantity.NotAQuantity, TypeError):
            told = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            raise WrongType(told, at_once=True) from None

    return decode


def _int_or_string(owner: str) -> Decoder:
    def decode(value: Any, walk: Walk, path: str) -> Any:
        if not isinstance(value, int | str) or isinstance(value, bool):
            raise WrongType(str(_wrong(value, path, "intstr.IntOrString", owner)), at_once=True)
        return value

    return decode


def _time(write: Callable[[Any], str], name: str) -> Callable[[str], Decoder]:
    def made(owner: str) -> Decoder:
        def decode(value: Any, walk: Walk, path: str) -> Any:
            if not isinstance(value, str):
                raise WrongType(str(_wrong(value, path, name, owner)), at_once=True)
            if len(value) == 20 and value[-1] == "Z" and write is timestamp:
                return value
            if write is micro_timestamp and len(value) > 19 and not _MICRO.fullmatch(value):
                layout = "2006-01-02T15:04:05.000000Z07:00"
                raise WrongType(f'parsing time "{value}" as "{layout}": cannot parse "{value[19:]}" as ".000000"', at_once=True)
            try:
                return write(parse_timestamp(value))
            except ValueError:
                told = f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
                raise WrongType(told, at_once=True) from None

        return decode

    return made


def _any(owner: str) -> Decoder:
    return lambda value, walk, path: value


SCHEMA = "apiextensions.v1.JSONSchemaProps"


def _schema(value: Any, walk: Walk, path: str) -> Any:
    return struct(SCHEMA).decode(value, walk, path)


_UNIONS: dict[tuple[str, str], Decoder] = {
    (SCHEMA, "items"): _schema,
    (SCHEMA, "additionalProperties"): lambda value, walk, path: value if isinstance(value, bool) else _schema(value, walk, path),
}
"""Fields of a type that reads itself: a schema, or something simpler in its place. A list of schemas is nowhere allowed."""
_SCALARS: dict[str, Callable[[str], Decoder]] = {
    "s": _simple(str, "s"),
    "b": _simple(bool, "b"),
    "i": _integer(INT32, "i"),
    "I": _integer(INT64, "I"),
    "f": _simple((int, float), "f"),
    "y": _bytes,
    "q": _quantity,
    "x": _int_or_string,
    "t": _time(timestamp, "Time"),
    "T": _time(micro_timestamp, "MicroTime"),
    "d": _simple(str, "s"),
    "a": _any,
}


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
