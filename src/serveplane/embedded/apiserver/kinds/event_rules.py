"""What is checked of events, in both of their groups.

A time of its own (`eventTime`) marks the newer kind, of which more is asked.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.kinds.checking import missing
from serveplane.embedded.apiserver.kinds.metadata import QUALIFIED, invalid
from serveplane.objects import Json, names

LONGEST = 128
LONGEST_NOTE = 1024
IMMUTABLE = "field is immutable"
REFERENCE = ("Kind", "Namespace", "Name", "UID", "APIVersion", "ResourceVersion", "FieldPath")
SETTLED: tuple[tuple[str, str], ...] = (
    ("regarding", "involvedObject"), ("reason", "reason"), ("note", "message"), ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"), ("deprecatedLastTimestamp", "lastTimestamp"), ("deprecatedCount", "count"),
    ("reason", "reason"), ("type", "type"), ("eventTime", "eventTime"), ("action", "action"), ("related", "related"),
    ("reportingController", "reportingController"), ("reportingInstance", "reportingInstance"),
)  # fmt: skip
"""What an update by the newer group may not change, and what the older one calls it."""


def event(value: Json, path: str) -> Iterator[Cause]:
    yield from _any(value, value.get("involvedObject") or {}, "reportingComponent", value.get("message") or "")


def modern_event(value: Json, path: str) -> Iterator[Cause]:
    yield from _any(value, value.get("regarding") or {}, "reportingController", value.get("note") or "")


def new_modern_event(value: Json) -> Iterator[Cause]:
    """What only a new event of the newer group must be: without anything that is left from the older."""
    yield from _series(value)
    if value.get("eventTime") is None:
        yield missing("eventTime")
    if value.get("type") not in ("Normal", "Warning"):
        yield invalid("type", "", f"has invalid value: {value.get('type') or ''}")
    for field, old in (("deprecatedFirstTimestamp", "firstTimestamp"), ("deprecatedLastTimestamp", "lastTimestamp")):
        if value.get(field) is not None:
            yield invalid(old, "", "needs to be unset")
    if value.get("deprecatedCount"):
        yield invalid("count", "", "needs to be unset")
    source = value.get("deprecatedSource") or {}
    if source.get("component") or source.get("host"):
        yield invalid("source", "", "needs to be unset")


def changed_modern_event(value: Json, live: Json) -> Iterator[Cause]:
    if value.get("series") != live.get("series"):
        yield from _series(value)
    for field, old in SETTLED:
        new, before = value.get(field), live.get(field)
        if new != before and (field == "related" or (new or None) != (before or None)):
            yield Cause("FieldValueInvalid", f"Invalid value: {_told(field, value.get(field))}: {IMMUTABLE}", old)


def _told(field: str, value: Any) -> str:
    """As the server's own types would be written."""
    if field in ("regarding", "related"):
        return "null" if value is None else msgspec.json.encode({name: value.get(_json_name(name), "") for name in REFERENCE}).decode()
    if field == "deprecatedSource":
        return msgspec.json.encode({"Component": (value or {}).get("component", ""), "Host": (value or {}).get("host", "")}).decode()
    empty: Any = 0 if field == "deprecatedCount" else None if field.endswith(("Time", "Timestamp")) else ""
    return msgspec.json.encode(value or empty).decode()


def _json_name(name: str) -> str:
    return {"UID": "uid", "APIVersion": "apiVersion"}.get(name, name[0].lower() + name[1:])


def _series(value: Json) -> Iterator[Cause]:
    series = value.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if series.get("lastObservedTime") is None:
        yield missing("series.lastObservedTime")


def _any(value: Json, about: Json, controller: str, note: str) -> Iterator[Cause]:
    namespace, other = value["metadata"].get("namespace") or "", about.get("namespace") or ""
    if value.get("eventTime") is None:
        if other != namespace and not (not other and namespace == "default"):
            yield invalid("involvedObject.namespace", other, "does not match event.namespace")
        return
    if not other and namespace not in ("default", "kube-system"):
        yield invalid("involvedObject.namespace", other, "does not match event.namespace")
    reporter = value.get(controller) or ""
    if not reporter:
        yield missing(controller)
    if not names.is_qualified_name(reporter):
        yield from (invalid(controller, reporter, why) for why in _unqualified(reporter))
    for field in ("reportingInstance", "action", "reason"):
        if not value.get(field):
            yield missing(field)
        elif len(value[field].encode()) > LONGEST:
            yield invalid(field, "", f"can have at most {LONGEST} characters")
    if len(note.encode()) > LONGEST_NOTE:
        yield invalid("message", "", f"can have at most {LONGEST_NOTE} characters")


def _unqualified(name: str) -> Iterator[str]:
    if not name:
        yield "name part must be non-empty"
    yield QUALIFIED
