"""Reading `application/vnd.kubernetes.protobuf` bodies of Kubernetes' own kinds.

One small reader over a table of field numbers. It gives the same tree as the JSON form would: inlined structs are lifted, times and
quantities become text, bytes become base64.
"""

import base64
import datetime
import lzma
import struct
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from serveplane.clock import micro_timestamp, timestamp
from serveplane.embedded.apiserver import errors
from serveplane.objects import Json, schema

MAGIC = b"k8s\x00"
META = "k8s.io.apimachinery.pkg.apis.meta.v1."
QUANTITY = "k8s.io.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "k8s.io.apimachinery.pkg.util.intstr.IntOrString"
UNKNOWN = {1: "typeMeta", 2: "raw", 3: "contentEncoding", 4: "contentType"}
SIGNED = frozenset({"int32", "int64"})
DEPTH = 64


class Malformed(ValueError):
    """Bytes that are no protobuf message of the expected type."""


def decode(body: bytes) -> Json:
    """The object in Kubernetes' envelope: magic, then `Unknown` with type and raw bytes."""
    try:
        return _decode(body)
    except (Malformed, IndexError, struct.error, UnicodeDecodeError, OverflowError, ValueError) as error:
        raise errors.bad_request(f"error decoding protobuf: {error}") from None


def _decode(body: bytes) -> Json:
    if not body.startswith(MAGIC):
        raise Malformed("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = {UNKNOWN.get(number, ""): value for number, _, value in fields(body[len(MAGIC) :])}
    types = {number: value.decode() for number, _, value in fields(_bytes(envelope.get("typeMeta", b"")))}
    api_version, kind = types.get(1, ""), types.get(2, "")
    name = message_name(api_version, kind)
    if name is None:
        raise Malformed(f"no protobuf form is known of {api_version} {kind}")
    return {"kind": kind, "apiVersion": api_version, **message(name, _bytes(envelope.get("raw", b"")), 0)}


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise Malformed("wrong wire type")
    return value


def message_name(api_version: str, kind: str) -> str | None:
    group, _, version = api_version.rpartition("/")
    for package in (
        f"k8s.io.api.{group.split('.')[0] or 'core'}.{version}",
        f"k8s.io.apiextensions_apiserver.pkg.apis.{group.split('.')[0]}.{version}",
    ):
        if f"{package}.{kind}" in table():
            return f"{package}.{kind}"
    return f"{META}{kind}" if f"{META}{kind}" in table() else None


@cache
def table() -> dict[str, dict[str, list[str]]]:
    data = resources.files("serveplane.embedded.apiserver").joinpath("data/protobuf.json.xz").read_bytes()
    found: dict[str, dict[str, list[str]]] = msgspec.json.decode(lzma.decompress(data))
    return found


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Field number, wire type and value, in order."""
    position, end = 0, len(data)
    while position < end:
        tag, position = varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, position = varint(data, position)
            yield number, wire, value
        elif wire == 2:
            size, position = varint(data, position)
            if size > end - position:
                raise Malformed("unexpected end of message")
            yield number, wire, data[position : position + size]
            position += size
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            yield number, wire, data[position : position + size]
            position += size
        else:
            raise Malformed(f"wire type {wire} is not used by Kubernetes")


def varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
        if shift > 63:
            raise Malformed("number too long")


def message(name: str, data: bytes, depth: int) -> Json:
    if depth > DEPTH:
        raise Malformed("nested too deeply")
    known, inlined, result = table()[name], _inlined(name), dict[str, Any]()
    for number, _, raw in fields(data):
        field = known.get(str(number))
        if field is None:
            continue
        json_name, kind, how = field
        if how == "m":
            key, value = _entry(kind, raw, depth)
            result.setdefault(json_name, {})[key] = value
        elif how == "*":
            result.setdefault(json_name, []).append(_value(kind, raw, depth))
        elif json_name in inlined:
            result.update(_value(kind, raw, depth))
        else:
            result[json_name] = _value(kind, raw, depth)
    return _without_zeros(result, name)


def _entry(kind: str, raw: Any, depth: int) -> tuple[str, Any]:
    parts = {number: value for number, _, value in fields(_bytes(raw))}
    empty: Any = 0 if kind in SIGNED or kind == "bool" else b""
    return parts.get(1, b"").decode(), _value(kind, parts.get(2, empty), depth)


def _value(kind: str, raw: Any, depth: int) -> Any:
    if kind == "string":
        return _bytes(raw).decode()
    if kind == "bool":
        return bool(raw)
    if kind in SIGNED:
        return raw - (1 << 64) if raw >= 1 << 63 else raw
    if kind == "bytes":
        return base64.b64encode(_bytes(raw)).decode()
    if kind in ("double", "float"):
        return struct.unpack("<d" if kind == "double" else "<f", _bytes(raw))[0]
    special = _SPECIAL.get(kind)
    return special(_bytes(raw)) if special else _message_or_list(kind, _bytes(raw), depth)


def _message_or_list(kind: str, raw: bytes, depth: int) -> Any:
    """Go slices and maps behind a name (`type Verbs []string`) are messages with the one field `items`."""
    if kind not in table():
        raise Malformed(f"unknown type {kind}")
    value = message(kind, raw, depth + 1)
    is_list = [field[0] for field in table()[kind].values()] == ["items"] and not kind.endswith("List")
    return value.get("items", []) if is_list else value


def _time(raw: bytes) -> str | None:
    moment = _moment(raw)
    return None if moment is None else timestamp(moment)


def _micro_time(raw: bytes) -> str | None:
    moment = _moment(raw)
    return None if moment is None else micro_timestamp(moment)


def _moment(raw: bytes) -> datetime.datetime | None:
    parts = {number: value for number, _, value in fields(raw)}
    if not parts:
        return None
    seconds = _value("int64", parts.get(1, 0), 0)
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return start + datetime.timedelta(seconds=seconds, microseconds=parts.get(2, 0) // 1000)


def _quantity(raw: bytes) -> str:
    return next((value.decode() for number, _, value in fields(raw) if number == 1), "0")


def _int_or_string(raw: bytes) -> int | str:
    parts = {number: value for number, _, value in fields(raw)}
    value: int | str = parts.get(3, b"").decode() if parts.get(1) else _value("int32", parts.get(2, 0), 0)
    return value


def _raw_json(raw: bytes) -> Any:
    text = next((value for number, _, value in fields(raw) if number == 1), b"null")
    return msgspec.json.decode(text)


def _duration(raw: bytes) -> str:
    return f"{next((value for number, _, value in fields(raw) if number == 1), 0) / 1e9:g}s"


_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    f"{META}Time": _time,
    f"{META}MicroTime": _micro_time,
    QUANTITY: _quantity,
    INT_OR_STRING: _int_or_string,
    f"{META}FieldsV1": _raw_json,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _raw_json,
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON": _raw_json,
    f"{META}Duration": _duration,
}


@cache
def _inlined(name: str) -> frozenset[str]:
    """Fields of the message that are no field of the JSON form: Go embeds them."""
    shape = _shape(name)
    if shape is None:
        return frozenset()
    return frozenset(field[0] for field in table()[name].values() if not shape.knows(field[0]) and field[1] in table())


@cache
def _shape(name: str) -> schema.Shape | None:
    """`k8s.io.api.core.v1.Pod` is `core.v1.Pod` in the table of types."""
    short = ".".join(name.split(".")[-3:])
    return schema.named_type(short) if short in schema.kubernetes_types() else None


def _without_zeros(value: Json, name: str) -> Json:
    """Go writes empty text and null times for what was not set; the JSON form leaves those out."""
    shape = _shape(name)
    required = shape.required if shape else ()
    return {key: item for key, item in value.items() if item is not None and (item != "" or key in required)}
