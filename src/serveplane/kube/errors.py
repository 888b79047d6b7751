"""What can go wrong between us and an API server, each as one readable sentence.

KubeError
├── ConfigError             kubeconfig or in-cluster files are unusable: fix them, retrying is useless
├── NoSuchKind              the server does not serve that kind (yet): install its CRD
├── LeaseLost               another replica leads: nothing may be written any more
├── ConnectionFailed        the server could not be reached, or the answer broke off: a write may or may not have
happened
│   └── DeadlineExceeded    no answer within the request's deadline
└── ApiError                the server answered, and the answer was no
    ├── BadRequest 400        ├── Unauthorized 401      ├── Forbidden 403         ├── NotFound 404
    ├── MethodNotAllowed 405  ├── Conflict 409          │   └── AlreadyExists     ├── Gone 410 (Expired)
    ├── TooLarge 413          ├── UnsupportedMediaType  ├── Invalid 422           ├── TooManyRequests 429
    └── InternalError 500     ├── ServiceUnavailable    └── ServerTimeout 504
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from serveplane.objects import Json


class KubeError(Exception):
    """Any trouble with an API server; `str()` is one line fit for a user."""


class ConfigError(KubeError):
    """How to reach the API server is not known, or not readable."""


class NoSuchKind(KubeError):
    """The API server does not serve this kind."""


class LeaseLost(KubeError):
    """The leader lease has run out, so a write was not sent."""


class ConnectionFailed(KubeError):
    """No answer, or half of one."""


class Unreachable(ConnectionFailed):
    """There was no connection, so nothing was sent."""


class DeadlineExceeded(ConnectionFailed):
    """The request's deadline passed."""


@dataclass(frozen=True)
class Cause:
    """One field the server objects to."""

    field: str
    message: str
    reason: str = ""


class ApiError(KubeError):
    """A `Status` of failure."""

    code: int = 0

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        reason: str = "",
        causes: Sequence[Cause] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(" ".join(message.split()))
        self.code = code or type(self).code
        self.reason = reason
        self.causes = tuple(causes)
        self.retry_after = retry_after


class BadRequest(ApiError):
    code = 400


class Unauthorized(ApiError):
    code = 401


class Forbidden(ApiError):
    code = 403


class NotFound(ApiError):
    code = 404


class MethodNotAllowed(ApiError):
    code = 405


class Conflict(ApiError):
    """Someone else wrote first, or (server-side apply) owns a field."""

    code = 409


class AlreadyExists(Conflict):
    """A create met an object of the same name."""


class Gone(ApiError):
    """The resource version asked for is no longer kept: list again."""

    code = 410


class TooLarge(ApiError):
    code = 413


class UnsupportedMediaType(ApiError):
    code = 415


class Invalid(ApiError):
    """The object was understood and refused; `causes` names the fields."""

    code = 422


class TooManyRequests(ApiError):
    code = 429


class InternalError(ApiError):
    code = 500


class ServiceUnavailable(ApiError):
    code = 503


class ServerTimeout(ApiError):
    code = 504


_BY_CODE: dict[int, type[ApiError]] = {
    error.code: error
    for error in (
        BadRequest,
        Unauthorized,
        Forbidden,
        NotFound,
        MethodNotAllowed,
        Conflict,
        Gone,
        TooLarge,
        UnsupportedMediaType,
        Invalid,
        TooManyRequests,
        InternalError,
        ServiceUnavailable,
        ServerTimeout,
    )
}
_BY_REASON: dict[str, type[ApiError]] = {"AlreadyExists": AlreadyExists, "Expired": Gone, "Conflict": Conflict}


def error_from_status(status: Json, code: int = 0, retry_after: float | None = None) -> ApiError:
    """The error a `Status` object stands for."""
    code = int(status.get("code") or code or 500)
    reason = str(status.get("reason") or "")
    details = status.get("details") or {}
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code) or (InternalError if code >= 500 else ApiError)
    causes = [
        Cause(str(c.get("field") or ""), str(c.get("message") or ""), str(c.get("reason") or ""))
        for c in details.get("causes") or ()
    ]
    message = str(status.get("message") or reason or f"the API server answered {code}")
    if retry_after is None and details.get("retryAfterSeconds"):
        retry_after = float(details["retryAfterSeconds"])
    return kind(message, code=code, reason=reason, causes=causes, retry_after=retry_after)


def error_from_reply(code: int, body: bytes, retry_after: float | None = None) -> ApiError:
    """The error behind an HTTP answer; proxies in between answer plain text, which is shown shortened."""
    try:
        status = msgspec.json.decode(body)
    except msgspec.DecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return error_from_status(status, code, retry_after)
    text = body[:200].decode("utf-8", "replace").strip()
    return error_from_status({"message": f"HTTP {code}: {text}" if text else f"HTTP {code}"}, code, retry_after)


def advice(error: KubeError) -> str:
    """What a person can do about it; empty where the message already says so.

    >>> advice(Unauthorized("Unauthorized"))
    'the credentials were refused (expired, or of another cluster): log in again or renew them'
    """
    match error:
        case Unauthorized():
            return "the credentials were refused (expired, or of another cluster): log in again or renew them"
        case Forbidden():
            return "grant the named permission to this user or ServiceAccount (a Role or ClusterRole and its binding)"
        case NoSuchKind():
            return "install the CustomResourceDefinition (serveplane crds | kubectl apply --server-side -f -)"
        case _:
            return ""


def one_line(error: KubeError) -> str:
    """The error and what to do, as programs print it before they exit."""
    hint = advice(error)
    return f"{error} ({hint})" if hint else str(error)
