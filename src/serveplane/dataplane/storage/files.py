"""What is to be downloaded: files with relative paths, and which of them are wanted."""
import fnmatch
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from serveplane.dataplane.storage.connection import Authorize, Trust, no_credentials
from serveplane.dataplane.storage.errors import NotFound, Unsafe


class Checksum(NamedTuple):
    algorithm: str   # as hashlib names it
    digest: str      # lower-case hex


@dataclass(frozen=True)
class RemoteFile:
    """One object and where it goes."""

    path: str                      # relative to the destination, with forward slashes
    url: str
    size: int | None = None        # None: unknown, read to the end
    ranges: bool = True            # whether parts can be asked for
    etag: str = ""                 # what the server will call this content; it must not change between two reads
    version: str = ""              # what pins the content where the URL itself does, as a generation or commit
    checksum: Checksum | None = None


@dataclass(frozen=True)
class Listing:
    """The files of one source, and how to ask for them."""

    files: tuple[RemoteFile, ...]
    authorize: Authorize = no_credentials
    trust: Trust = field(default_factory=Trust)
    headers: Mapping[str, str] = field(default_factory=dict)
    unpack: bool = True            # a single archive is unpacked
    layers: str = ""               # the files are layers of an image; this folder of theirs is the model


class Patterns(NamedTuple):
    """Which files are wanted, as shell patterns over relative paths."""

    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def wants(self, path: str) -> bool:
        if self.allow and not any(fnmatch.fnmatch(path, pattern) for pattern in self.allow):
            return False
        return not any(fnmatch.fnmatch(path, pattern) for pattern in self.ignore)


def patterns_from(environment: Mapping[str, str] = os.environ) -> Patterns:
    return Patterns(_patterns(environment.get("STORAGE_ALLOW_PATTERNS", "")), _patterns(environment.get("STORAGE_IGNORE_PATTERNS", "")))


def _patterns(text: str) -> tuple[str, ...]:
    """A JSON list, or words between commas, as KServe reads both.

    >>> _patterns('["*.json", "*.bin"]'), _patterns("*.json, *.bin")
    (('*.json', '*.bin'), ('*.json', '*.bin'))
    """
    try:
        values = msgspec.json.decode(text, type=list[str] | str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        values = text.split(",")
    return tuple(value.strip() for value in ([values] if isinstance(values, str) else values) if value.strip())


def below(key: str, prefix: str) -> str | None:
    """The path of an object relative to a prefix; None if it only starts alike (`model10/…` is not below `model1`).

    >>> below("models/iris/1/m.bst", "models/iris"), below("models/iris2/m.bst", "models/iris"), below("a/m.bst", "a/m.bst")
    ('1/m.bst', None, 'm.bst')
    """
    prefix = prefix.strip("/")
    if key == prefix:
        return key.rpartition("/")[2]
    if not prefix:
        return key
    return key[len(prefix) + 1:] if key.startswith(prefix + "/") else None


def checked(files: Iterable[RemoteFile], patterns: Patterns, uri: str) -> tuple[RemoteFile, ...]:
    """The wanted files, none of which can leave the destination or hide another."""
    wanted = tuple(_unique(file for file in files if patterns.wants(file.path)))
    if not wanted:
        raise NotFound(f"no model found in {uri}" + (" that the patterns allow" if patterns != Patterns() else ""))
    return wanted


def safe_path(path: str) -> str:
    """The path itself, if it stays inside whatever folder it is joined to."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\0" in path or "\\" in path or any(part in ("", ".", "..") for part in parts):
        raise Unsafe(f"{path[:200]!r} is not a path inside a folder")
    if any(len(part.encode()) > 255 for part in parts):
        raise Unsafe(f"{path[:200]!r} has a part longer than a file name can be")
    return path


def _unique(files: Iterator[RemoteFile]) -> Iterator[RemoteFile]:
    seen: set[str] = set()
    folders: set[str] = set()
    for file in files:
        safe_path(file.path)
        parents = ["/".join(file.path.split("/")[:depth]) for depth in range(1, file.path.count("/") + 1)]
        if file.path in seen or file.path in folders or any(parent in seen for parent in parents):
            raise Unsafe(f"{file.path!r} appears twice, or as a file and a folder")
        seen.add(file.path)
        folders.update(parents)
        yield file
