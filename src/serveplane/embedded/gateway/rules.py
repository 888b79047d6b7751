"""The routing table: what a request must look like, and where it then goes. Pure values, found by host first.

The order among rules is the Gateway API's: exact path, regular expression, longest prefix; then a method, more headers, more
query parameters; then the older route, then its name, then the order in which it was written.
"""
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl

MOST_FOUND = 2048             # answers of a table that are remembered
LONGEST_FOR_PATTERNS = 4096   # a longer path is not tried against regular expressions


class PathKind(IntEnum):
    """In order of precedence."""
    EXACT = 0
    PATTERN = 1
    PREFIX = 2


class ServiceName(NamedTuple):
    namespace: str
    name: str


class Backend(NamedTuple):
    """One target of a rule. `problem` says why it cannot be used: such a share of the requests is answered 500."""
    service: ServiceName
    port: int | str
    weight: int = 1
    filters: tuple["Filter", ...] = ()
    problem: str = ""


class HeaderChange(NamedTuple):
    """Changes to request headers (or, with `of_answer`, to the answer's)."""
    set: tuple[tuple[str, str], ...] = ()
    add: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()
    of_answer: bool = False


class Rewrite(NamedTuple):
    host: str | None = None
    full_path: str | None = None
    prefix: str | None = None      # what the matched prefix becomes


class Redirect(NamedTuple):
    scheme: str | None = None
    host: str | None = None
    port: int | None = None
    status: int = 302
    full_path: str | None = None
    prefix: str | None = None


Filter = HeaderChange | Rewrite | Redirect


class Text(NamedTuple):
    """A value to compare with: exactly, or as a regular expression."""
    value: str
    pattern: re.Pattern[str] | None = None

    def holds(self, text: str | None) -> bool:
        if text is None:
            return False
        return self.pattern.fullmatch(text) is not None if self.pattern else text == self.value


@dataclass(frozen=True)
class Rule:
    kind: PathKind
    path: str
    backends: tuple[Backend, ...]
    pattern: re.Pattern[str] | None = None
    method: str = ""
    headers: tuple[tuple[str, Text], ...] = ()
    query: tuple[tuple[str, Text], ...] = ()
    filters: tuple[Filter, ...] = ()
    timeout: float | None = None
    backend_timeout: float | None = None
    source: str = ""                                       # which object it came from, for logs and answers
    order: tuple[str, str, int, int] = ("", "", 0, 0)     # creation, name, rule, match

    @property
    def precedence(self) -> tuple[int, int, bool, int, int, tuple[str, str, int, int]]:
        return (self.kind, -len(self.path), not self.method, -len(self.headers), -len(self.query), self.order)

    def matches(self, request: "Asked") -> bool:
        return (self._path_matches(request.path) and (not self.method or self.method == request.method)
                and all(text.holds(request.headers.get(name)) for name, text in self.headers)
                and all(text.holds(request.query.get(name)) for name, text in self.query))

    def _path_matches(self, path: str) -> bool:
        match self.kind:
            case PathKind.EXACT: return path == self.path
            case PathKind.PREFIX: return is_below(path, self.path)
            case PathKind.PATTERN:
                return len(path) <= LONGEST_FOR_PATTERNS and bool(self.pattern and self.pattern.fullmatch(path))


class HeaderLookup(Protocol):
    def get(self, name: str) -> str | None: ...


class Asked:
    """A request as far as routing looks at it. The query is only taken apart for rules that look into it."""

    __slots__ = ("_query", "headers", "host", "method", "path", "query_text")

    def __init__(self, host: str, path: str, method: str = "GET", headers: HeaderLookup | None = None, query: str = "") -> None:
        self.host = host
        self.path = path
        self.method = method
        self.headers: HeaderLookup = headers if headers is not None else _NO_HEADERS
        self.query_text = query
        self._query: dict[str, str] | None = None

    @property
    def query(self) -> Mapping[str, str]:
        """Of a parameter that is there twice the first one counts."""
        if self._query is None:
            self._query = {}
            for name, value in parse_qsl(self.query_text, keep_blank_values=True):
                self._query.setdefault(name, value)
        return self._query


_NO_HEADERS: HeaderLookup = {}


def is_below(path: str, prefix: str) -> bool:
    """Prefixes go by whole elements: `/a` is above `/a/b` and not above `/ab`.

    >>> is_below("/a/b", "/a/"), is_below("/ab", "/a"), is_below("/x", "/")
    (True, False, True)
    """
    prefix = prefix.rstrip("/")
    return path == prefix or path.startswith(prefix + "/") or not prefix


@dataclass(frozen=True)
class Table:
    """Rules by host: exact names, then the longest matching wildcard, then those for every host."""
    exact: Mapping[str, Sequence[Rule]] = field(default_factory=dict)
    wildcard: Mapping[str, Sequence[Rule]] = field(default_factory=dict)   # by suffix: ".example.com"
    everywhere: Sequence[Rule] = ()
    named: Mapping[tuple[str, str], str] = field(default_factory=dict)      # (namespace, name) → the host of a route
    _found: dict[tuple[str, str, str], Rule] = field(default_factory=dict, compare=False, repr=False)   # what was asked lately

    def rules(self, host: str) -> Sequence[Rule]:
        """The rules of the most specific host that matches; less specific ones are not looked at."""
        found = self.exact.get(host)
        if found is not None:
            return found
        labels = host.split(".")
        for cut in range(1, len(labels)):
            found = self.wildcard.get("." + ".".join(labels[cut:]))
            if found is not None:
                return found
        return self.everywhere

    def find(self, asked: Asked) -> Rule | None:
        """The first rule that matches. Remembered where host, path and method decide alone; a new table begins anew."""
        key = (asked.host, asked.path, asked.method)
        found = self._found.get(key)
        if found is not None:
            return found
        rules = self.rules(asked.host)
        found = next((rule for rule in rules if rule.matches(asked)), None)
        if found is not None and not any(rule.headers or rule.query for rule in rules):
            if len(self._found) >= MOST_FOUND:
                self._found.clear()
            self._found[key] = found
        return found


def make_table(rules_by_host: Mapping[str, Sequence[Rule]], named: Mapping[tuple[str, str], str] | None = None) -> Table:
    """Sort rules into a table; the host `*` (or none) means every host."""
    exact: dict[str, list[Rule]] = {}
    wildcard: dict[str, list[Rule]] = {}
    everywhere: list[Rule] = []
    for host, rules in rules_by_host.items():
        place = (everywhere if host in ("", "*") else
                 wildcard.setdefault(host[1:].casefold(), []) if host.startswith("*.") else
                 exact.setdefault(host.casefold(), []))
        place.extend(rules)
    return Table({host: _sorted(rules) for host, rules in exact.items()},
                 {host: _sorted(rules) for host, rules in wildcard.items()}, _sorted(everywhere), named or {})


def _sorted(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    return tuple(sorted(rules, key=lambda rule: rule.precedence))
