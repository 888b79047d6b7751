"""One request as the core of the server sees it: who, what, with which options."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl

from serveplane import http
from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.paths import Target

Body = bytes | AsyncIterator[bytes]
Upgrade = Callable[[http.Tunnel], Awaitable[None]]


@dataclass(frozen=True)
class User:
    """Who is calling, as RBAC and admission see them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


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
        value = self.query.get("dryRun", "")
        if value not in ("", "All"):
            kind = {"POST": "CreateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}.get(
                self.method, "UpdateOptions"
            )
            raise invalid_option(kind, "dryRun", f'["{value}"]', ["All"], quoted=False)
        return value == "All"

    @property
    def field_validation(self) -> str:
        value = self.query.get("fieldValidation") or "Warn"
        if value not in ("Strict", "Warn", "Ignore"):
            kind = {"POST": "CreateOptions", "PATCH": "PatchOptions"}.get(self.method, "UpdateOptions")
            raise invalid_option(kind, "fieldValidation", value, ["", "Ignore", "Strict", "Warn"])
        return value

    @property
    def field_manager(self) -> str:
        """Named, or taken from the client's program name as the real server does."""
        named = self.query.get("fieldManager", "")
        if len(named) > 128:
            cause = errors.Cause("FieldValueTooLong", "Too long: may not be more than 128 bytes", "fieldManager")
            raise errors.invalid("PatchOptions", "meta.k8s.io", "", [cause])
        return named or self.headers.get("user-agent", "unknown").split("/")[0][:128]


def invalid_option(kind: str, name: str, value: str, supported: list[str], quoted: bool = True) -> errors.Refusal:
    known, shown = ", ".join(f'"{item}"' for item in supported), f'"{value}"' if quoted else value
    cause = errors.Cause("FieldValueNotSupported", f"Unsupported value: {shown}: supported values: {known}", name)
    return errors.invalid(kind, "meta.k8s.io", "", [cause])


def parse_query(text: str) -> dict[str, str]:
    """First value wins, as with Go's url.Values.Get."""
    if not text:
        return {}
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=1000):
        found.setdefault(name, value)
    return found
