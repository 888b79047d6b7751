"""HTTP/2 frames, as far as a party that passes them on must know them (RFC 9113, section 4): where one ends and the next begins."""
from collections.abc import Iterator
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0x0, 0x1, 0x3, 0x4, 0x7, 0x8, 0x9
ACK = END_STREAM = 0x1
END_HEADERS, PADDED, PRIORITY = 0x4, 0x8, 0x20
MAX_FRAME = 16_384   # what every peer accepts unless it said more

NO_ERROR, PROTOCOL_ERROR, COMPRESSION_ERROR, REFUSED_STREAM, ENHANCE_YOUR_CALM = 0x0, 0x1, 0x9, 0x7, 0xB
HEADER_BYTES = 9


class FrameError(Exception):
    """The peer broke the framing; the connection ends with this code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class FrameHead(NamedTuple):
    length: int
    kind: int
    flags: int
    stream: int


def head_of(data: bytes) -> FrameHead:
    return FrameHead(int.from_bytes(data[:3], "big"), data[3], data[4], int.from_bytes(data[5:9], "big") & 0x7FFFFFFF)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """
    >>> frame(SETTINGS, 0, 0).hex()
    '000000040000000000'
    """
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def header_frames(stream: int, block: bytes, end_stream: bool) -> bytes:
    """A header block as one HEADERS and as many CONTINUATIONs as it takes."""
    parts = [block[at:at + MAX_FRAME] for at in range(0, len(block), MAX_FRAME)] or [b""]
    frames = []
    for place, part in enumerate(parts):
        flags = (END_HEADERS if place == len(parts) - 1 else 0) | (END_STREAM if end_stream and place == 0 else 0)
        frames.append(frame(CONTINUATION if place else HEADERS, flags, stream, part))
    return b"".join(frames)


def goaway(code: int, last_stream: int = 0) -> bytes:
    return frame(GOAWAY, 0, 0, last_stream.to_bytes(4, "big") + code.to_bytes(4, "big"))


def block_of(head: FrameHead, payload: bytes) -> bytes:
    """The header block fragment in a HEADERS payload, without padding and priority."""
    start, end = 0, len(payload)
    if head.flags & PADDED:
        if not payload:
            raise FrameError(PROTOCOL_ERROR, "padding without a length")
        start, end = 1, end - payload[0]
    if head.flags & PRIORITY:
        start += 5
    if start > end:
        raise FrameError(PROTOCOL_ERROR, "more padding than payload")
    return payload[start:end]


class FrameCutter:
    """Cuts a byte stream at frame borders.

    Frames the caller `keeps` come whole, as (head, payload). All others come in pieces as they arrive, as (head, piece, first):
    their payload is never collected, so memory does not depend on what the peer sends.
    """

    __slots__ = ("_buffer", "_head", "_kept", "_left", "keep", "longest")

    def __init__(self, keep: frozenset[int], longest: int) -> None:
        self.keep = keep
        self.longest = longest
        self._buffer = b""
        self._head: FrameHead | None = None
        self._left = 0
        self._kept = False

    @property
    def at_border(self) -> bool:
        return self._head is None and not self._buffer

    def cut(self, data: bytes) -> Iterator[tuple[FrameHead, bytes, bool]]:
        """(head, payload or piece of it, whether it is the first piece)."""
        data, self._buffer, at = self._buffer + data, b"", 0
        while True:
            first = self._head is None
            if self._head is None:
                if len(data) - at < HEADER_BYTES:
                    break
                self._begin(data[at:at + HEADER_BYTES])
                at += HEADER_BYTES
            head, available = self._head, len(data) - at
            assert head is not None
            if self._kept and available < head.length:
                break
            take = min(self._left, available)
            self._left -= take
            if self._left == 0:
                self._head = None
            elif take == 0 and not first:
                break
            yield head, data[at:at + take], first or self._kept
            at += take
        self._buffer = data[at:]

    def _begin(self, raw: bytes) -> None:
        self._head = head = head_of(raw)
        self._left = head.length
        self._kept = head.kind in self.keep
        if self._kept and head.length > self.longest:
            raise FrameError(ENHANCE_YOUR_CALM, "a header frame is too long")
