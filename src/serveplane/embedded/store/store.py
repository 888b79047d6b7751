"""Versions, compare-and-set, group commit and watching over buckets of records.

A write is visible to readers at once, and acknowledged and shown to watchers when its batch is in the log: all writes
of one turn of the event loop share one commit. If a batch cannot be kept it is taken back and its writers are told.

Versions are one counter for everything. Readers may have seen versions that a crash then lost, so after an unclean
end the counter leaps, and whoever asks for a version inside the leap is told to list again.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator

from serveplane.embedded.store.bucket import Bucket
from serveplane.embedded.store.log import Log, LogError, MemoryLog, Row
from serveplane.embedded.store.records import ADDED, DELETED, MODIFIED, Change, Key, Record, labels_of, record_of
from serveplane.objects import Json

LEAP = 10_000


class Conflict(Exception):
    """The object is not as the writer believed: it exists already, is gone, or was changed."""


class Expired(Exception):
    """That version is no longer (or never was) part of history."""


Observer = Callable[[Change], None]


class Store:
    def __init__(self, log: Log | None = None) -> None:
        self._log = log or MemoryLog()
        self._buckets: dict[str, Bucket] = {}
        self._observers: dict[str, list[Observer]] = {}
        self._pending: list[Change] = []
        self._dead: list[int] = []
        self._acknowledged: asyncio.Future[None] | None = None
        self._lost: list[tuple[int, int]] = []
        self._immediate = isinstance(self._log, MemoryLog)
        self._replay()

    def _replay(self) -> None:
        last, clean = self._log.last_version()
        for name, version in self._log.compacted().items():
            self._buckets[name] = Bucket(name, version)
        for row in self._log.load():
            self._restore(row)
        self.version = last
        if not clean:
            self.version = last + LEAP
            self._lost.append((last, self.version))

    def _restore(self, row: Row) -> None:
        bucket, key = self.bucket(row.bucket), Key(row.namespace, row.name)
        record = Record(key, row.data, row.version, {})
        record.labels = labels_of(record.value())
        change = Change(row.bucket, row.type, record, bucket.get(key))
        bucket.place(change)
        if row.version > bucket.compacted:
            bucket.publish(change)

    @property
    def shown(self) -> int:
        """The newest version up to which watchers can be told everything: what is not in the log yet comes after it."""
        return self._pending[0].version - 1 if self._pending else self.version

    # --- reading

    def bucket(self, name: str) -> Bucket:
        found = self._buckets.get(name)
        if found is None:
            found = self._buckets[name] = Bucket(name)
        return found

    def buckets(self) -> list[Bucket]:
        return list(self._buckets.values())

    def get(self, bucket: str, key: Key) -> Record | None:
        found = self._buckets.get(bucket)
        return found.get(key) if found else None

    def records(self, bucket: str, namespace: str | None = None) -> Iterator[Record]:
        found = self._buckets.get(bucket)
        return found.records(namespace) if found else iter(())

    def records_at(self, bucket: str, version: int) -> list[Record]:
        """As they were at that version, in the order of lists."""
        self.flush()  # only history can be taken back
        self.check(bucket, version)
        found = self.bucket(bucket)
        if version >= found.version:
            return list(found.records())
        return sorted(found.at(version).values(), key=lambda record: record.key.place)

    def check(self, bucket: str, version: int) -> None:
        if version < self.bucket(bucket).compacted or any(low < version < high for low, high in self._lost):
            raise Expired(str(version))

    # --- writing

    def create(self, bucket: str, key: Key, value: Json) -> Record:
        if self.get(bucket, key) is not None:
            raise Conflict
        return self._write(bucket, ADDED, key, value, None)

    def update(self, bucket: str, expected: Record, value: Json) -> Record:
        self._expect(bucket, expected)
        return self._write(bucket, MODIFIED, expected.key, value, expected)

    def delete(self, bucket: str, expected: Record, value: Json | None = None) -> Record:
        """The last state is kept in history under the version of its deletion."""
        self._expect(bucket, expected)
        return self._write(bucket, DELETED, expected.key, value or expected.value(), expected)

    def _expect(self, bucket: str, expected: Record) -> None:
        if self.get(bucket, expected.key) is not expected:
            raise Conflict

    def _write(self, bucket: str, kind: str, key: Key, value: Json, previous: Record | None) -> Record:
        self.version += 1
        record = record_of(key, value, self.version)
        change = Change(bucket, kind, record, previous)
        self.bucket(bucket).place(change)
        self._pending.append(change)
        if self._immediate:
            self.flush()
        elif len(self._pending) == 1:
            loop = asyncio.get_running_loop()
            self._acknowledged = loop.create_future()
            loop.call_soon(self.flush)
        return record

    async def acknowledged(self) -> None:
        """Return when everything written so far is in the log; raise LogError when it could not be kept."""
        if self._acknowledged is not None:
            await asyncio.shield(self._acknowledged)

    def flush(self) -> None:
        """Commit the batch, then tell watchers and observers, then the writers."""
        if not self._pending:
            return
        batch, self._pending = self._pending, []
        waiting, self._acknowledged = self._acknowledged, None
        try:
            self._keep(batch)
        except LogError as error:
            self._take_back(batch)
            _fail(waiting, error)
            return
        self._publish(batch)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _keep(self, batch: list[Change]) -> None:
        if self._immediate:
            return
        dead, self._dead = self._dead, []
        rows = [Row(c.version, c.bucket, *c.record.key, c.type, c.record.data) for c in batch]
        try:
            self._log.append(rows, dead, self._compacted() if dead else None)
        except LogError:
            self._dead = dead
            raise

    def _compacted(self) -> dict[str, int]:
        return {bucket.name: bucket.compacted for bucket in self._buckets.values() if bucket.compacted}

    def _take_back(self, batch: list[Change]) -> None:
        for change in reversed(batch):
            self.bucket(change.bucket).undo(change)
        self.version = batch[-1].version + 1  # what there is now has a version that nobody was told in vain
        self._lost.append((batch[0].version - 1, self.version))

    def _publish(self, batch: list[Change]) -> None:
        touched = {change.bucket: self._buckets[change.bucket] for change in batch}
        for change in batch:
            touched[change.bucket].publish(change)
        for bucket in touched.values():
            self._forget(bucket)
            bucket.wake()
        for change in batch:
            for observer in self._observers.get(change.bucket, ()):
                observer(change)
            for observer in self._observers.get("", ()):
                observer(change)

    def _forget(self, bucket: Bucket) -> None:
        """What leaves history leaves the log with the next batch: superseded rows, and tombstones."""
        for change in bucket.overflow():
            if change.previous is not None:
                self._dead.append(change.previous.version)
            if change.type == DELETED:
                self._dead.append(change.version)

    # --- watching

    def observe(self, bucket: str, observer: Observer) -> None:
        """Call for each committed change, in order; the empty bucket name means all."""
        self._observers.setdefault(bucket, []).append(observer)

    def cursor(self, bucket: str, version: int) -> int:
        """Where in a bucket's history the changes after that version begin."""
        self.check(bucket, version)
        found = self.bucket(bucket)
        return found.forgotten + bisect_right(found.history, version, key=lambda change: change.version)

    def since(self, bucket: str, cursor: int) -> tuple[list[Change], int]:
        """The changes from a cursor on, and the cursor after them. A reader that fell too far behind gets Expired."""
        found = self.bucket(bucket)
        if cursor < found.forgotten:
            raise Expired(str(found.compacted))
        return found.history[cursor - found.forgotten :], found.forgotten + len(found.history)

    def close(self) -> None:
        self.flush()
        self._log.close(self.version)


def _fail(waiting: "asyncio.Future[None] | None", error: LogError) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # seen: a writer that has gone away must not raise an alarm
