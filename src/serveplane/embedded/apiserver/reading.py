"""GET and LIST: stored bytes out, as they are wherever possible."""

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from serveplane.embedded.apiserver import errors, representation
from serveplane.embedded.apiserver.request import Answer, Request, unsupported_option
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.apiserver.selecting import Selection, check_syntax, selection
from serveplane.embedded.store import Expired, Key, Record
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

GONE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the "
    "continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the "
    "provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first "
    "chunk was returned and now may show up in the list."
)
WHATEVER_VERSION = -1


class _Token(NamedTuple):
    """Where a list goes on, and at which version; `WHATEVER_VERSION` for one that knows it is not consistent."""

    version: int
    after: str


def found(core: "Core", resource: Resource, namespace: str, name: str) -> Record:
    record = core.store.get(resource.bucket, Key(namespace if resource.namespaced else "", name))
    if record is None:
        raise errors.not_found(resource.plural, resource.group, name)
    return record


async def get(core: "Core", request: Request, resource: Resource) -> Answer:
    record = found(core, resource, request.target.namespace, request.target.name)
    form = representation.negotiated(request.headers, core.clock)
    data = record.data
    if resource.converts:
        data = await core.convert.one(resource, data)
    return Answer(200, representation.one(form, resource, data, request.query.get("includeObject", "")))


async def list_(core: "Core", request: Request, resource: Resource) -> Answer:
    form = representation.negotiated(request.headers, core.clock)
    request.number("limit")
    check_syntax(request)
    _check_match(request)
    chosen = selection(request, resource)
    records, metadata = _page(core, request, resource, chosen)
    items: Iterable[bytes] = [record.data for record in records]
    if resource.converts:
        items = await core.convert.many(resource, list(items))
    return Answer(200, representation.many(form, resource, items, metadata, request.query.get("includeObject", "")))


def _page(core: "Core", request: Request, resource: Resource, chosen: Selection) -> tuple[list[Record], Json]:
    limit = max(request.number("limit") or 0, 0)
    token = request.query.get("continue", "")
    if token or _is_exact(request, limit):
        return _exact(core, request, resource, chosen, limit, token)
    _check_version(core, request)
    records = _current(core, resource, chosen)
    return _cut(records, core.store.version, limit, resource)


def _is_exact(request: Request, limit: int) -> bool:
    """Whether the list is to be as it was at a version: that is asked for, or meant by whoever names a version and wants pages."""
    match, version = request.query.get("resourceVersionMatch", ""), request.query.get("resourceVersion", "")
    return match == "Exact" or (not match and limit > 0 and version not in ("", "0"))


def _current(core: "Core", resource: Resource, chosen: Selection) -> list[Record]:
    if chosen.name and chosen.namespace is not None:
        record = core.store.get(resource.bucket, Key(chosen.namespace, chosen.name))
        return [record] if record is not None and chosen.matches(record) else []
    records = core.store.records(resource.bucket, chosen.namespace)
    return list(records) if chosen.all else [record for record in records if chosen.matches(record)]


def _check_version(core: "Core", request: Request) -> None:
    version = request.query.get("resourceVersion", "")
    if version and parse_version(version) > core.store.version:
        raise too_large_version(parse_version(version), core.store.version)


def _check_match(request: Request) -> None:
    match, causes = request.query.get("resourceVersionMatch", ""), list[errors.Cause]()
    if match and not request.query.get("resourceVersion"):
        why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        causes.append(errors.Cause("FieldValueForbidden", why, "resourceVersionMatch"))
    if match == "Exact" and request.query.get("resourceVersion") == "0":
        why = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append(errors.Cause("FieldValueForbidden", why, "resourceVersionMatch"))
    if match not in ("", "NotOlderThan", "Exact"):
        causes.append(unsupported_option("resourceVersionMatch", f'"{match}"', ["Exact", "NotOlderThan", ""]))
    if causes:
        raise errors.invalid("ListOptions", "meta.k8s.io", "", causes)


def too_large_version(asked: int, now: int) -> errors.Refusal:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return errors.Refusal(504, "Timeout", f"Timeout: Too large resource version: {asked}, current: {now}", details, 1)


def parse_version(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise errors.bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def _exact(
    core: "Core", request: Request, resource: Resource, chosen: Selection, limit: int, token: str
) -> tuple[list[Record], Json]:
    """A list at one past version: a later page, or one that was asked for."""
    place = _read_token(token) if token else _Token(parse_version(request.query.get("resourceVersion", "")), "")
    if place.version > core.store.version:
        raise too_large_version(place.version, core.store.version)
    if place.version == WHATEVER_VERSION:
        place = _Token(core.store.version, place.after)
    try:
        records = core.store.records_at(resource.bucket, place.version)
    except Expired:
        raise _forgotten(place if token else None) from None
    left = [record for record in records if chosen.matches(record) and record.key.place > place.after]
    return _cut(left, place.version, limit, resource)


def _forgotten(place: _Token | None) -> errors.Refusal:
    """A reader of pages is told how to have the rest nevertheless."""
    if place is None:
        return errors.expired("The resourceVersion for the provided list is too old.")
    refusal = errors.expired(GONE)
    refusal.metadata = {"continue": _write_token(_Token(WHATEVER_VERSION, place.after))}
    return refusal


def _cut(records: list[Record], version: int, limit: int, resource: Resource) -> tuple[list[Record], Json]:
    metadata = list_metadata(resource, version)
    if limit and len(records) > limit:
        metadata["continue"] = _write_token(_Token(version, records[limit - 1].key.place))
        metadata["remainingItemCount"] = len(records) - limit
        records = records[:limit]
    return records, metadata


def list_metadata(resource: Resource, version: int) -> Json:
    """Custom resources have an empty `continue` in their lists, Kubernetes' own leave it out."""
    return {"continue": "", "resourceVersion": str(version)} if resource.custom else {"resourceVersion": str(version)}


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(
        msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": token.version, "start": token.after})
    ).decode()


def _read_token(text: str) -> _Token:
    try:
        value = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return _Token(int(value["rv"]), str(value["start"]))
    except (ValueError, KeyError, TypeError):
        raise errors.bad_request(
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"
        ) from None
