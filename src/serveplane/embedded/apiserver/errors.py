"""Answers that are not what was asked for, in Kubernetes' own words and shape.

Clients read `reason` and `details`, people read `message`; both follow the real server to the letter, because scripts match on them.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from serveplane.objects import Json


class Cause(NamedTuple):
    """One field that was refused. `reason` is e.g. FieldValueInvalid, `field` a path like `spec.template.spec`."""

    reason: str
    message: str
    field: str


class Refusal(Exception):
    """Any answer other than success; becomes a `Status`."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None, retry_after: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after
        self.metadata: Json = {}
        self.misfit = ""
        """What does not fit its type, if that is why: those who made the value tell it in their own way."""

    def status(self) -> Json:
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def success(details: Json | None = None) -> Json:
    status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status | ({"details": details} if details else {})


def qualified(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def _details(name: str, group: str, kind: str, **more: Any) -> Json:
    found = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in found.items() if value}


def not_found(plural: str, group: str, name: str) -> Refusal:
    return Refusal(404, "NotFound", f'{qualified(plural, group)} "{name}" not found', _details(name, group, plural))


def no_such_path() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(plural: str, group: str, name: str, dying: bool = False) -> Refusal:
    message = f'{"object is being deleted: " if dying else ""}{qualified(plural, group)} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, _details(name, group, plural))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(plural: str, group: str, name: str, why: str = MODIFIED) -> Refusal:
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return Refusal(409, "Conflict", message, _details(name, group, plural))


def apply_conflict(message: str, causes: Iterable[Cause]) -> Refusal:
    return Refusal(409, "Conflict", message, {"causes": [cause._asdict() for cause in causes]})


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> Refusal:
    said = [*dict.fromkeys(f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes)]
    text = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    listed = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    message = f'{qualified(kind, group)} "{name}" is invalid: {text}'
    return Refusal(422, "Invalid", message, _details(name, group, kind, causes=listed))


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def forbidden(plural: str, group: str, name: str, why: str) -> Refusal:
    subject = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    return Refusal(403, "Forbidden", f"{subject} is forbidden: {why}", _details(name, group, plural))


def forbidden_path(user: str, verb: str, path: str) -> Refusal:
    return Refusal(403, "Forbidden", f'forbidden: User "{user}" cannot {verb} path "{path}"', {})


def unauthorized() -> Refusal:
    return Refusal(401, "Unauthorized", "Unauthorized")


def method_not_allowed(method: str = "") -> Refusal:
    return Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def expired(message: str) -> Refusal:
    return Refusal(410, "Expired", message)


def gone(message: str) -> Refusal:
    return Refusal(410, "Gone", message)


def unsupported_media_type(given: str, accepted: Iterable[str]) -> Refusal:
    known = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {known}"
    return Refusal(415, "UnsupportedMediaType", message)


def not_acceptable(known: str) -> Refusal:
    return Refusal(406, "NotAcceptable", f"only the following media types are accepted: {known}", {})


def too_large(limit: int) -> Refusal:
    return Refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def internal(message: str) -> Refusal:
    return Refusal(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)
