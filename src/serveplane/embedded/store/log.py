"""What a backend must do: keep rows, drop rows, give them back in order."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol


class LogError(Exception):
    """The backend could not keep a batch (disk full, file gone). Nothing of that batch was kept."""


class Row(NamedTuple):
    version: int
    bucket: str
    namespace: str
    name: str
    type: str
    data: bytes


class Log(Protocol):
    """An append-only log of changes with explicit forgetting. All calls come from one thread."""

    def load(self) -> Iterator[Row]:
        """All rows kept, oldest first."""

    def compacted(self) -> dict[str, int]:
        """Per bucket, the version up to which history is gone."""

    def last_version(self) -> tuple[int, bool]:
        """The newest version ever kept, and whether the log was closed in good order after it."""

    def append(self, rows: Sequence[Row], dropped: Iterable[int] = (), compacted: dict[str, int] | None = None) -> None:
        """Keep all of them, or raise LogError and keep none. On return they survive the death of this process."""

    def close(self, version: int) -> None: ...


class MemoryLog:
    """Keeps nothing: for tests and simulations."""

    def load(self) -> Iterator[Row]:
        return iter(())

    def compacted(self) -> dict[str, int]:
        return {}

    def last_version(self) -> tuple[int, bool]:
        return 0, True

    def append(self, rows: Sequence[Row], dropped: Iterable[int] = (), compacted: dict[str, int] | None = None) -> None:
        return None

    def close(self, version: int) -> None:
        return None
