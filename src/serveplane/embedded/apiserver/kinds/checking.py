"""Small checks of single fields, to build the tables of rules from; each tells the real server's sentence."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.kinds.metadata import LABEL, invalid
from serveplane.objects import Json, names

Rule = Callable[[Json, str], Iterator[Cause]]
PORT_NAME = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
PERCENT = re.compile(r"[0-9]+%")
PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is "
    "'[0-9]+%')"
)
PORT_RANGE = "must be between 1 and 65535, inclusive"
NOT_NEGATIVE = "must be greater than or equal to 0"
SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def at(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def missing(path: str, why: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", path)


def unsupported(path: str, value: Any, known: Iterable[str]) -> Cause:
    listed = ", ".join(f'"{one}"' for one in known)
    return Cause("FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}', path)


def duplicate(path: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f'Duplicate value: "{value}"', path)


def selector_values(operator: str, given: list[str], path: str) -> Iterator[Cause]:
    """Whether a requirement on labels has values exactly where its operator wants some."""
    if operator in ("In", "NotIn") and not given:
        yield missing(at(path, "values"), "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist") and given:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield Cause("FieldValueForbidden", f"Forbidden: {why}", at(path, "values"))


def required(*fields: str, why: str = "") -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        for field in fields:
            if value.get(field) in (None, "", [], 0):
                yield missing(at(path, field), why)

    return check


def enum(field: str, *known: str, needed: bool = False) -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        found = value.get(field) or ""
        if found not in known and (found or needed):
            yield unsupported(at(path, field), found, known)

    return check


def not_negative(*fields: str) -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        for field in fields:
            if isinstance(value.get(field), int) and value[field] < 0:
                yield invalid(at(path, field), value[field], NOT_NEGATIVE)

    return check


def port(field: str, needed: bool = True) -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        found = value.get(field)
        if found in (None, 0):
            if needed:
                yield missing(at(path, field))
        elif isinstance(found, int) and not 0 < found < 65536:
            yield invalid(at(path, field), found, PORT_RANGE)

    return check


def dns_label(field: str) -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        found = value.get(field)
        if found and not names.is_dns_label(found):
            yield invalid(at(path, field), found, "must be no more than 63 characters" if len(found) > 63 else LABEL)

    return check


def unique(field: str, key: str) -> Rule:
    """Members of a list have different names."""

    def check(value: Json, path: str) -> Iterator[Cause]:
        seen: set[Any] = set()
        for index, member in enumerate(value.get(field) or ()):
            found = member.get(key)
            if found in seen:
                yield duplicate(f"{at(path, field)}[{index}].{key}", found)
            seen.add(found)

    return check


def positive_or_percent(*fields: str) -> Rule:
    """A number that is not negative, or a share of a hundred at most."""

    def check(value: Json, path: str) -> Iterator[Cause]:
        for field in fields:
            found = value.get(field)
            if isinstance(found, int) and found < 0:
                yield invalid(at(path, field), found, NOT_NEGATIVE)
            elif isinstance(found, str) and not PERCENT.fullmatch(found):
                yield invalid(at(path, field), found, PERCENT_RULE)
            elif isinstance(found, str) and int(found[:-1]) > 100:
                yield invalid(at(path, field), found, "must not be greater than 100%")

    return check


def port_name(name: str, path: str) -> Iterator[Cause]:
    """The short names that stand for ports."""
    if len(name) > 15:
        yield invalid(path, name, "must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield invalid(path, name, PORT_NAME)
    if not re.search(r"[a-z]", name):
        yield invalid(path, name, "must contain at least one letter (a-z)")
    if "--" in name:
        yield invalid(path, name, "must not contain consecutive hyphens")
    if name[:1] == "-" or name[-1:] == "-":
        yield invalid(path, name, "must not begin or end with a hyphen")


def port_number(number: int, path: str) -> Iterator[Cause]:
    if not 0 < number < 65536:
        yield invalid(path, number, PORT_RANGE)


def port_number_or_name(value: object, path: str) -> Iterator[Cause]:
    if isinstance(value, int):
        yield from port_number(value, path)
    elif isinstance(value, str):
        yield from port_name(value, path)
