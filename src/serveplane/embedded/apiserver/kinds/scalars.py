"""Values that are no structs, as Go's types hold them: texts, numbers, times, quantities; and Go's words for what does not fit."""

import re
from collections.abc import Callable
from typing import Any

from serveplane.clock import micro_timestamp, parse_timestamp, timestamp
from serveplane.objects import quantity

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


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def wrong(value: Any, path: str, go_type: str, struct: str = "") -> WrongType:
    what = "number " + str(value) if _kind_of(value) == "number" and go_type.startswith("int") else _kind_of(value)
    plain = re.sub(r"\[\d+\]", "", path)
    return WrongType(f"json: cannot unmarshal {what} into Go struct field {struct}.{plain} of type {go_type}")


def _simple(types: type | tuple[type, ...], code: str) -> Callable[[str], Decoder]:
    def made(owner: str) -> Decoder:
        def decode(value: Any, walk: Walk, path: str) -> Any:
            if not isinstance(value, types) or (code != "b" and value.__class__ is bool):
                raise unfit(value, GO_NAMES[code]) if walk.converting else wrong(value, path, GO_NAMES[code], owner)
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
                raise wrong(value, path, GO_NAMES[code], owner)
            return value

        return decode

    return made


def _cut(value: Any, limit: int, name: str) -> int:
    if value.__class__ is not int:
        raise unfit(value, name)
    return int((value + limit) % (2 * limit) - limit)


def unfit(value: Any, wanted: str) -> WrongType:
    """A value that is no text any more: numbers could be made into others or into texts, in Go, but are not."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (wanted.startswith(("int", "float")) or (wanted == "string" and isinstance(value, int))):
        return WrongType(f"cannot convert {_go_type(value)} to {wanted}")
    return WrongType(f"unrecognized type: {wanted}")


def unrestored(what: str, value: Any) -> WrongType:
    kind = {bool: "bool", str: "string", float: "float64", int: "int64", list: "slice"}.get(type(value), "map")
    return WrongType(f"cannot restore {what} from{':' if what == 'struct' else ''} {kind}")


def _go_type(value: Any) -> str:
    kinds = {bool: "bool", str: "string", float: "float64", int: "int64", list: "[]interface {}"}
    return kinds.get(type(value), "map[string]interface {}")


def _bytes(owner: str) -> Decoder:
    def decode(value: Any, walk: Walk, path: str) -> Any:
        if not isinstance(value, str):
            raise wrong(value, path, "[]uint8", owner)
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
            raise WrongType(str(wrong(value, path, "intstr.IntOrString", owner)), at_once=True)
        return value

    return decode


def _time(write: Callable[[Any], str], name: str) -> Callable[[str], Decoder]:
    def made(owner: str) -> Decoder:
        def decode(value: Any, walk: Walk, path: str) -> Any:
            if not isinstance(value, str):
                raise WrongType(str(wrong(value, path, name, owner)), at_once=True)
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


SCALARS: dict[str, Callable[[str], Decoder]] = {
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
