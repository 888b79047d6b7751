"""All objects of one resource, and the recent history of their changes."""

import asyncio
from collections.abc import Iterator

from serveplane.embedded.store.records import DELETED, Change, Key, Record

HISTORY = 4096
HISTORY_BYTES = 32 << 20


class Bucket:
    """Objects by namespace and name; changes in order, the oldest forgotten in slices."""

    def __init__(self, name: str, compacted: int = 0) -> None:
        self.name = name
        self.version = compacted
        self.compacted = compacted
        self.history: list[Change] = []
        self.forgotten = 0  # how many changes have left `history`: cursor positions are absolute
        self.live: dict[str, dict[str, Record]] = {}
        self._sorted: dict[str, list[str]] = {}
        self._bytes = 0
        self._waiters: list[asyncio.Future[None]] = []

    def get(self, key: Key) -> Record | None:
        names = self.live.get(key.namespace)
        return names.get(key.name) if names else None

    def __len__(self) -> int:
        return sum(map(len, self.live.values()))

    def records(self, namespace: str | None = None) -> Iterator[Record]:
        """In the order of lists; `None` means all namespaces."""
        for space in sorted(self.live, key=lambda name: f"{name}/") if namespace is None else [namespace]:
            names = self.live.get(space)
            if names:
                yield from map(names.__getitem__, self._names(space, names))

    def _names(self, namespace: str, names: dict[str, Record]) -> list[str]:
        ordered = self._sorted.get(namespace)
        if ordered is None:
            ordered = self._sorted[namespace] = sorted(names)
        return ordered

    def place(self, change: Change) -> None:
        """Make the change visible to readers; `publish` makes it visible to watchers."""
        namespace, name = change.record.key
        if change.type == DELETED:
            self._remove(namespace, name)
            return
        names = self.live.setdefault(namespace, {})
        if name not in names:
            self._sorted.pop(namespace, None)
        names[name] = change.record

    def _remove(self, namespace: str, name: str) -> None:
        names = self.live.get(namespace)
        if names and names.pop(name, None) is not None:
            self._sorted.pop(namespace, None)
            if not names:
                del self.live[namespace]

    def undo(self, change: Change) -> None:
        if change.previous is None:
            self._remove(*change.record.key)
        else:
            self.live.setdefault(change.record.key.namespace, {})[change.record.key.name] = change.previous
            self._sorted.pop(change.record.key.namespace, None)

    def publish(self, change: Change) -> None:
        self.history.append(change)
        self.version = change.version
        self._bytes += len(change.record.data)

    def wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def waiter(self) -> asyncio.Future[None]:
        """Done at the next published change. One future serves all who ask in between."""
        if not self._waiters or self._waiters[-1].cancelled():
            self._waiters.append(asyncio.get_running_loop().create_future())
        return self._waiters[-1]

    def overflow(self) -> list[Change]:
        """The changes history can no longer hold, taken out of it."""
        if len(self.history) <= HISTORY and self._bytes <= HISTORY_BYTES:
            return []
        count = max(len(self.history) // 4, 1)
        old, self.history = self.history[:count], self.history[count:]
        self.forgotten += count
        self._bytes -= sum(len(change.record.data) for change in old)
        self.compacted = old[-1].version
        return old

    def at(self, version: int) -> dict[Key, Record]:
        """The objects as they were at a version that history still reaches: later changes are taken back."""
        found = {record.key: record for record in self.records()}
        for change in reversed(self.history):
            if change.version <= version:
                break
            if change.previous is None:
                found.pop(change.record.key, None)
            else:
                found[change.record.key] = change.previous
        return found
