"""HTTP/1.1 on one blocking socket, for worker threads: a request out, a head in, a body into the caller's buffer or file.

The standard library's client reads every head with a parser made for e-mail, which for small files costs more than the file; and it
does not hand out its socket, so that nothing could go from there to a file without passing through the process. This is the part of
HTTP that a download needs: heads, bodies by length, in chunks or to the end, connections that are kept.

The kernel watches the time in steps of a second: a thread that waits is never deaf for longer to what `idle` has to say.
"""
import os
import re
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress

HEAD_BYTES = 64 << 10
TICK_SECONDS = 1.0
_AT_ONCE, _HEAD_AT_ONCE, _END = 16 << 10, 4 << 10, b"\r\n\r\n"
_RECORD, _RECORDS = 16 << 10, 256 << 10   # TLS gives one record at a time: after a full one the next is tried at once
_STATUS = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: .*)?")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,15})(?:[;\t ].*)?\r\n", re.DOTALL)
Idle = Callable[[], None]


class Broken(OSError):
    """The other side does not speak HTTP as it should, or stopped in the middle."""


class TooLate(Broken):
    """Nothing came for the whole of the time."""


class Ended(Broken):
    """The connection was closed where an answer should begin or go on: a kept one may be, at any time."""


def nothing() -> None:
    """Nobody wants to interrupt."""


