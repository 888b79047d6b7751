"""The value constraints of OpenAPI v3, each compiled to a check with the real server's message."""

import ipaddress
import operator
import re
from collections.abc import Callable, Iterator, Sized
from typing import Any

import msgspec

from serveplane.clock import parse_timestamp
from serveplane.embedded.apiserver.errors import Cause
from serveplane.objects import Json

Check = Callable[[Any, str], Iterator[Cause]]
Maker = Callable[[Any, Json], Check]
Complaint = Callable[[Any, int, str], Cause]
INVALID = "FieldValueInvalid"


def kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def shown(value: Any) -> str:
    """A value as an error shows it: text quoted, structures as JSON."""
    return msgspec.json.encode(value, order="sorted").decode()


def compiled(schema: Json) -> list[Check]:
    """The checks of one schema node, cheapest first."""
    return [make(schema[key], schema) for key, make in _MAKERS.items() if key in schema and schema[key] is not None]


def _invalid(value: Any, path: str, why: str) -> Cause:
    return Cause(INVALID, f"Invalid value: {shown(value)}: {path} in body {why}", path)


def _required(names: list[str], schema: Json) -> Check:
    def check(value: Any, path: str) -> Iterator[Cause]:
        if isinstance(value, dict):
            for name in names:
                if name not in value:
                    yield Cause("FieldValueRequired", "Required value", f"{path}.{name}" if path else name)

    return check


def _enum(values: list[Any], schema: Json) -> Check:
    listed = ", ".join(shown(value) if isinstance(value, str) else f'"{shown(value)}"' for value in values)

    def check(value: Any, path: str) -> Iterator[Cause]:
        if not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values):
            yield Cause(
                "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}", path
            )

    return check


def _bound(limit: float, strict: bool, upper: bool) -> Check:
    word = "less" if upper else "greater"
    tail = f"should be {word} than {shown(limit)}" if strict else f"should be {word} than or equal to {shown(limit)}"

    def check(value: Any, path: str) -> Iterator[Cause]:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return
        beyond = (
            (value >= limit if strict else value > limit) if upper else (value <= limit if strict else value < limit)
        )
        if beyond:
            yield _invalid(value, path, tail)

    return check


def _minimum(limit: float, schema: Json) -> Check:
    return _bound(limit, bool(schema.get("exclusiveMinimum")), upper=False)


def _maximum(limit: float, schema: Json) -> Check:
    return _bound(limit, bool(schema.get("exclusiveMaximum")), upper=True)


def _multiple(of: float, schema: Json) -> Check:
    def check(value: Any, path: str) -> Iterator[Cause]:
        if isinstance(value, int | float) and not isinstance(value, bool) and value % of:
            yield _invalid(value, path, f"should be a multiple of {shown(of)}")

    return check


def _size(kind: type[Sized], fits: Callable[[int, int], bool], complaint: Complaint) -> Maker:
    """A limit on how long a text, a list or an object may be, or has to be."""

    def make(limit: int, schema: Json) -> Check:
        def check(value: Any, path: str) -> Iterator[Cause]:
            if isinstance(value, kind) and not fits(len(value), limit):
                yield complaint(value, limit, path)

        return check

    return make


def _too_short(value: str, limit: int, path: str) -> Cause:
    return _invalid(value, path, f"should be at least {limit} chars long")


def _too_long(value: str, limit: int, path: str) -> Cause:
    return Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", path)


def _too_few(members: str) -> Complaint:
    return lambda value, limit, path: Cause(
        INVALID, f"Invalid value: {len(value)}: {path} in body should have at least {limit} {members}", path
    )


def _too_many(value: Any, limit: int, path: str) -> Cause:
    return Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {limit} item{'' if limit == 1 else 's'}", path)


def _pattern(text: str, schema: Json) -> Check:
    expression = _compiled_pattern(text)

    def check(value: Any, path: str) -> Iterator[Cause]:
        if isinstance(value, str) and expression is not None and not expression.search(value):
            yield _invalid(value, path, f"should match '{text}'")

    return check


def _compiled_pattern(text: str) -> re.Pattern[str] | None:
    """Go's syntax is nearly Python's: `$` means the very end there, and `\\z` is its explicit form."""
    python = re.sub(r"(?<!\\)((?:\\\\)*)\$", r"\1\\Z", text.replace("\\z", "\\Z")) if "[$" not in text else text
    try:
        return re.compile(python)
    except re.error:
        return None


