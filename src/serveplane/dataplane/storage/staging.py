"""Where unfinished files wait, so that a destination never shows half a model and a killed download goes on where it was.

    DEST/.serveplane-download/<key>.part   being written        <key>.done   which ranges of it are written
                              <key>.file   complete, verified   complete     every file is; moving has begun

The key is made of path, size and ETag: a source that changed is another file, and the old rest is thrown away at the end.

Nothing is flushed to the disk: what a killed process wrote, the kernel still has. A machine that lost its power does not, so
what waits here is believed only by the system that wrote it (`boot`).
"""
import hashlib
import os
import shutil
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from serveplane.dataplane.storage.errors import Unsafe
from serveplane.dataplane.storage.files import RemoteFile

FOLDER = ".serveplane-download"
_RANGE = struct.Struct("<QQ")
Range = tuple[int, int]


class Staging:
    """The waiting room of one destination."""

    def __init__(self, destination: Path) -> None:
        self.destination = destination
        self.folder = destination / FOLDER
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        self._keys: dict[str, str] = {}
        self._inside: set[str] = set()     # folders that were seen to lie in the destination

    def trust(self, boot: str = "") -> None:
        """Throw away what another boot of the machine, or another machine, has left."""
        mark, boot = self.folder / "boot", boot or _boot()
        try:
            if mark.read_text() == boot:
                return
        except OSError:
            pass
        for entry in self.folder.iterdir():
            if entry.name != "lock":
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        mark.write_text(boot)

    def part(self, file: RemoteFile) -> Path:
        return Path(self._name(file) + ".part")

    def finished(self, file: RemoteFile) -> Path:
        return Path(self._name(file) + ".file")

    def journal(self, file: RemoteFile) -> Path:
        return Path(self._name(file) + ".done")

    def finish(self, file: RemoteFile) -> None:
        """Give a complete and verified file the name that says so."""
        name = self._name(file)
        os.replace(name + ".part", name + ".file")
        with suppress(FileNotFoundError):
            os.unlink(name + ".done")

    def _name(self, file: RemoteFile) -> str:
        """Without a suffix. Strings rather than paths where there is a call per file and step: there may be thousands."""
        known = self._keys.get(file.path)
        if known is None:
            known = self._keys[file.path] = f"{self.folder}/{key(file)}"
        return known

    def has(self, file: RemoteFile) -> bool:
        """Whether this file needs no more reading: complete here, or moved already by a run that was cut while moving."""
        if os.path.exists(self._name(file) + ".file"):
            return True
        return file.size is not None and os.path.exists(f"{self.folder}/complete") and _size(self.target(file)) == file.size

    def written(self, file: RemoteFile) -> list[Range]:
        """The ranges that an earlier run has written; a record cut in the middle of its writing does not count."""
        try:
            raw = self.journal(file).read_bytes()
        except FileNotFoundError:
            return []
        if _size(self.part(file)) != file.size:
            return []
        whole = raw[:len(raw) // _RANGE.size * _RANGE.size]
        return [(start, end) for start, end in _RANGE.iter_unpack(whole) if 0 <= start < end <= (file.size or 0)]

    def target(self, file: RemoteFile) -> Path:
        return self.destination / file.path

    def publish(self, files: Iterable[RemoteFile]) -> None:
        """Move every file to its place. Each move is atomic; a run cut in between is finished by the next."""
        (self.folder / "complete").touch()
        for file in files:
            self._make_room(file)
            target = f"{self.destination}/{file.path}"
            try:
                os.replace(self._name(file) + ".file", target)
            except FileNotFoundError:
                if not os.path.exists(target):   # it was not a run that was cut that moved it
                    raise
        shutil.rmtree(self.folder)

    def publish_folder(self, folder: Path) -> None:
        """Move what was unpacked to the destination, entry by entry."""
        for entry in sorted(folder.iterdir()):
            target = self.destination / entry.name
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            os.replace(entry, target)
        shutil.rmtree(self.folder)

    def _make_room(self, file: RemoteFile) -> None:
        """The folder that the file goes to; never through a link that leads out."""
        parent = file.path.rpartition("/")[0]
        if parent in self._inside:
            return
        folder = self.destination / parent
        folder.mkdir(parents=True, exist_ok=True)
        if not folder.resolve().is_relative_to(self.destination.resolve()):
            raise Unsafe(f"{file.path!r} would be written through a link out of the destination")
        self._inside.add(parent)


class Journal:
    """Remembers written ranges; one small append each, so nothing is lost but the tail when the process dies."""

    def __init__(self, path: Path, afresh: bool = False) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if afresh else 0), 0o644)

    def add(self, start: int, end: int) -> None:
        if end > start:
            os.write(self._file, _RANGE.pack(start, end))

    def close(self) -> None:
        os.close(self._file)


def missing(size: int, written: Iterable[Range]) -> list[Range]:
    """What is left to read.

    >>> missing(10, [(4, 6), (0, 2), (5, 8)])
    [(2, 4), (8, 10)]
    """
    gaps, reached = [], 0
    for start, end in sorted(written):
        if start > reached:
            gaps.append((reached, start))
        reached = max(reached, end)
    return [*gaps, (reached, size)] if reached < size else gaps


def key(file: RemoteFile) -> str:
    return hashlib.sha256(f"{file.path}\0{file.size}\0{file.etag}\0{file.version}".encode()).hexdigest()[:32]


def _boot() -> str:
    """What names this run of this machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None
