"""From a connection to a file: by `splice` where the kernel can hand bytes over by itself, else by `recv_into` and `pwrite`.

All three leave Python's lock alone. `splice` never brings the bytes into the process, which saves one of two copies; it needs a plain
connection (TLS is undone in the process) and a file system that takes part, so whoever refuses once is not asked again.

Measured and left out: receiving into a map of the file, which needs no turns, but takes a page fault for every 4 KB and with them
twice the CPU, be they taken one by one or (MADV_POPULATE_WRITE) many at once.
"""
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from serveplane.dataplane.storage.connection import Response
from serveplane.dataplane.storage.errors import StorageError

BUFFER = 1 << 20
PIPES = 4   # of a buffer's size, which is what a user may have: filled one after the other, emptied in one turn at the file
_SET_PIPE_SIZE, _GET_SEALS = 1031, 1034   # of `fcntl`, which names them only where it was built with them
Count = Callable[[int], None]
Pipe = tuple[int, int]


class Target(NamedTuple):
    """An open file that several threads write to.

    They take turns here, because the kernel lets only one at a time write to a file anyway, and threads that queue up inside it are
    woken late: on a busy machine with eight at one file the whole took up to twice as long (for a tenth less CPU).
    """

    descriptor: int
    writing: threading.Lock


class Mover:
    """One thread's buffer and pipes."""

    def __init__(self) -> None:
        self._buffer: memoryview | None = None
        self._pipes: list[Pipe] = []
        self._splices = hasattr(os, "splice")
        self.turns = self.waits = 0   # writes, and those of them that had to wait for another thread's

    def close(self) -> None:
        for pipe in self._pipes:
            for descriptor in pipe:
                os.close(descriptor)
        self._pipes = []
        self._splices = False

    def move(self, response: Response, file: Target, offset: int, limit: int | None, arrived: Count, written: Count) -> bool:
        """Up to a few megabytes, told in both callbacks; whether there may be more."""
        if self._splices and response.direct:
            count = self._by_pipes(response, file, offset, BUFFER * PIPES if limit is None else limit, arrived, written)
            if count is not None:
                return count > 0
        return self._by_buffer(response, file, offset, BUFFER if limit is None else min(BUFFER, limit), arrived, written)

    def _by_pipes(self, response: Response, file: Target, offset: int, limit: int, arrived: Count, written: Count) -> int | None:
        """How many bytes; None if the kernel does not splice from here. What is in a pipe gets written, whatever happens after."""
        filled: list[int] = []
        try:
            self._fill(response, limit, filled, arrived)
        except OSError:
            if not filled:
                self.close()
                return None
        finally:
            if filled:
                with self._turn(file):
                    self._empty(filled, file.descriptor, offset)
                written(sum(filled))
        return sum(filled)

    def _turn(self, file: Target) -> threading.Lock:
        self.turns += 1
        self.waits += file.writing.locked()
        return file.writing

    def _fill(self, response: Response, limit: int, filled: list[int], arrived: Count) -> None:
        while limit and len(filled) < PIPES:
            if len(filled) == len(self._pipes):
                self._pipes.append(_pipe())
            wanted = min(BUFFER, limit)
            count = response.splice(self._pipes[len(filled)][1], wanted)
            if count == 0:
                return
            filled.append(count)
            limit -= count
            arrived(count)
            if count < wanted // 2:   # the rest is still on its way: this much can be written meanwhile
                return

    def _empty(self, counts: list[int], descriptor: int, offset: int) -> None:
        pipes = self._pipes
        for (pipe, _), count in zip(pipes, counts, strict=False):
            end = offset + count
            while offset < end:
                try:
                    offset += os.splice(pipe, descriptor, end - offset, offset_dst=offset)
                except OSError:        # a file system that cannot, or a full disk: writing will tell
                    offset = _read_out(pipe, end, descriptor, offset)
                    self._splices = False

    def _by_buffer(self, response: Response, file: Target, offset: int, wanted: int, arrived: Count, written: Count) -> bool:
        """One full buffer at a time: each write is a turn at the file's lock."""
        self._buffer = self._buffer or memoryview(bytearray(BUFFER))
        view, filled = self._buffer[:wanted], 0
        try:
            while filled < wanted:
                count = response.readinto(view[filled:])
                if count == 0:
                    return False
                filled += count
                arrived(count)
                if self._splices and response.direct:
                    break          # what came along with the head is through
        finally:                   # what has arrived is kept, whatever happened after
            with self._turn(file):
                write(file.descriptor, view[:filled], offset)
            written(filled)
        return True


def is_in_memory(descriptor: int) -> bool:
    """Whether the file is the kernel's memory and nothing else (tmpfs): only such files can be sealed."""
    import fcntl
    try:
        return fcntl.fcntl(descriptor, _GET_SEALS) >= 0
    except OSError:
        return False


def _read_out(pipe: int, end: int, descriptor: int, offset: int) -> int:
    while offset < end:
        piece = os.read(pipe, end - offset)
        write(descriptor, memoryview(piece), offset)
        offset += len(piece)
    return offset


def write(descriptor: int, data: memoryview, offset: int) -> None:
    """All of it, at its place."""
    while len(data):
        try:
            count = os.pwrite(descriptor, data, offset)
        except OSError as error:
            raise StorageError(f"cannot write to the destination: {error.strerror}") from error
        data, offset = data[count:], offset + count


def _pipe() -> Pipe:
    import fcntl
    ends = os.pipe()
    with suppress(OSError):   # the user has many pipes already: a small one works too
        fcntl.fcntl(ends[1], _SET_PIPE_SIZE, BUFFER)
    return ends