def _unique(wanted: bool, schema: Json) -> Check:
    def check(value: Any, path: str) -> Iterator[Cause]:
        if wanted and isinstance(value, list) and len({shown(item) for item in value}) < len(value):
            yield _invalid(value, path, "shouldn't contain duplicates")

    return check


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _is_network(value: str) -> bool:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return False
    return "/" in value


def _is_time(value: str) -> bool:
    try:
        parse_timestamp(value)
    except ValueError:
        return False
    return "T" in value.upper()


_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _is_time,
    "date": lambda value: bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}", value)),
    "ipv4": lambda value: _is_address(value) and "." in value,
    "ipv6": lambda value: _is_address(value) and ":" in value,
    "cidr": _is_network,
    "uuid": lambda value: bool(_UUID.fullmatch(value)),
    "uri": lambda value: bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|/", value)),
    "email": lambda value: bool(re.fullmatch(r"[^@\s]+@[^@\s]+", value)),
    "byte": lambda value: bool(re.fullmatch(r"[A-Za-z0-9+/\r\n]*={0,2}", value)),
    "duration": lambda value: bool(re.fullmatch(r"[+-]?(\d+(\.\d+)?(ns|us|µs|ms|s|m|h|d|w|[a-z]+)\s*)+|0", value)),
}
_NUMBER_FORMATS = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1)}


def _format(name: str, schema: Json) -> Check:
    test, limits = _FORMATS.get(name), _NUMBER_FORMATS.get(name)

    def check(value: Any, path: str) -> Iterator[Cause]:
        wrong_text = test is not None and isinstance(value, str) and not test(value)
        wrong_number = limits is not None and isinstance(value, int) and not limits[0] <= value <= limits[1]
        if wrong_text or wrong_number:
            yield _invalid(value, path, f"must be of type {name}: {shown(value)}")._replace(reason="FieldValueTypeInvalid")

    return check


def _branch_checker(branch: Json) -> Callable[[Any, str], bool]:
    """Whether a value satisfies a logical branch; branches carry constraints only, no types of their own."""
    from serveplane.embedded.apiserver.crd.schema import Node

    node = Node(branch)
    return lambda value, path: next(node.problems(value, path), None) is None


def _all_of(branches: list[Json], schema: Json) -> Check:
    from serveplane.embedded.apiserver.crd.schema import Node

    nodes = [Node(branch) for branch in branches]

    def check(value: Any, path: str) -> Iterator[Cause]:
        found = [cause for node in nodes for cause in node.problems(value, path)]
        if found:
            yield Cause(INVALID, f'Invalid value: "": "{path}" must validate all the schemas (allOf)', path)
            yield from found

    return check


def _any_of(branches: list[Json], schema: Json) -> Check:
    checkers = [_branch_checker(branch) for branch in branches]

    def check(value: Any, path: str) -> Iterator[Cause]:
        if schema.get("x-kubernetes-int-or-string"):
            return
        if not any(checker(value, path) for checker in checkers):
            yield Cause(INVALID, f'Invalid value: "": "{path}" must validate at least one schema (anyOf)', path)

    return check


def _one_of(branches: list[Json], schema: Json) -> Check:
    checkers = [_branch_checker(branch) for branch in branches]

    def check(value: Any, path: str) -> Iterator[Cause]:
        valid = sum(checker(value, path) for checker in checkers)
        if valid != 1:
            told = "Found none valid" if not valid else f"Found {valid} valid alternatives"
            yield Cause(
                INVALID, f'Invalid value: "": "{path}" must validate one and only one schema (oneOf). {told}', path
            )

    return check


def _not(branch: Json, schema: Json) -> Check:
    checker = _branch_checker(branch)

    def check(value: Any, path: str) -> Iterator[Cause]:
        if checker(value, path):
            yield Cause(INVALID, f'Invalid value: "": "{path}" must not validate the schema (not)', path)

    return check


_MAKERS: dict[str, Maker] = {
    "required": _required,
    "enum": _enum,
    "minimum": _minimum,
    "maximum": _maximum,
    "multipleOf": _multiple,
    "minLength": _size(str, operator.ge, _too_short),
    "maxLength": _size(str, operator.le, _too_long),
    "pattern": _pattern,
    "format": _format,
    "minItems": _size(list, operator.ge, _too_few("items")),
    "maxItems": _size(list, operator.le, _too_many),
    "minProperties": _size(dict, operator.ge, _too_few("properties")),
    "maxProperties": _size(dict, operator.le, _too_many),
    "uniqueItems": _unique,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
}
