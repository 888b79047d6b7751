"""Checksums that keep up with the download: what is complete from the start of the file on is hashed while the rest still arrives."""
import hashlib
import os
import threading
from collections.abc import Iterable

from serveplane.dataplane.storage.staging import Range, missing


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

    def advance(self, buffer: memoryview) -> None:
        """Hash what has become complete, unless another thread is at it."""
        if self._size is None or not self._lock.acquire(blocking=False):
            return
        try:
            gaps = missing(self._size, list(self._complete))
            self._read_to(gaps[0][0] if gaps else self._size, buffer)
        finally:
            self._lock.release()

    def digest(self, buffer: memoryview) -> str:
        """Of the whole file, as it now is."""
        with self._lock:
            self._read_to(os.fstat(self._descriptor).st_size, buffer)
            return self._hash.hexdigest()

    def _read_to(self, end: int, buffer: memoryview) -> None:
        while self._reached < end:
            count = os.preadv(self._descriptor, [buffer[:min(len(buffer), end - self._reached)]], self._reached)
            if count == 0:
                return
            self._hash.update(buffer[:count])
            self._reached += count
