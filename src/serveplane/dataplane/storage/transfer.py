"""Parallel ranged reads straight into files.

Large files are cut into pieces that several threads fetch at once, each straight to the piece's place (`moving`); small files are
one piece each. Memory is one buffer per thread, whatever the size of the model.
What is written is journalled, so a killed run goes on where it was.
"""
import errno
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from serveplane.clock import SYSTEM, Clock
from serveplane.dataplane.storage.connection import Connections, Response
from serveplane.dataplane.storage.deadline import Deadline
from serveplane.dataplane.storage.errors import Changed, Corrupt, Interrupted, StorageError, shown
from serveplane.dataplane.storage.files import Checksum, Listing, RemoteFile
from serveplane.dataplane.storage.moving import Mover, Target, is_in_memory
from serveplane.dataplane.storage.progress import Progress
from serveplane.dataplane.storage.staging import Journal, Staging, missing
from serveplane.dataplane.storage.verification import RunningHash

JOURNAL_BYTES = 8 << 20       # how much a killed run may have to read again, per thread
ENOUGH, LATER_SECONDS = 2, 0.2   # threads that begin at once, and when the others do
STALL_BYTES = 32 << 10        # less than this in a whole stall window counts as standing still


@dataclass(frozen=True)
class TransferSettings:
    connections: int = 8
    piece_bytes: int = 32 << 20
    stall_seconds: float = 30.0
    attempts: int = 6              # in a row without a single byte of progress
    deadline_seconds: float | None = None
    verify: bool = True


@dataclass(eq=False)
class _Download:
    """A file on its way: open, partly written."""

    file: RemoteFile
    target: Target
    journal: Journal | None
    left: int                      # pieces not finished yet
    running: RunningHash | None    # if there is a checksum to compare with
    reserved: bool                 # room for a piece before its first byte; in memory that takes as long as it saves
    encrypted: bool = False        # by a key of the customer's: what S3 lists is then no checksum of the content


@dataclass(frozen=True, eq=False)
class _Piece:
    download: _Download
    start: int
    end: int | None                # None: to the end, whatever that is


