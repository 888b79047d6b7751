"""CloudEvents as requests: binary (attributes in `ce-` headers) and structured (attributes around `data`).

The answer comes in the same form.
"""
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from serveplane.clock import SYSTEM, Clock
from serveplane.dataplane.modelserver.errors import InvalidInput

STRUCTURED = "application/cloudevents+json"
_REQUIRED = ("specversion", "id", "source", "type")


class Event(NamedTuple):
    attributes: dict[str, str]
    binary: bool


def binary_event(headers: Any) -> Event | None:
    """The event whose attributes are headers; None if this is an ordinary request."""
    if headers.get("ce-specversion") is None:
        return None
    folded = ((name.casefold(), value) for name, value in headers.items())
    attributes = {name[3:]: value for name, value in folded if name.startswith("ce-")}
    _check(attributes, "ce-")
    return Event(attributes, True)


def structured_event(body: Any) -> tuple[Any, Event | None]:
    """The data and the event around it, if the body is one."""
    if not isinstance(body, dict) or "specversion" not in body or "data" not in body:
        return body, None
    attributes = {name: str(value) for name, value in body.items() if name != "data"}
    _check(attributes, "")
    return body["data"], Event(attributes, False)


def response_headers_and_body(event: Event, model: str, result: bytes, clock: Clock = SYSTEM,
                              environment: Mapping[str, str] = os.environ) -> tuple[list[tuple[str, str]], bytes]:
    """KServe's names for the answer; CE_MERGE=true carries the request's attributes over."""
    attributes = dict(event.attributes) if environment.get("CE_MERGE", "false").casefold() == "true" else {}
    attributes |= {
        "specversion": event.attributes["specversion"],
        "id": clock.uuid(),
        "type": environment.get("CE_TYPE", "io.kserve.inference.response"),
        "source": environment.get("CE_SOURCE", f"io.kserve.inference.{model}"),
        "time": clock.now().isoformat(),
    }
    if event.binary:
        return [*((f"ce-{name}", value) for name, value in attributes.items()), ("Content-Type", "application/json")], result
    body = msgspec.json.encode({**attributes, "data": msgspec.Raw(result)})
    return [("Content-Type", STRUCTURED)], body


def _check(attributes: Mapping[str, str], prefix: str) -> None:
    for name in _REQUIRED:
        if not attributes.get(name):
            raise InvalidInput("is missing", f"{prefix}{name}")
    if attributes["specversion"] not in ("1.0", "0.3"):
        raise InvalidInput(f"version {attributes['specversion']!r} is not known", f"{prefix}specversion")
