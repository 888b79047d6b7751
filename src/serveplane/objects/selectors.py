"""Label and field selectors: read from text or from a `LabelSelector`, asked of objects."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from serveplane.objects import Json

Operator = Literal["in", "notin", "exists", "!", "=", "!=", "gt", "lt"]
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_KEY = rf"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?{_NAME}"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^)]*)\)\s*")
_PAIR = re.compile(rf"\s*({_KEY})\s*(==|=|!=|>|<)\s*({_NAME}|)\s*")
_BARE = re.compile(rf"\s*(!?)\s*({_KEY})\s*")
_VALUE = re.compile(rf"{_NAME}|")


class BadSelector(ValueError):
    """A selector that the API server would refuse."""


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "=" | "in":
                return value in self.values
            case "!=" | "notin":  # an absent label counts as different
                return value is None or value not in self.values
            case "gt" | "lt":
                return _compares(value, self.operator, self.values)


def _compares(value: str | None, operator: str, values: Iterable[str]) -> bool:
    try:
        here, there = int(value or ""), int(next(iter(values)))
    except ValueError:
        return False
    return here > there if operator == "gt" else here < there


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; none at all matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        return all(requirement.matches(labels or {}) for requirement in self.requirements)


EVERYTHING = LabelSelector()


def parse_labels(text: str) -> LabelSelector:
    """A label selector as kubectl and the API write it.

    >>> parse_labels("app=iris,tier in (a, b),!old").matches({"app": "iris", "tier": "b"})
    True
    """
    return LabelSelector(tuple(_requirement(part) for part in _split(text)))


def _split(text: str) -> list[str]:
    """At commas, but not at those inside parentheses."""
    if not text.strip():
        return []
    return re.split(r",(?![^()]*\))", text)


def _requirement(text: str) -> Requirement:
    if match := _SET.fullmatch(text):
        values = frozenset(_value(part.strip(), text) for part in match[3].split(","))
        return Requirement(match[1], "in" if match[2] == "in" else "notin", values)
    if match := _PAIR.fullmatch(text):
        operators: dict[str, Operator] = {"=": "=", "==": "=", "!=": "!=", ">": "gt", "<": "lt"}
        operator = operators[match[2]]
        return Requirement(match[1], operator, frozenset({match[3]}))
    if match := _BARE.fullmatch(text):
        return Requirement(match[2], "!" if match[1] else "exists")
    raise BadSelector(f"unable to parse requirement {text.strip()!r}")


def _value(value: str, text: str) -> str:
    if not _VALUE.fullmatch(value):
        raise BadSelector(f"{value!r} in {text.strip()!r} is not a valid label value")
    return value


_WORDS: dict[str, Operator] = {
    "In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt",
}  # fmt: skip


def from_selector(selector: Json | None) -> LabelSelector:
    """From `matchLabels` and `matchExpressions`; an absent selector matches nothing, so hand in `{}` for everything."""
    if selector is None:
        return LabelSelector((Requirement("", "exists"),))
    exact = (Requirement(key, "=", frozenset({value})) for key, value in selector.get("matchLabels", {}).items())
    return LabelSelector((*exact, *map(from_expression, selector.get("matchExpressions", ()))))


def from_expression(expression: Json) -> Requirement:
    """One of `matchExpressions`; node selectors have the same form."""
    operator = _WORDS.get(expression["operator"])
    if operator is None:
        raise BadSelector(f"{expression['operator']!r} is not a valid label selector operator")
    return Requirement(expression["key"], operator, frozenset(expression.get("values") or ()))


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Equalities on fields, e.g. `spec.nodeName=a,status.phase!=Failed`."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    def matches(self, obj: Json) -> bool:
        return self.matches_with(lambda path: field_value(obj, path))

    def matches_with(self, value: Callable[[str], str]) -> bool:
        return all((value(path) == wanted) is equal for path, equal, wanted in self.terms)


def parse_fields(text: str) -> FieldSelector:
    return FieldSelector(tuple(_term(part.strip()) for part in text.split(",") if part.strip()))


def _term(text: str) -> tuple[str, bool, str]:
    match = re.fullmatch(r"([^=!]+?)(!=|==|=)(.*)", text)
    if not match:
        raise BadSelector(f"invalid selector: {text!r}; can't understand {text!r}")
    return match[1], match[2] != "!=", match[3]


def field_value(obj: Json, path: str) -> str:
    """A field as selectors compare it: text, empty when absent.

    >>> field_value({"spec": {"nodeName": "a", "hostNetwork": True}}, "spec.hostNetwork")
    'true'
    """
    value: Any = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
