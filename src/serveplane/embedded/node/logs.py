"""A container's log: written line by line with the time, read back as `kubectl logs` asks.

One file per run of the container (`0.log`, `1.log`, ...), each line as the container runtimes write it:
`2026-01-02T03:04:05.123456Z stdout F text`. A file that grows too large is cut once: the older half is kept as `.old`.
"""
import asyncio
import datetime
import io
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from serveplane.clock import Clock, micro_timestamp, parse_timestamp

LARGEST = 10 * 1024 * 1024
LONGEST_LINE = 16 * 1024
HEAD = "2026-01-02T03:04:05.123456Z"


class LogWriter:
    """Takes what a process writes, in pieces, and puts whole lines into the file."""

    def __init__(self, file: Path, clock: Clock) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file = file
        self._clock = clock
        self._out = file.open("ab", buffering=0)
        self._size = self._out.tell()
        self._partial: dict[str, bytes] = {}
        self.grown = asyncio.Event()   # set on each write; a follower replaces it after it woke
        self.closed = False

    def write(self, stream: str, data: bytes) -> None:
        if self.closed:
            return
        *whole, rest = (self._partial.pop(stream, b"") + data).split(b"\n")
        while len(rest) >= LONGEST_LINE:
            whole.append(rest[:LONGEST_LINE])
            rest = rest[LONGEST_LINE:]
        if rest:
            self._partial[stream] = rest
        if whole:
            self._append(stream, whole)

    def close(self) -> None:
        if self.closed:
            return
        for stream, rest in self._partial.items():
            self._append(stream, [rest])
        self._partial.clear()
        self.closed = True
        self._out.close()
        self._tell()

    def _append(self, stream: str, lines: list[bytes]) -> None:
        head = f"{micro_timestamp(self._clock.now())} {stream} F ".encode()
        block = b"".join(head + line + b"\n" for line in lines)
        try:
            self._out.write(block)
        except OSError:   # a full disk costs log lines, not the pod
            return
        self._size += len(block)
        if self._size > LARGEST:
            self._rotate()
        self._tell()

    def _rotate(self) -> None:
        try:
            self.file.replace(self.file.with_suffix(".old"))
            fresh = self.file.open("ab", buffering=0)
        except OSError:   # then it goes on in the file it has
            return
        self._out.close()
        self._out, self._size = fresh, 0

    def _tell(self) -> None:
        grown, self.grown = self.grown, asyncio.Event()
        grown.set()


@dataclass(frozen=True)
class LogQuery:
    """The options of `kubectl logs`."""
    follow: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: datetime.datetime | None = None
    limit: int | None = None


def read_log(file: Path, query: LogQuery) -> bytes:
    """What is in the log now."""
    return _limited(b"".join(_selected(_lines(file), query)), query.limit)


async def follow_log(file: Path, writer: LogWriter | None, query: LogQuery) -> AsyncIterator[bytes]:
    """What is in the log now, then what is added, until the run ends."""
    position = _size(file)
    sent = _limited(b"".join(_selected(_lines(file, position), query)), query.limit)
    total = len(sent)
    if sent:
        yield sent
    while writer is not None and (query.limit is None or total < query.limit):
        grown, over = writer.grown, writer.closed
        if _size(file) < position:   # cut meanwhile
            position = 0
        fresh, position = _after(file, position)
        if fresh:
            piece = _limited(b"".join(_shown(line, query) for line in fresh), query.limit and query.limit - total)
            total += len(piece)
            yield piece
        elif over:
            return
        else:
            await grown.wait()


def _lines(file: Path, until: int | None = None) -> Iterator[bytes]:
    old = file.with_suffix(".old")
    if old.exists():
        yield from old.read_bytes().splitlines(keepends=True)
    if file.exists():
        with file.open("rb") as source:
            yield from io.BytesIO(source.read() if until is None else source.read(until))


def _selected(lines: Iterator[bytes], query: LogQuery) -> list[bytes]:
    wanted = [line for line in lines if query.since is None or _moment(line) >= query.since]
    if query.tail is not None:
        wanted = wanted[-query.tail:] if query.tail > 0 else []
    return [_shown(line, query) for line in wanted]


def _shown(line: bytes, query: LogQuery) -> bytes:
    head, _, rest = line.partition(b" ")
    text = rest.split(b" ", 2)[-1]
    return head + b" " + text if query.timestamps else text


def _moment(line: bytes) -> datetime.datetime:
    try:
        return parse_timestamp(line[:len(HEAD)].decode())
    except ValueError:
        return datetime.datetime.max.replace(tzinfo=datetime.UTC)


def _after(file: Path, position: int) -> tuple[list[bytes], int]:
    with file.open("rb") as source:
        source.seek(position)
        data = source.read()
    end = data.rfind(b"\n") + 1
    return data[:end].splitlines(keepends=True), position + end


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _limited(data: bytes, limit: int | None) -> bytes:
    return data if limit is None else data[:limit]
