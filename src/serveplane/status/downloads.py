"""How far a model's download is, from what the storage initializer writes to its log.

Logs are the container's own words, so nothing in them is trusted: what does not read as progress is no progress.
"""
from collections.abc import Mapping, Sequence
from math import isfinite

import msgspec

from serveplane.objects import Json
from serveplane.render.names import STORAGE_INITIALIZER
from serveplane.status.blockers import newest_first

LONGEST_URI = 200
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class Download(msgspec.Struct, frozen=True, rename="camel"):
    """One report of progress."""
    uri: str = ""
    files: int = 0
    all_files: int = 0
    bytes: int = 0
    total: int | None = None
    bytes_per_second: float = 0.0
    eta_seconds: float | None = None


class _Line(msgspec.Struct):
    storage: Download


_LINE = msgspec.json.Decoder(_Line)


def is_loading(pod: Json) -> bool:
    """Whether its storage initializer is at work."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    return any(status.get("name") == STORAGE_INITIALIZER and "running" in (status.get("state") or {}) for status in statuses)


def last_progress(log: bytes) -> Download | None:
    """The newest report in the end of a log."""
    return next((found for line in reversed(log.splitlines()) if (found := _progress(line))), None)


def _progress(line: bytes) -> Download | None:
    try:
        found = _LINE.decode(line).storage
    except msgspec.DecodeError:
        return None
    numbers = (found.files, found.all_files, found.bytes, found.total or 0, found.bytes_per_second, found.eta_seconds or 0)
    return found if all(isfinite(number) and number >= 0 for number in numbers) else None


def current(pods: Sequence[Json], downloads: Mapping[str, Download]) -> Download | None:
    """The report of the newest pod that downloads."""
    loading = (pod["metadata"]["name"] for pod in newest_first(pods) if is_loading(pod))
    return next((downloads[name] for name in loading if name in downloads), None)


def words(download: Download) -> str:
    """For people.

    >>> words(Download("s3://b/m", 1, 3, 1_500_000_000, 6_000_000_000, 50e6, 90.0))
    's3://b/m: 1.5 GB of 6.0 GB (25 %), 1 of 3 files, 50.0 MB/s, about 90 s left'
    >>> words(Download("https://host/file", 0, 1, 2_000_000))
    'https://host/file: 2.0 MB, 0 of 1 files'
    """
    done = _size(download.bytes)
    if download.total:
        done += f" of {_size(download.total)} ({min(100, 100 * download.bytes // download.total)} %)"
    parts = [done, f"{download.files} of {download.all_files} files" if download.all_files else "",
             f"{_size(download.bytes_per_second)}/s" if download.bytes_per_second else "",
             f"about {_duration(download.eta_seconds)} left" if download.eta_seconds is not None else ""]
    return f"{download.uri[:LONGEST_URI]}: {', '.join(part for part in parts if part)}"


def _size(number: float) -> str:
    unit = 0
    while number >= 1000 and unit < len(UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.1f} {UNITS[unit]}" if unit else f"{number:.0f} B"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
