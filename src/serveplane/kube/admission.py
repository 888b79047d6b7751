"""AdmissionReview and ConversionReview, read and answered. Pure; the server around it is `webhook`.

Both versions of AdmissionReview are the same but for their name, so an answer simply carries the version of its question.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from serveplane.kube.errors import Cause
from serveplane.kube.kind import Kind
from serveplane.objects import Json
from serveplane.objects.jsonpatch import json_patch

ADMISSION = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
CONVERSION = ("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1")
WARNING_LENGTH = 256  # the API server cuts longer ones, and drops all once they exceed 4 KiB together
WARNINGS_LENGTH = 4096


class BadReview(ValueError):
    """What came is no review that can be answered."""


class Refusal(Exception):
    """Raised by a handler that says no in one sentence."""

    def __init__(self, message: str, code: int = 422) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class AdmissionRequest:
    """What someone wants to do to an object."""

    uid: str
    operation: str
    kind: Kind
    resource: str
    subresource: str
    name: str
    namespace: str
    object: Json
    """Empty for a deletion."""
    old: Json
    """Empty for a creation."""
    user: Json
    dry_run: bool = False


@dataclass(frozen=True)
class Decision:
    """What becomes of it. Denied when there is a message or a cause."""

    patch: Sequence[Json] = ()
    causes: Sequence[Cause] = ()
    message: str = ""
    code: int = 403
    warnings: Sequence[str] = ()

    @property
    def allowed(self) -> bool:
        return not (self.message or self.causes)


class _Problem(Protocol):
    @property
    def path(self) -> Any: ...
    @property
    def message(self) -> str: ...


class _Verdict(Protocol):
    @property
    def errors(self) -> Iterable[_Problem]: ...
    @property
    def warnings(self) -> Iterable[str]: ...


Handler = Callable[[AdmissionRequest], Decision | Awaitable[Decision]]
Converter = Callable[[Json, str], Json]
"""object, desired apiVersion → the object in that version"""


def mutating(mutate: Callable[[AdmissionRequest], Json | Awaitable[Json]]) -> Handler:
    """A handler from a function (or coroutine) that gives the object as it should be; only the difference is answered."""

    async def handler(request: AdmissionRequest) -> Decision:
        wanted = mutate(request)
        return Decision(patch=json_patch(request.object, wanted if isinstance(wanted, dict) else await wanted))

    return handler


def validating(validate: Callable[[AdmissionRequest], _Verdict | Awaitable[_Verdict]]) -> Handler:
    """A handler from a function (or coroutine) that finds what is wrong; all of it is answered at once."""

    async def handler(request: AdmissionRequest) -> Decision:
        verdict = validate(request)
        if isinstance(verdict, Awaitable):
            verdict = await verdict
        causes = [Cause(str(problem.path), problem.message, "FieldValueInvalid") for problem in verdict.errors]
        return Decision(causes=causes, warnings=tuple(verdict.warnings), code=422)

    return handler


def parse_review(body: bytes) -> tuple[str, AdmissionRequest]:
    """The version of an AdmissionReview and what it asks."""
    review = _review(body, "AdmissionReview", ADMISSION)
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str) or not request["uid"]:
        raise BadReview("the AdmissionReview has no request with a uid")
    kind, resource = _table(request, "kind"), _table(request, "resource")
    group, version = kind.get("group") or "", kind.get("version") or ""
    return review["apiVersion"], AdmissionRequest(
        uid=request["uid"],
        operation=str(request.get("operation") or ""),
        kind=Kind(f"{group}/{version}" if group else str(version), str(kind.get("kind") or "")),
        resource=str(resource.get("resource") or ""),
        subresource=str(request.get("subResource") or ""),
        name=str(request.get("name") or ""),
        namespace=str(request.get("namespace") or ""),
        object=_table(request, "object"),
        old=_table(request, "oldObject"),
        user=_table(request, "userInfo"),
        dry_run=bool(request.get("dryRun")),
    )


def answer_review(api_version: str, uid: str, decision: Decision) -> bytes:
    response: Json = {"uid": uid, "allowed": decision.allowed}
    if not decision.allowed:
        response["status"] = _status(decision)
    elif decision.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = msgspec.json.encode(list(decision.patch))  # bytes become base64, as the API wants it
    if warnings := fitting(decision.warnings):
        response["warnings"] = warnings
    return msgspec.json.encode({"apiVersion": api_version, "kind": "AdmissionReview", "response": response})


def convert_review(body: bytes, convert: Converter) -> bytes:
    """A ConversionReview answered: all objects converted, or none and why."""
    review = _review(body, "ConversionReview", CONVERSION)
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise BadReview("the ConversionReview has no request with a uid")
    response: Json = {"uid": request["uid"], "convertedObjects": []}
    try:
        desired = request["desiredAPIVersion"]
        response["convertedObjects"] = [convert(obj, desired) for obj in request.get("objects") or ()]
        response["result"] = {"status": "Success"}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        response["convertedObjects"] = []
        response["result"] = {"status": "Failed", "message": f"{type(error).__name__}: {error}"}
    return msgspec.json.encode({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response})


def fitting(warnings: Iterable[str]) -> list[str]:
    """Warnings cut so that the API server passes on each of them."""
    kept: list[str] = []
    left = WARNINGS_LENGTH
    for text in warnings:
        short = text if len(text) <= WARNING_LENGTH else text[: WARNING_LENGTH - 1] + "…"
        left -= len(short.encode())
        if left < 0:
            break
        kept.append(short)
    return kept


def _review(body: bytes, kind: str, versions: Sequence[str]) -> Json:
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadReview(f"the body is no JSON {kind}") from None
    if not isinstance(review, dict) or review.get("kind") != kind or review.get("apiVersion") not in versions:
        raise BadReview(f"expected a {kind} of {' or '.join(versions)}")
    return review


def _table(request: Json, name: str) -> Json:
    value = request.get(name)
    return value if isinstance(value, dict) else {}


def _status(decision: Decision) -> Json:
    causes = [{"reason": cause.reason, "field": cause.field, "message": cause.message} for cause in decision.causes]
    said = "; ".join(f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in decision.causes)
    status: Json = {"status": "Failure", "code": decision.code, "message": decision.message or said}
    status["reason"] = {422: "Invalid", 403: "Forbidden", 400: "BadRequest"}.get(decision.code, "InternalError")
    if causes:
        status["details"] = {"causes": causes}
    return status
