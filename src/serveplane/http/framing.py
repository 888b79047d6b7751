"""Where a body ends (RFC 9112, section 6): by length, by chunks, or with the connection.

A decoder takes bytes as they come, gives the payload to its `Body`, and hands back what lies beyond the message's end. It knows
that end to the byte, so whatever follows is parsed as the next message and never as part of this one, or the other way round.
"""
import re
from typing import Protocol

from serveplane.http.body import Body
from serveplane.http.errors import ProtocolViolation
from serveplane.http.headers import TOKEN

CHUNK_LINE_BYTES = 4096      # a size line with its extensions
CHUNK_EXCESS_BYTES = 16384   # framing beyond what the payload explains: 1-byte chunks with long extensions burn CPU for nothing
TRAILER_BYTES = 16384

_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*+"'
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;" + TOKEN + rb"++(?:=(?:" + TOKEN + rb"++|" + _QUOTED + rb"))?+)*+\r\n")
_TRAILERS = re.compile(rb"(?:" + TOKEN + rb"++:[\t\x20-\x7e\x80-\xff]*+\r\n)*+\r\n")
_BARE_LF = re.compile(rb"(?<!\r)\n")


class Decoder(Protocol):
    def feed(self, data: bytes) -> bytes:
        """Take what belongs to the body; give back what lies beyond its end."""

    @property
    def done(self) -> bool: ...


class LengthDecoder:
    """A body of a declared length."""

    __slots__ = ("_body", "remaining")

    def __init__(self, body: Body, length: int) -> None:
        self._body = body
        self.remaining = length

    @property
    def done(self) -> bool:
        return self.remaining == 0

    def feed(self, data: bytes) -> bytes:
        size, remaining = len(data), self.remaining
        if size < remaining:
            self.remaining = remaining - size
            self._body.feed(data)
            return b""
        self.remaining = 0
        self._body.feed(data if size == remaining else data[:remaining])
        self._body.finish()
        return data[remaining:]


class EofDecoder:
    """A response body that ends with the connection."""

    __slots__ = ("_body",)
    done = False

    def __init__(self, body: Body) -> None:
        self._body = body

    def feed(self, data: bytes) -> bytes:
        self._body.feed(data)
        return b""


class ChunkedDecoder:
    """A chunked body. Strict: CRLF only, no blanks around the size, well-formed extensions; trailers are checked and dropped."""

    __slots__ = ("_body", "_buffer", "_excess", "_remaining", "_state", "done")

    SIZE, DATA, DATA_END, TRAILERS = range(4)

    def __init__(self, body: Body) -> None:
        self._body = body
        self._buffer = b""
        self._state = self.SIZE
        self._remaining = 0
        self._excess = 0
        self.done = False

    def feed(self, data: bytes) -> bytes:
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        position = 0
        while position < len(data) and not self.done:
            step = self._step(data, position)
            if step < 0:
                self._buffer = data[position:]
                return b""
            position = step
        return data[position:]

    def _step(self, data: bytes, position: int) -> int:
        """One element of the framing: the position after it, or -1 if it is not all here yet."""
        state = self._state
        if state == self.DATA:
            return self._data(data, position)
        if state == self.SIZE:
            return self._size(data, position)
        if state == self.DATA_END:
            return self._data_end(data, position)
        return self._trailers(data, position)

    def _size(self, data: bytes, position: int) -> int:
        match = _SIZE_LINE.match(data, position)
        if match is None:
            end = data.find(b"\n", position)
            if end >= 0 or len(data) - position > CHUNK_LINE_BYTES:
                raise ProtocolViolation("malformed chunk size")
            return -1
        line = match.end() - position
        if line > CHUNK_LINE_BYTES:
            raise ProtocolViolation("chunk extensions are too long")
        self._remaining = int(match[1], 16)
        self._excess = max(0, self._excess + line - 16 - self._remaining)
        if self._excess > CHUNK_EXCESS_BYTES:
            raise ProtocolViolation("too much chunk framing for too little data")
        self._state = self.DATA if self._remaining else self.TRAILERS
        return match.end()

    def _data(self, data: bytes, position: int) -> int:
        end = min(len(data), position + self._remaining)
        self._remaining -= end - position
        self._body.feed(data[position:end])
        if self._remaining == 0:
            self._state = self.DATA_END
        return end

    def _data_end(self, data: bytes, position: int) -> int:
        tail = data[position:position + 2]
        if tail == b"\r\n":
            self._state = self.SIZE
            return position + 2
        if tail != b"\r":
            raise ProtocolViolation("chunk data is longer than its size says")
        return -1

    def _trailers(self, data: bytes, position: int) -> int:
        match = _TRAILERS.match(data, position)
        if match is None:
            if b"\r\n\r\n" in data[position:] or _BARE_LF.search(data, position) or data[position:position + 1] == b"\n":
                raise ProtocolViolation("malformed trailers")
            if len(data) - position > TRAILER_BYTES:
                raise ProtocolViolation("trailers are too long", 431)
            return -1
        if match.end() - position > TRAILER_BYTES:
            raise ProtocolViolation("trailers are too long", 431)
        self.done = True
        self._body.finish()
        return match.end()
