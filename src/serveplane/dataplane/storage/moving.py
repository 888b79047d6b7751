"""From a connection to a file: by `splice` where the kernel can hand bytes over by itself, else by `recv_into` and `pwrite`.

All three leave Python's lock alone. `splice` never brings the bytes into the process, which saves one of two copies; it needs a plain
connection (TLS is undone in the process) and a file system that takes part, so whoever refuses once is not asked again.
"""
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from serveplane.dataplane.storage.connection import Response
from serveplane.dataplane.storage.errors import StorageError

BUFFER = 1 << 20
_SET_PIPE_SIZE = 1031   # F_SETPIPE_SZ, which `fcntl` names only where it was built with it
Count = Callable[[int], None]


class Target(NamedTuple):
    """An open file that several threads write to.

    They take turns here, because the kernel lets only one at a time write to a file anyway, and threads that queue up inside it are
    woken late: on a busy machine with eight at one file the whole took up to twice as long (for a tenth less CPU).
    """

    descriptor: int
    writing: threading.Lock


class Mover:
    """One thread's buffer and pipe."""

    def __init__(self) -> None:
        self._buffer: memoryview | None = None
        self._pipe = _pipe()

    def close(self) -> None:
        for descriptor in self._pipe or ():
            os.close(descriptor)
        self._pipe = None

    def move(self, response: Response, file: Target, offset: int, limit: int | None, arrived: Count, written: Count) -> bool:
        """About a megabyte, told in both callbacks; whether there may be more."""
        wanted = BUFFER if limit is None else min(BUFFER, limit)
        if self._pipe is not None and response.direct:
            try:
                count = response.splice(self._pipe[1], wanted)
            except OSError:        # not between these two
                self.close()
            else:
                with file.writing:
                    self._out_of_pipe(count, file.descriptor, offset)
                written(count)
                arrived(count)
                return count > 0
        return self._by_buffer(response, file, offset, wanted, arrived, written)

    def _out_of_pipe(self, count: int, descriptor: int, offset: int) -> None:
        assert self._pipe is not None
        end = offset + count
        while offset < end and self._pipe is not None:
            try:
                offset += os.splice(self._pipe[0], descriptor, end - offset, offset_dst=offset)
            except OSError:        # a file system that cannot, or a full disk: writing will tell
                offset = self._read_out(end, descriptor, offset)
                self.close()

    def _read_out(self, end: int, descriptor: int, offset: int) -> int:
        assert self._pipe is not None
        while offset < end:
            piece = os.read(self._pipe[0], end - offset)
            write(descriptor, memoryview(piece), offset)
            offset += len(piece)
        return offset

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
                if self._pipe is not None and response.direct:
                    break          # what came along with the head is through
        finally:                   # what has arrived is kept, whatever happened after
            with file.writing:
                write(file.descriptor, view[:filled], offset)
            written(filled)
        return True


def write(descriptor: int, data: memoryview, offset: int) -> None:
    """All of it, at its place."""
    while len(data):
        try:
            count = os.pwrite(descriptor, data, offset)
        except OSError as error:
            raise StorageError(f"cannot write to the destination: {error.strerror}") from error
        data, offset = data[count:], offset + count


def _pipe() -> tuple[int, int] | None:
    if not hasattr(os, "splice"):
        return None
    import fcntl
    try:
        ends = os.pipe()
    except OSError:
        return None
    with suppress(OSError):   # the user has many pipes already: a small one works too
        fcntl.fcntl(ends[1], _SET_PIPE_SIZE, BUFFER)
    return ends
