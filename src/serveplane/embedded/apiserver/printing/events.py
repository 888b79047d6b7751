"""The cells of an event, whichever group it was written by."""

import datetime

from serveplane.embedded.apiserver.durations import since
from serveplane.embedded.apiserver.printing.column import field
from serveplane.objects import Json


def about(value: Json) -> str:
    regarding = _regarding(value)
    kind, name = regarding.get("kind", "").lower(), regarding.get("name")
    return f"{kind}/{name}" if name else kind


def part(value: Json) -> str:
    return str(_regarding(value).get("fieldPath", ""))


def _regarding(value: Json) -> Json:
    found: Json = value.get("involvedObject") or value.get("regarding") or {}
    return found


def source(value: Json) -> str:
    found = value.get("source") or value.get("deprecatedSource") or {}
    component = found.get("component") or value.get("reportingComponent") or value.get("reportingController") or ""
    host = found.get("host") or value.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


def message(value: Json) -> str:
    return str(value.get("message") or value.get("note") or "").strip()


def first_seen(value: Json, now: datetime.datetime) -> str:
    return since(value.get("firstTimestamp") or value.get("deprecatedFirstTimestamp") or value.get("eventTime"), now)


def last_seen(value: Json, now: datetime.datetime) -> str:
    if value.get("series") is not None:
        return since(field(value, "series.lastObservedTime"), now)
    last = value.get("lastTimestamp") or value.get("deprecatedLastTimestamp")
    return since(last, now) if last else first_seen(value, now)


def times(value: Json, now: datetime.datetime) -> int:
    if value.get("series") is not None:
        return field(value, "series.count") or 0
    return value.get("count") or value.get("deprecatedCount") or 1
