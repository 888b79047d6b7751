"""Request bodies: JSON, YAML or protobuf in, one object out.

Duplicate fields are found only when the quick test says there may be some: decoding and encoding again shortens a body
exactly when something was dropped or was written with blanks.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from serveplane.embedded.apiserver import errors, protobuf
from serveplane.embedded.apiserver.request import Request
from serveplane.objects import Json, yamlio

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
ACCEPTED = (JSON, YAML, PROTOBUF)
LIMIT = 3 << 20
SHOWN_BYTES = 30
YAML_DEPTH = 1_000
_BRACKET = re.compile(rb"[\[\]{}]")
YAML_NODES = 1_000_000
YAML_TEXT = 4 * LIMIT
"""What the texts of a document may come to once its aliases are written out; without aliases they fit into the body."""
YAML_AT_ONCE = 32 << 10
"""Larger ones take their time, so they are read beside the event loop, one after the other."""
APPLY_CONFIGURATION = "application/apply-patch+yaml"
_READER = ThreadPoolExecutor(1, "yaml")


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", JSON).split(";")[0].strip().lower() or JSON


async def settle(request: Request) -> None:
    """Turn a large YAML body into JSON, while others are served."""
    if len(request.body) <= YAML_AT_ONCE or media_type(request.headers) not in (YAML, APPLY_CONFIGURATION):
        return
    if request.body.lstrip()[:1] == b"{" and _is_json(request.body):
        return
    request.body = await asyncio.get_running_loop().run_in_executor(_READER, _as_json, request.body)


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _as_json(body: bytes) -> bytes:
    return msgspec.json.encode(_yaml(body))


def decoded(request: Request, wanted: str = "Object") -> Json:
    """The object of a create or update."""
    kind = media_type(request.headers)
    if kind == PROTOBUF:
        return _object(protobuf.decode(request.body))
    if kind == YAML:
        return _object(lenient(request.body))
    if kind not in (JSON, "*/*"):
        raise errors.unsupported_media_type(kind, ACCEPTED)
    return _object(json_value(request.body, wanted))


def json_value(body: bytes, wanted: str = "Object") -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.bad_request(_unreadable(body, wanted, str(error))) from None
    except RecursionError:
        raise errors.bad_request("the object provided is nested too deeply") from None


def _unreadable(body: bytes, wanted: str, error: str) -> str:
    """The real server's sentence; how the text was wrong is told by its own parser where it is short enough to say."""
    if "truncated" in error:
        error = "unexpected end of JSON input"
    told = f"couldn't get version/kind; json parse error: {error} ({summary(body)})"
    return f"the object provided is unrecognized (must be of type {wanted}): {told}"


def summary(body: bytes) -> str:
    """The beginning of a body, as messages show it."""
    return body[:SHOWN_BYTES].decode(errors="replace") + (" ..." if len(body) > SHOWN_BYTES else "")


def lenient(body: bytes) -> Any:
    """JSON if it is JSON, which is YAML too, but read sooner; YAML otherwise."""
    try:
        return msgspec.json.decode(body)
    except RecursionError:
        raise errors.bad_request("the object provided is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _yaml(body)


def _yaml(body: bytes) -> Any:
    if body.count(b"[") + body.count(b"{") > YAML_DEPTH and _depth(body) > YAML_DEPTH:  # its parser would take its time
        raise errors.bad_request("error decoding YAML: nested too deeply")
    try:
        documents = list(yamlio.load_all(body.decode()))
        if documents and not _is_small(documents[0]):
            raise ValueError("yaml: document contains excessive aliasing")
    except (ValueError, RecursionError) as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from None
    return documents[0] if documents else {}


def _depth(text: bytes) -> int:
    """How deep brackets are nested, at most; those inside of texts count too, which no honest document notices."""
    depth = deepest = 0
    for found in _BRACKET.finditer(text):
        depth += 1 if found[0] in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _is_small(value: Any) -> bool:
    nodes, text = _size(value, {})
    return nodes <= YAML_NODES and text <= YAML_TEXT


def _size(value: Any, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """How many nodes a value has and how long its texts are once its aliases are written out.

    Each shared part is looked at once, and counted as often as it occurs.
    """
    if not isinstance(value, dict | list):
        return 1, len(value) if isinstance(value, str) else 0
    if id(value) not in known:
        known[id(value)] = YAML_NODES, 0  # an alias to itself never ends
        parts = [_size(item, known) for item in (value.values() if isinstance(value, dict) else value)]
        nodes, text = 1 + sum(part[0] for part in parts), sum(part[1] for part in parts)
        known[id(value)] = nodes, text + (sum(map(len, value)) if isinstance(value, dict) else 0)
    return known[id(value)]


def _object(value: Any) -> Json:
    if not isinstance(value, dict):
        raise errors.bad_request("the object provided is unrecognized (must be of type Object)")
    return value


def duplicates(body: bytes, value: Any) -> list[str]:
    """Paths of fields that occur twice in a JSON body."""
    if len(msgspec.json.encode(value)) == len(body.strip()):
        return []
    found: list[str] = []
    try:
        tree = json.loads(body, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return []
    _find_duplicates(tree, "", found)
    return found


class _Pairs(list[tuple[str, Any]]):
    """An object with all its members, equal names included."""


def _find_duplicates(node: Any, path: str, found: list[str]) -> None:
    if isinstance(node, _Pairs):
        seen: set[str] = set()
        for name, child in node:
            at = f"{path}.{name}" if path else name
            if name in seen and at not in found:
                found.append(at)
            seen.add(name)
            _find_duplicates(child, at, found)
    elif isinstance(node, list):
        for index, child in enumerate(node):
            _find_duplicates(child, f"{path}[{index}]", found)
