"""Label and field selectors: read from text or from a `LabelSelector`, asked of objects."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from serveplane.objects import Json, names

Operator = Literal["in", "notin", "exists", "!", "=", "!=", "gt", "lt"]
_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^\s=!(),<>]+")
_OPERATORS: dict[str, Operator] = {"in": "in", "notin": "notin", "=": "=", "==": "=", "!=": "!=", ">": "gt", "<": "lt"}


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
    return LabelSelector(tuple(_Reader(text).requirements()))


class _Reader:
    """The text of a selector, token by token; what is wrong is told in the API server's words."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._place = 0

    def _next(self) -> str:
        token = self._peek()
        self._place += 1
        return token

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def requirements(self) -> Iterator[Requirement]:
        token = self._peek()
        if token and not _is_word(token) and token != "!":
            raise BadSelector(f"found '{token}', expected: !, identifier, or 'end of string'")
        while self._peek():
            try:
                yield self._requirement()
            except BadSelector as error:
                raise BadSelector(f"unable to parse requirement: {error}") from None
            end = self._next()
            if end not in ("", ","):
                raise BadSelector(f"found '{end}', expected: ',' or 'end of string'")
            following = self._peek()
            if end and not _is_word(following) and following != "!":
                raise BadSelector(f"found '{following}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        key = self._next()
        absent = key == "!"
        if absent:
            key = self._next()
        if not _is_word(key):
            raise BadSelector(f"found '{key}', expected: identifier")
        _check_key(key)
        if absent or self._peek() in ("", ","):
            return Requirement(key, "!" if absent else "exists")
        operator = self._next()
        if operator not in _OPERATORS:
            raise BadSelector(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._set() if operator in ("in", "notin") else [self._value()]
        return _checked(key, _OPERATORS[operator], sorted(set(values)))

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        value = self._next()
        if not _is_word(value):
            raise BadSelector(f"found '{value}', expected: identifier")
        return value

    def _set(self) -> list[str]:
        start = self._next()
        if start != "(":
            raise BadSelector(f"found '{start}' expected: '('")
        first = self._peek()
        if first == ")":  # nothing at all is the one empty value
            self._next()
            return [""]
        if first != "," and not _is_word(first):
            raise BadSelector(f"found '{first}', expected: ',', ')' or identifier")
        return self._members()

    def _members(self) -> list[str]:
        """Up to the closing parenthesis; between two commas is an empty value."""
        found, waiting = list[str](), True
        while True:
            token = self._next()
            if token in (",", ")"):
                if waiting:
                    found.append("")
                if token == ")":
                    return found
                waiting = True
            elif not _is_word(token):
                wanted = "',', or identifier" if waiting else "',' or ')'"
                raise BadSelector(f"found '{token}', expected: {wanted}")
            elif not waiting:
                raise BadSelector(f"found '{token}', expected: ',' or ')'")
            else:
                found.append(token)
                waiting = False


def _is_word(token: str) -> bool:
    return bool(token) and token[0] not in "=!(),<>"


def _check_key(key: str) -> None:
    if not names.is_qualified_name(key):
        raise BadSelector(f'key: Invalid value: "{key}": {names.QUALIFIED_NAME_RULE}')


def _checked(key: str, operator: Operator, values: list[str]) -> Requirement:
    wrong = []
    for index, value in enumerate(values):
        if operator in ("gt", "lt") and not re.fullmatch(r"[+-]?\d+", value):
            wrong.append(f'values[{index}]: Invalid value: "{value}": for \'Gt\', \'Lt\' operators, the value must be an integer')
        if not names.is_label_value(value):
            rule = "must be no more than 63 characters" if len(value) > 63 else names.LABEL_VALUE_RULE
            wrong.append(f'values[{index}][{key}]: Invalid value: "{value}": {rule}')
    if wrong:
        raise BadSelector(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
    return Requirement(key, operator, frozenset(values))


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
    return FieldSelector(tuple(_term(part, text) for part in sorted(text.split(",")) if part))


def _term(text: str, whole: str) -> tuple[str, bool, str]:
    match = re.fullmatch(r"([^=!]*?)(!=|==|=)(.*)", text)
    if not match:
        raise BadSelector(f"invalid selector: '{whole}'; can't understand '{text}'")
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
