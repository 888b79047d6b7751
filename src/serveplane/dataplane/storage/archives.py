"""Unpacking that cannot write outside its folder, cannot make devices, and cannot fill the disk from a small file.

Regular files and folders are written first, with no link in the tree yet, so nothing can be written through one. Links
are made last and only if they end inside. Sizes are counted as bytes come out, never believed from a header.
"""
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from serveplane.dataplane.storage.errors import StorageError, Unsafe
from serveplane.dataplane.storage.files import safe_path

TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_BUFFER = 1 << 20


@dataclass(frozen=True)
class UnpackLimits:
    ratio: int = 200               # unpacked bytes per archive byte …
    free_bytes: int = 1 << 30      # … beyond this many, which any archive may have
    entries: int = 200_000


def is_archive(name: str) -> bool:
    """
    >>> [is_archive(name) for name in ("m.tar.gz", "m.TGZ", "m.zip", "m.joblib", "m.gz")]
    [True, True, True, False, False]
    """
    return name.casefold().endswith((".zip", *TAR_SUFFIXES))


def unpack(archive: Path, name: str, folder: Path, limits: UnpackLimits | None = None, only: str = "") -> int:
    """Unpack into a folder; how many entries came out. `name` says which kind of archive it is, `only` takes one folder of it."""
    limits = limits or UnpackLimits()
    budget = _Budget(archive.stat().st_size * limits.ratio + limits.free_bytes, limits.entries)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if name.casefold().endswith(".zip"):
            _unpack_zip(archive, folder, budget)
        else:
            _unpack_tar(archive, folder, budget, only)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise StorageError(f"{name} is not a valid archive: {error}") from error
    except OSError as error:
        raise StorageError(f"{name} cannot be unpacked: {error.strerror or error}") from error
    return budget.taken


class _Budget:
    """What may still come out."""

    def __init__(self, size: int, entries: int) -> None:
        self._bytes, self._entries = size, entries
        self.taken = 0

    def entry(self) -> None:
        self._entries -= 1
        self.taken += 1
        if self._entries < 0:
            raise Unsafe("the archive holds too many entries")

    def take(self, count: int) -> None:
        self._bytes -= count
        if self._bytes < 0:
            raise Unsafe("the archive unpacks to far more than its size; it looks like a bomb")


def _unpack_tar(archive: Path, folder: Path, budget: _Budget, only: str) -> None:
    links: list[tarfile.TarInfo] = []
    with tarfile.open(archive, "r:*", encoding="utf-8") as tar:
        for member in tar:
            if only and not _moved_up(member, only):
                continue
            budget.entry()
            if member.issym() or member.islnk():
                links.append(member)
            elif member.isdir():
                _folder(folder, member.name)
            elif member.isreg():
                source = tar.extractfile(member)
                if source is not None:
                    _write(source, _place(folder, member.name), budget, bool(member.mode & 0o100))
            else:
                raise Unsafe(f"the archive holds {member.name[:200]!r}, which is a device or pipe")
    _make_links(folder, links, budget)


def _moved_up(member: tarfile.TarInfo, only: str) -> bool:
    """Whether a member lies in the folder; its name then loses that folder."""
    name = member.name.removeprefix("./").removeprefix("/")
    if not name.startswith(only + "/") or name.rpartition("/")[2].startswith(".wh."):
        return False
    member.name = name.removeprefix(only + "/")
    if member.islnk():
        member.linkname = member.linkname.removeprefix("./").removeprefix("/").removeprefix(only + "/")
    return bool(member.name)


def _unpack_zip(archive: Path, folder: Path, budget: _Budget) -> None:
    with zipfile.ZipFile(archive) as bundle:
        for member in bundle.infolist():
            budget.entry()
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise Unsafe(f"the archive holds {member.filename[:200]!r}, which is a link or device")
            if member.flag_bits & 1:
                raise StorageError("the archive is encrypted")
            if member.is_dir():
                _folder(folder, member.filename)
                continue
            with bundle.open(member) as source:
                _write(source, _place(folder, member.filename), budget, bool(mode & 0o100))


def _write(source: IO[bytes], target: Path, budget: _Budget, executable: bool) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o755 if executable else 0o644)
    with os.fdopen(descriptor, "wb", buffering=0) as output:
        while piece := source.read(_BUFFER):
            budget.take(len(piece))
            _write_all(output, piece)


def _write_all(output: IO[bytes], piece: bytes) -> None:
    view = memoryview(piece)
    while len(view):
        view = view[output.write(view):]


def _normal(name: str) -> str:
    """`./a/b/` as `a/b`; everything else suspicious is refused."""
    name = name.rstrip("/")
    while name.startswith("./"):
        name = name[2:]
    return name if name in ("", ".") else safe_path(name)


def _folder(folder: Path, name: str) -> None:
    normal = _normal(name)
    if normal not in ("", "."):
        (folder / normal).mkdir(parents=True, exist_ok=True)


def _place(folder: Path, name: str) -> Path:
    target = folder / safe_path(_normal(name))
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        raise Unsafe(f"the archive holds {name[:200]!r} as a file and as a folder")
    return target


def _make_links(folder: Path, links: list[tarfile.TarInfo], budget: _Budget) -> None:
    root = folder.resolve()
    for member in links:
        target = _place(folder, member.name)
        if member.islnk():
            _copy_linked(root, member, target, budget)
        else:
            if target.is_symlink() or target.exists():
                target.unlink()
            os.symlink(member.linkname, target)
    for path in _links_under(folder):   # only now all of them exist, so only now it shows where they lead
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise Unsafe(f"the archive holds a link that leaves its folder: {path.relative_to(folder)}")


def _copy_linked(root: Path, member: tarfile.TarInfo, target: Path, budget: _Budget) -> None:
    """A hard link becomes a copy: two names of one file would let one model change another."""
    source = root / safe_path(_normal(member.linkname))
    if source.is_symlink() or not source.is_file() or not source.resolve().is_relative_to(root):
        raise Unsafe(f"the archive links {member.name[:200]!r} to something that is not in it")
    budget.take(source.stat().st_size)
    shutil.copyfile(source, target, follow_symlinks=False)


def _links_under(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            if path.is_symlink():
                yield path
