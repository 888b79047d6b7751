"""One request as the core of the server sees it: who, what, with which options."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl

import msgspec

from serveplane import http
from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.paths import Target
from serveplane.objects import Json

Body = bytes | AsyncIterator[bytes]
OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
LONGEST_MANAGER = 128
Upgrade = Callable[[http.Tunnel], Awaitable[None]]


@dataclass(frozen=True)
class User:
    """Who is calling, as RBAC and admission see them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def info(self) -> Json:
        """As reviews and webhooks are told."""
        extra = {key: list(items) for key, items in self.extra.items()}
        found: Json = {"username": self.name, "uid": self.uid, "groups": list(self.groups), "extra": extra}
        return {key: item for key, item in found.items() if item}


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
ADMIN = User("system:admin", ("system:masters", "system:authenticated"))


NO_TARGET = Target()


class Answer(NamedTuple):
    status: int
    body: Body
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}
    upgrade: Upgrade | None = None
    """Takes the connection over; only with 101."""


@dataclass
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    user: User
    target: Target = NO_TARGET
    warnings: list[str] = field(default_factory=list)
    emptied: Mapping[str, str] = field(default_factory=dict)
    """What in the object was given empty, and how that is written, by path."""
    empties: bool = False
    """Whether a custom resource is applied with labels, annotations or the like that are empty: the real server stores those."""
    query_text: str = ""
    """The query as it was sent: `exec` has its words there, one after the other under one name."""

    def flag(self, name: str) -> bool:
        """A boolean parameter, as Go reads them: present and empty means true."""
        value = self.query.get(name)
        return value is not None and value.lower() not in ("false", "0", "f")

    def number(self, name: str) -> int | None:
        text = self.query.get(name, "")
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun", "") == "All"

    @property
    def field_validation(self) -> str:
        return self.query.get("fieldValidation") or "Warn"

    @property
    def field_manager(self) -> str:
        """Named, or taken from the client's program name as the real server does."""
        named = self.query.get("fieldManager", "")
        return named or self.headers.get("user-agent", "unknown").split("/")[0][:128]

    def check_options(self) -> None:
        """The options of a write, all of them before anything else is looked at."""
        if not self.query:
            return
        causes = list(self._option_problems())
        if causes:
            raise errors.invalid(OPTIONS[self.method], "meta.k8s.io", "", causes)

    def _option_problems(self) -> Iterator[errors.Cause]:
        dry, manager, validation = (self.query.get(name, "") for name in ("dryRun", "fieldManager", "fieldValidation"))
        if dry not in ("", "All"):
            yield unsupported_option("dryRun", f'["{dry}"]', ["All"])
        if len(manager) > LONGEST_MANAGER:
            yield errors.Cause("FieldValueTooLong", f"Too long: may not be more than {LONGEST_MANAGER} bytes", "fieldManager")
        for place, letter in enumerate(manager):
            if not letter.isprintable():
                why = f"invalid character U+{ord(letter):04X} (at position {place})"
                yield errors.Cause("FieldValueInvalid", f"Invalid value: {_go_quoted(manager)}: {why}", "fieldManager")
        if validation not in ("", "Strict", "Warn", "Ignore"):
            yield unsupported_option("fieldValidation", f'"{validation}"', ["", "Ignore", "Strict", "Warn"])


def _go_quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def unsupported_option(name: str, shown: str, supported: list[str]) -> errors.Cause:
    known = ", ".join(f'"{item}"' for item in supported)
    return errors.Cause("FieldValueNotSupported", f"Unsupported value: {shown}: supported values: {known}", name)


def parse_query(text: str) -> dict[str, str]:
    """First value wins, as with Go's url.Values.Get."""
    if not text:
        return {}
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=1000):
        found.setdefault(name, value)
    return found
