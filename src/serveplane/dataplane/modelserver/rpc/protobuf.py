"""Protocol Buffers' wire format, as far as the inference protocol needs it.

The messages are few and their bulk is packed numbers, which numpy reads from the bytes directly; so a hundred lines
here spare a heavy import and a list of Python floats per tensor. Tests hold it against Google's implementation.
"""
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver.errors import InvalidInput
from serveplane.dataplane.modelserver.tensors import Array

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
Field = tuple[int, int, Any]   # number, wire type, int | memoryview


def fields(raw: bytes | memoryview) -> Iterator[Field]:
    """The fields of a message, in order; numbers as unsigned ints, everything else as a view."""
    view, offset, end = memoryview(raw), 0, len(raw)
    while offset < end:
        tag, offset = _varint(view, offset)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise InvalidInput("the message is not valid protobuf: field number 0")
        if wire == VARINT:
            value, offset = _varint(view, offset)
            yield number, wire, value
            continue
        if wire == LENGTH:
            size, offset = _varint(view, offset)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise InvalidInput(f"the message is not valid protobuf: wire type {wire}")
        if offset + size > end:
            raise InvalidInput("the message is cut short")
        yield number, wire, view[offset:offset + size]
        offset += size


def _varint(view: memoryview, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if offset >= len(view) or shift > 63:
            raise InvalidInput("the message is cut short or not valid protobuf")
        byte = view[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, offset
        shift += 7


def text(value: Any) -> str:
    try:
        return str(value, "utf-8")
    except (UnicodeDecodeError, TypeError):
        raise InvalidInput("the message holds text that is not UTF-8") from None


def signed(value: Any) -> int:
    """An int64 from its two's complement."""
    if not isinstance(value, int):
        raise InvalidInput("the message holds a field of the wrong type")
    return value - (1 << 64) if value >= 1 << 63 else value


def packed_varints(values: list[tuple[int, Any]]) -> Array:
    """Repeated varints, packed or one by one, as unsigned 64-bit numbers."""
    parts = [np.array([value], np.uint64) if wire == VARINT else _unpacked(value) for wire, value in values]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.uint64), *parts])


def _unpacked(view: memoryview) -> Array:
    """All varints of a packed field at once: each byte's seven bits, shifted by its place in its number, and added up."""
    data = np.frombuffer(view, np.uint8)
    last = data < 0x80
    if len(data) and not last[-1]:
        raise InvalidInput("the message is cut short within a number")
    ends = np.flatnonzero(last)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    if len(ends) and int((ends - starts).max()) > 9:
        raise InvalidInput("the message holds a number longer than 64 bits")
    place = np.arange(len(data)) - np.repeat(starts, ends - starts + 1)
    bits = (data & 0x7F).astype(np.uint64) << (place * 7).astype(np.uint64)
    return np.add.reduceat(bits, starts) if len(ends) else np.empty(0, np.uint64)


def packed_fixed(values: list[tuple[int, Any]], dtype: str) -> Array:
    """Repeated floats or doubles, packed or one by one."""
    try:
        parts = [np.frombuffer(value, dtype) for _, value in values]
    except (ValueError, TypeError):
        raise InvalidInput("the message holds numbers cut short") from None
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype), *parts])


class Writer:
    """A message being written; default values are left out, as proto3 has it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def done(self) -> bytes:
        return b"".join(self._parts)

    def varint(self, number: int, value: int) -> "Writer":
        if value:
            self._parts += [encoded_varint(number << 3), encoded_varint(value & 0xFFFFFFFFFFFFFFFF)]
        return self

    def raw(self, number: int, value: bytes) -> "Writer":
        """A field of bytes that is written even if empty: a message, an element of a list."""
        self._parts += [encoded_varint(number << 3 | LENGTH), encoded_varint(len(value)), value]
        return self

    def text(self, number: int, value: str) -> "Writer":
        return self.raw(number, value.encode()) if value else self

    def double(self, number: int, value: float) -> "Writer":
        self._parts += [encoded_varint(number << 3 | FIXED64), struct.pack("<d", value)]
        return self

    def varints(self, number: int, values: Any) -> "Writer":
        packed = b"".join(encoded_varint(int(value) & 0xFFFFFFFFFFFFFFFF) for value in values)
        return self.raw(number, packed) if packed else self

    def map_of(self, number: int, values: "dict[str, bytes]") -> "Writer":
        for name, value in values.items():
            self.raw(number, Writer().text(1, name).raw(2, value).done())
        return self


def encoded_varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
