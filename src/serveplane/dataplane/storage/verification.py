"""Checksums that keep up with the download: what is complete from the start of the file on is hashed while the rest still arrives."""
import hashlib
import mmap
import os
import threading
from collections.abc import Iterable

from serveplane.dataplane.storage.staging import Range, missing

WINDOW = 8 << 20


class RunningHash:
    """The digest of a file that is written out of order. Any thread may advance it; one at a time does."""

    def __init__(self, descriptor: int, algorithm: str, size: int | None, written: Iterable[Range] = ()) -> None:
        self._descriptor, self._size = descriptor, size
        self._hash = hashlib.new(algorithm, usedforsecurity=False)   # against accidents; MD5 is all that some stores have
        self._complete: list[Range] = list(written)
        self._reached = 0
        self._lock = threading.Lock()

    def add(self, start: int, end: int) -> None:
        """This range is written."""
        self._complete.append((start, end))

    def advance(self) -> None:
        """Hash what has become complete, unless another thread is at it."""
        if self._size is None or not self._lock.acquire(blocking=False):
            return
        try:
            gaps = missing(self._size, list(self._complete))
            self._read_to(gaps[0][0] if gaps else self._size)
        finally:
            self._lock.release()

    def digest(self) -> str:
        """Of the whole file, as it now is."""
        with self._lock:
            self._read_to(os.fstat(self._descriptor).st_size)
            return self._hash.hexdigest()

    def _read_to(self, end: int) -> None:
        """Through large windows of the file: each costs one turn of Python's lock, which busy threads hand over slowly."""
        while self._reached < end:
            base = self._reached - self._reached % mmap.ALLOCATIONGRANULARITY
            length = min(end, base + WINDOW) - base
            with mmap.mmap(self._descriptor, length, access=mmap.ACCESS_READ, offset=base) as window, memoryview(window) as view:
                self._hash.update(view[self._reached - base:])
            self._reached = base + length