class Wire:
    """One connection. It carries one request at a time; `free` says whether it may carry the next."""

    def __init__(self, sock: socket.socket, timeout: float, idle: Idle = nothing) -> None:
        self.socket, self._timeout, self._idle = sock, timeout, idle
        self.plain = not isinstance(sock, ssl.SSLSocket)
        self.early = b""          # came along with the head
        self.free = True
        self._wakes_at = 1
        step = min(TICK_SECONDS, timeout)
        self._ticks = max(1, round(timeout / step))
        if self.plain:            # without Python's own polling before each call
            sock.settimeout(None)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(step), int(step % 1 * 1e6)))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(timeout), int(timeout % 1 * 1e6)))
        else:
            sock.settimeout(step)

    def exchange(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> "Answer":
        """Send a request and read the head of its answer."""
        self.free = False
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.socket.sendall("\r\n".join((*lines, "\r\n")).encode("latin-1") + (body or b""))
        while True:
            answer = Answer(self, self._head(), method)
            if answer.status >= 200:
                return answer

    def receive(self, view: memoryview, flags: int = 0) -> int:
        """At least one byte, 0 at the end of the connection; TooLate if none comes in time."""
        if self.plain:
            return self.patient(lambda: self.socket.recv_into(view, len(view), flags))
        filled = count = self.patient(lambda: self.socket.recv_into(view))
        limit = min(len(view), _RECORDS) if flags else 0
        with suppress(BlockingIOError, TimeoutError):   # what there is will do
            while count == _RECORD and filled < limit:
                filled += (count := self.socket.recv_into(view[filled:]))
        return filled

    def patient(self, take: Callable[[], int]) -> int:
        """What `take` returns, tried again tick by tick for the whole of the time."""
        for _ in range(self._ticks):
            try:
                return take()
            except (BlockingIOError, TimeoutError):
                self._idle()
        raise TooLate("nothing came for a while")

    def close(self) -> None:
        self.free = False
        self.socket.close()

    def more(self) -> None:
        """Some bytes that are not the body's alone, to `early`."""
        buffer = bytearray(_AT_ONCE)
        count = self.receive(memoryview(buffer))
        if count == 0:
            raise Ended("the connection was closed")
        self.early += buffer[:count]

    def wake_at(self, count: int) -> None:
        """Sleep until so many bytes are there, or a tick has passed: each time a thread is woken costs more than a packet does."""
        if count != self._wakes_at and self.plain:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._wakes_at = count

    def is_silent(self) -> bool:
        """Whether nothing has come that nobody asked for, be it the end."""
        if self.early or not self.plain:
            return not self.early
        try:
            self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        return False

    def _head(self) -> str:
        while (end := self.early.find(_END)) < 0:
            if len(self.early) > HEAD_BYTES:
                raise Broken("the head of the answer is too long")
            if self.plain:
                self._more_of_head()
            else:
                self.more()
        head, self.early = self.early[:end], self.early[end + 4:]
        return head.decode("latin-1")

    def _more_of_head(self) -> None:
        """Looked at before it is taken, so that all of the body is left for whoever wants it in a file."""
        buffer = bytearray(_HEAD_AT_ONCE)
        view, known = memoryview(buffer), self.early[-3:]
        count = self.receive(view, socket.MSG_PEEK)
        if count == 0:
            raise Ended("the connection was closed")
        end = (known + buffer[:count]).find(_END)
        taken = self.receive(view[:count if end < 0 else end + len(_END) - len(known)])
        self.early += buffer[:taken]


class Answer:
    """A head, and the body that follows it."""

    def __init__(self, wire: Wire, head: str, method: str) -> None:
        self._wire = wire
        first, *fields = head.split("\r\n")
        match = _STATUS.fullmatch(first)
        if match is None:
            raise Broken("the answer is not HTTP")
        self.status = int(match[2])
        self.headers = _headers(fields)
        words = self.headers.get("connection", "").casefold()
        self.keeps = "close" not in words and (match[1] == "1" or "keep-alive" in words)
        self.chunked = False
        self._in_chunk = 0
        self.left = self._length(method)   # bytes of the body still to come; None: not known
        if self.left == 0 and self.status >= 200:
            self._finished()

    def _length(self, method: str) -> int | None:
        if method == "HEAD" or self.status < 200 or self.status in (204, 304):
            return 0
        if coding := self.headers.get("transfer-encoding", "").strip().casefold():
            if coding != "chunked":
                raise Broken(f"the transfer coding {coding[:40]!r} is not known")
            self.chunked = True
            return None
        text = self.headers.get("content-length")
        if text is None:
            self.keeps = False
            return None
        if not text.isascii() or not text.isdigit():
            raise Broken("the length of the answer is no number")
        return int(text)

    @property
    def direct(self) -> bool:
        """Whether the bytes now waiting at the socket are the body's and nothing else."""
        return self._wire.plain and not self._wire.early and not self.chunked and self.left is not None

    def readinto(self, view: memoryview) -> int:
        """Bytes of the body; 0 at its end."""
        if self.left == 0 or not len(view):
            return 0
        if self.chunked:
            return self._chunked(view)
        view = view if self.left is None else view[:self.left]
        self._wire.wake_at(1)
        count = self._taken(view, socket.MSG_WAITALL)
        return self._counted(count)

    def splice(self, pipe: int, count: int) -> int:
        """Up to so many bytes from the socket into a pipe; 0 at the end of the body. Only while `direct`."""
        if not self.left:
            return 0
        source, wanted = self._wire.socket.fileno(), min(count, self.left)
        self._wire.wake_at(wanted)
        count = self._counted(self._wire.patient(lambda: os.splice(source, pipe, wanted)))
        if not self.left:
            self._wire.wake_at(1)
        return count

    def _counted(self, count: int) -> int:
        if self.left is None:
            if count == 0:
                self.left = 0
            return count
        if count == 0:
            raise Broken(f"the answer ended {self.left} bytes early")
        self.left -= count
        if self.left == 0:
            self._finished()
        return count

    def _taken(self, view: memoryview, flags: int = 0) -> int:
        wire = self._wire
        if not wire.early:
            return wire.receive(view, flags)
        count = min(len(wire.early), len(view))
        view[:count] = wire.early[:count]
        wire.early = wire.early[count:]
        return count

    def _chunked(self, view: memoryview) -> int:
        if self._in_chunk == 0 and not self._next_chunk():
            self.left = 0
            self._finished()
            return 0
        count = self._taken(view[:self._in_chunk])
        if count == 0:
            raise Broken("the answer ended in the middle of a chunk")
        self._in_chunk -= count
        if self._in_chunk == 0 and self._line() != b"\r\n":
            raise Broken("a chunk is longer than it says")
        return count

    def _next_chunk(self) -> bool:
        match = _CHUNK.fullmatch(self._line())
        if match is None:
            raise Broken("the length of a chunk is no number")
        self._in_chunk = int(match[1], 16)
        while self._in_chunk == 0 and self._line() != b"\r\n":
            pass   # trailers
        return self._in_chunk > 0

    def _line(self) -> bytes:
        wire = self._wire
        while (end := wire.early.find(b"\r\n")) < 0:
            if len(wire.early) > _AT_ONCE:
                raise Broken("a line between two chunks is too long")
            wire.more()
        line, wire.early = wire.early[:end + 2], wire.early[end + 2:]
        return line

    def _finished(self) -> None:
        self._wire.free = self.keeps and self._wire.is_silent()


def _headers(fields: list[str]) -> dict[str, str]:
    """By lower-case name; what comes twice is joined, but two lengths are one too many."""
    headers: dict[str, str] = {}
    for field in fields:
        name, colon, value = field.partition(":")
        if not colon or not _NAME.fullmatch(name):
            raise Broken("a header of the answer cannot be understood")
        name, value = name.lower(), value.strip(" \t")
        known = headers.get(name)
        if known is not None and name == "content-length" and known != value:
            raise Broken("the answer has two lengths")
        headers[name] = value if known is None or name == "content-length" else f"{known}, {value}"
    return headers