class Transfer:
    """One run over the files of a listing."""

    def __init__(self, listing: Listing, staging: Staging, settings: TransferSettings, progress: Progress, clock: Clock = SYSTEM,
                 deadline: Deadline | None = None) -> None:
        self._listing, self._staging, self._settings, self._progress, self._clock = listing, staging, settings, progress, clock
        self._lock = threading.Lock()
        self._pieces: Iterator[_Piece] = iter(())
        self._open_downloads: set[_Download] = set()
        self._failure: BaseException | None = None
        self._movers: list[Mover] = []
        self._over = threading.Event()
        self._stop = threading.Event()
        self._deadline = deadline or Deadline(settings.deadline_seconds, clock)

    def run(self) -> None:
        """Read everything that is missing; raises the first failure after all threads have stopped."""
        files = [file for file in self._listing.files if not self._staging.has(file)]
        self._expect(files)
        self._check_room()
        self._pieces = self._all_pieces(files)
        count = min(self._settings.connections, max(1, self._estimated_pieces(files)))
        threads = [threading.Thread(target=self._work, args=(number,), name=f"download-{number}", daemon=True) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(1.0)   # short waits, so that Ctrl-C gets through
        for download in list(self._open_downloads):
            self._close(download)
        if self._failure is not None:
            raise self._failure

    def _expect(self, files: list[RemoteFile]) -> None:
        everything, sizes = self._listing.files, [file.size for file in self._listing.files]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        left = {id(file) for file in files}
        finished = sum(file.size or 0 for file in everything if id(file) not in left)
        partly = sum((file.size or 0) - sum(end - start for start, end in missing(file.size, self._staging.written(file)))
                     for file in files if file.size is not None and self._is_cut(file))
        self._progress.expect(len(everything), total, finished + partly)
        for _ in range(len(everything) - len(files)):
            self._progress.file_done()

    def _check_room(self) -> None:
        """A disk that is too small is known now, not after an hour."""
        if self._progress.total is None:
            return
        disk, needed = os.statvfs(self._staging.folder), self._progress.total - self._progress.done
        if disk.f_blocks and disk.f_bavail * disk.f_frsize < needed:
            raise StorageError(f"the disk has no room: {needed} bytes are needed, {disk.f_bavail * disk.f_frsize} are free")

    def _is_cut(self, file: RemoteFile) -> bool:
        return file.ranges and file.size is not None and file.size > self._settings.piece_bytes

    def _estimated_pieces(self, files: list[RemoteFile]) -> int:
        return sum(1 if not self._is_cut(file) else -(-(file.size or 0) // self._settings.piece_bytes) for file in files)

    def _all_pieces(self, files: list[RemoteFile]) -> Iterator[_Piece]:
        """Made as they are asked for, so that only files being read are open."""
        for file in files:
            yield from self._pieces_of(file)

    def _pieces_of(self, file: RemoteFile) -> Iterator[_Piece]:
        cut = self._is_cut(file)
        written = self._staging.written(file) if cut else []
        gaps = missing(file.size, written) if cut and file.size is not None else [(0, file.size)]
        step = self._settings.piece_bytes if cut else None
        spans = [span for start, end in gaps for span in _cut(start, end, step)]
        spans = spans or [(file.size or 0, file.size)]   # all was written but not verified: one empty piece takes the last step
        descriptor = os.open(self._staging.part(file), os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(descriptor, (file.size or 0) if cut else 0)
        running = None
        if self._settings.verify and file.checksum is not None:
            running = RunningHash(descriptor, file.checksum.algorithm, file.size, written)
        journal = Journal(self._staging.journal(file), afresh=not written) if cut else None
        download = _Download(file, Target(descriptor, threading.Lock()), journal, len(spans), running, cut and not is_in_memory(descriptor))
        self._open_downloads.add(download)
        for start, end in spans:
            yield _Piece(download, start, end)

    def _work(self, number: int) -> None:
        if self._is_late(number):
            return
        connections = Connections(self._listing.trust, self._settings.stall_seconds, self._check)
        mover = Mover()
        self._movers.append(mover)
        try:
            while not self._stop.is_set() and (piece := self._next()) is not None:
                self._fetch(piece, connections, mover)
                self._piece_done(piece)
        except BaseException as error:
            self._fail(error)
        finally:
            self._over.set()   # no piece is left to begin with, or none is wanted
            connections.close()
            mover.close()

    def _is_late(self, number: int) -> bool:
        """Whether a thread is not needed. A few begin at once; the others wait a moment and see whether those were held up by the network
        or by each other, writing: threads that only wake each other up make a fast download slower."""
        if number < ENOUGH:
            return False
        if self._over.wait(LATER_SECONDS):
            return True
        movers = list(self._movers)
        turns, waits = sum(mover.turns for mover in movers), sum(mover.waits for mover in movers)
        return turns > ENOUGH and waits > turns * 3 // 4

    def _next(self) -> _Piece | None:
        with self._lock:
            return next(self._pieces, None)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._failure is None:
                self._failure = error
        self._stop.set()

    def _fetch(self, piece: _Piece, connections: Connections, mover: Mover) -> None:
        """The whole piece, over as many connections as it takes."""
        if piece.start == piece.end:
            return
        if piece.download.reserved and piece.end is not None:
            _allocate(piece.download.target.descriptor, piece.start, piece.end - piece.start)
        reached, idle = piece.start, 0
        while True:
            began = reached
            try:
                reached = self._read(piece, reached, connections, mover)
                return
            except _Cut as cut:
                reached = cut.reached
                idle = idle + 1 if reached == began else 0
                self._pause(idle, cut.reason)

    def _pause(self, idle: int, reason: StorageError) -> None:
        if idle >= self._settings.attempts:
            raise reason
        seconds = 0.05 if idle == 0 else min(30.0, 0.125 * 2**idle) * (0.5 + self._clock.random())
        if self._stop.wait(seconds):
            raise reason
        self._deadline.check()

    def _read(self, piece: _Piece, start: int, connections: Connections, mover: Mover) -> int:
        """From `start` as far as the connection holds; raises _Cut with how far it got."""
        try:
            response = self._open(piece, start, connections)
        except Interrupted as error:
            raise _Cut(start, error) from error
        reader = _Reader(piece, start, response, self)
        try:
            reader.run(mover)
        except Interrupted as error:
            connections.forget(response)
            if not piece.download.file.ranges:   # cannot go on in the middle
                self._progress.take_back(reader.reached - piece.start)
                raise _Cut(piece.start, error) from error
            raise _Cut(reader.reached, error) from error
        except BaseException:
            connections.forget(response)
            raise
        finally:
            reader.record()
        return reader.reached

    def _open(self, piece: _Piece, start: int, connections: Connections) -> Response:
        file = piece.download.file
        headers = dict(self._listing.headers)
        partial = start > 0 or (file.size is not None and piece.end is not None and piece.end < file.size)
        if partial:
            headers["Range"] = f"bytes={start}-{'' if piece.end is None else piece.end - 1}"
        response = connections.get(file.url, headers, self._listing.authorize)
        piece.download.encrypted |= _is_encrypted(response)
        try:
            _check_answer(response, file, start, piece.end, partial)
        except StorageError:
            connections.forget(response)
            raise
        return response

    def _check(self) -> None:
        """Asked by every thread while bytes come, and once a second while none do."""
        if self._stop.is_set():
            raise Interrupted("stopped")
        self._deadline.check()

    def _piece_done(self, piece: _Piece) -> None:
        download = piece.download
        with self._lock:
            download.left -= 1
            last = download.left == 0
        if last:
            self._complete(download)
        elif download.running is not None and piece.end is not None:
            download.running.add(piece.start, piece.end)
            download.running.advance()

    def _complete(self, download: _Download) -> None:
        """Verify, then give it the name that means finished."""
        file = download.file
        try:
            if download.running is not None and file.checksum is not None and not (download.encrypted and file.checksum.algorithm == "md5"):
                self._verify(file, file.checksum, download.running.digest())
        finally:
            self._close(download)
        self._staging.finish(file)
        self._progress.file_done()

    def _close(self, download: _Download) -> None:
        with self._lock:
            self._open_downloads.discard(download)
        os.close(download.target.descriptor)
        if download.journal is not None:
            download.journal.close()

    def _verify(self, file: RemoteFile, checksum: Checksum, digest: str) -> None:
        if digest == checksum.digest:
            return
        for leftover in (self._staging.journal(file), self._staging.part(file)):   # else the next run would find it written
            leftover.unlink(missing_ok=True)
        raise Corrupt(f"{shown(file.url)}: {checksum.algorithm} is {digest}, the source says {checksum.digest}")


class _Cut(Exception):
    def __init__(self, reached: int, reason: StorageError) -> None:
        super().__init__(str(reason))
        self.reached, self.reason = reached, reason


class _Reader:
    """Moves one answer's bytes to their place in the file."""

    def __init__(self, piece: _Piece, start: int, response: Response, transfer: Transfer) -> None:
        self._piece, self._response, self._transfer = piece, response, transfer
        self.reached = start
        self._recorded = start
        self._window_began, self._window_bytes = transfer._clock.monotonic(), 0

    def run(self, mover: Mover) -> None:
        piece, response, target = self._piece, self._response, self._piece.download.target
        while piece.end is None or self.reached < piece.end:
            limit = None if piece.end is None else piece.end - self.reached
            if not mover.move(response, target, self.reached, limit, self._keep_pace, self._written):
                break
        if piece.end is not None and self.reached < piece.end:
            raise Interrupted(f"{shown(response.url)} ended {piece.end - self.reached} bytes early")

    def _written(self, count: int) -> None:
        self.reached += count
        self._transfer._progress.add(count)
        if self.reached - self._recorded >= JOURNAL_BYTES:
            self.record()

    def _keep_pace(self, count: int) -> None:
        transfer = self._transfer
        transfer._check()
        self._window_bytes += count
        now, patience = transfer._clock.monotonic(), transfer._settings.stall_seconds
        if now - self._window_began > patience:
            if self._window_bytes < STALL_BYTES:
                raise Interrupted(f"{shown(self._response.url)} stalls: {self._window_bytes} bytes in {patience:g} s")
            self._window_began, self._window_bytes = now, 0

    def record(self) -> None:
        if self._piece.download.journal is not None:
            self._piece.download.journal.add(self._recorded, self.reached)
            self._recorded = self.reached


def _is_encrypted(response: Response) -> bool:
    return response.header("x-amz-server-side-encryption").startswith("aws:kms") or bool(
        response.header("x-amz-server-side-encryption-customer-algorithm"))


def _check_answer(response: Response, file: RemoteFile, start: int, end: int | None, partial: bool) -> None:
    """Exactly the bytes asked for, of exactly the content that was listed."""
    if partial and response.status == 200:
        raise Changed(f"{shown(file.url)} no longer gives parts of the file")
    if partial:
        unit, _, rest = response.header("Content-Range").partition(" ")
        span, _, total = rest.partition("/")
        wanted = f"{start}-{(end if end is not None else file.size or 0) - 1}"
        if unit != "bytes" or (span != wanted and end is not None):
            raise StorageError(f"{shown(file.url)} gave bytes {rest or 'unknown'} where {wanted} were asked for")
        if file.size is not None and total not in ("*", str(file.size)):
            raise Changed(f"{shown(file.url)} is {total} bytes long, but was {file.size}")
    elif file.size is not None and response.length is not None and response.length != file.size:
        raise Changed(f"{shown(file.url)} is {response.length} bytes long, but was {file.size}")
    etag = response.header("ETag")
    if file.etag and etag and etag.strip('"') != file.etag:
        raise Changed(f"{shown(file.url)} changed while it was being downloaded")


def _cut(start: int, end: int | None, step: int | None) -> Iterator[tuple[int, int | None]]:
    if end is None or step is None:
        yield start, end
        return
    for at in range(start, end, step):
        yield at, min(at + step, end)


def _allocate(descriptor: int, start: int, length: int) -> None:
    """Room for a piece before its first byte comes; by the thread that will write it, while others already read."""
    try:
        os.posix_fallocate(descriptor, start, length)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise StorageError(f"the disk has no room for {length} more bytes") from error
