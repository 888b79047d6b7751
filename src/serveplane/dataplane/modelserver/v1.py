"""The V1 protocol: `{"instances": [...]}` in, `{"predictions": [...]}` out."""
from typing import Any, NamedTuple

import msgspec

from serveplane.dataplane.modelserver.cloudevents import (
    STRUCTURED,
    Event,
    binary_event,
    response_headers_and_body,
    structured_event,
)
from serveplane.dataplane.modelserver.errors import InvalidInput
from serveplane.http.headers import Headers
from serveplane.http.messages import HeaderItems

JSON_TYPES = ("application/json", STRUCTURED, "application/ld+json", "application/octet-stream", "application/x-www-form-urlencoded", "")
JSON_HEADERS = Headers.fixed([("Content-Type", "application/json")])
TEXT_HEADERS = Headers.fixed([("Content-Type", "text/plain; charset=utf-8")])
BINARY_HEADERS = Headers.fixed([("Content-Type", "application/octet-stream")])
_decode = msgspec.json.Decoder().decode


class Decoded(NamedTuple):
    payload: Any
    event: Event | None


def decode(headers: Any, body: bytes) -> Decoded:
    """The JSON body; anything of another content type reaches the model as bytes."""
    event = binary_event(headers)
    kind = (headers.get("content-type") or "").partition(";")[0].strip().casefold()
    if kind not in JSON_TYPES and body[:1] not in (b"{", b"["):
        return Decoded(body, event)
    payload = json_value(body)
    if event is None:
        payload, event = structured_event(payload)
    return Decoded(payload, event)


def json_value(body: bytes) -> Any:
    try:
        return _decode(body)
    except RecursionError:
        raise InvalidInput("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the body is not JSON: {error}") from None


def encode(result: Any, model: str, event: Event | None) -> tuple[HeaderItems, bytes]:
    """Headers and body of the answer."""
    if isinstance(result, bytes):
        content, kind = result, BINARY_HEADERS
    elif isinstance(result, str):
        content, kind = result.encode(), TEXT_HEADERS
    else:
        content, kind = json_bytes(result), JSON_HEADERS
    if event is None:
        return kind, content
    return response_headers_and_body(event, model, content)


def _plain(value: Any) -> Any:
    """Arrays and numpy's scalars, wherever a user's model left them; V2 responses of a model asked by V1."""
    for method in ("tolist", "to_json"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"a {type(value).__name__} is not JSON")


json_bytes = msgspec.json.Encoder(enc_hook=_plain).encode
