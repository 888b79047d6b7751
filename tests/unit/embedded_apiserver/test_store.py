"""The store: versions, compare-and-set, history, batches that fail, restarts."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serveplane.embedded.store import Conflict, Expired, Key, LogError, MemoryLog, Row, SqliteLog, Store
from serveplane.embedded.store import bucket as buckets

BUCKET = "configmaps"


def value(name: str, **data: str) -> dict[str, object]:
    return {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "n", "uid": name},
        "data": data,
    }


def key(name: str) -> Key:
    return Key("n", name)


def names(store: Store) -> list[str]:
    return [record.key.name for record in store.records(BUCKET)]


def test_versions_grow_and_guard_writes() -> None:
    store = Store()
    first = store.create(BUCKET, key("a"), value("a"))
    second = store.update(BUCKET, first, value("a", x="1"))
    assert first.version < second.version
    assert second.value()["metadata"]["resourceVersion"] == str(second.version)
    with pytest.raises(Conflict):
        store.update(BUCKET, first, value("a"))
    with pytest.raises(Conflict):
        store.create(BUCKET, key("a"), value("a"))
    gone = store.delete(BUCKET, second)
    assert gone.version > second.version
    assert store.get(BUCKET, key("a")) is None


def test_the_past_can_be_read_again() -> None:
    store = Store()
    a = store.create(BUCKET, key("a"), value("a"))
    b = store.create(BUCKET, key("b"), value("b"))
    store.delete(BUCKET, a)
    store.create(BUCKET, key("c"), value("c"))
    assert [record.key.name for record in store.records_at(BUCKET, b.version)] == ["a", "b"]
    changes, _ = store.since(BUCKET, store.cursor(BUCKET, b.version))
    assert [(change.type, change.record.key.name) for change in changes] == [("DELETED", "a"), ("ADDED", "c")]


def test_history_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "HISTORY", 8)
    store = Store()
    first = store.create(BUCKET, key("first"), value("first"))
    cursor = store.cursor(BUCKET, first.version)
    for number in range(20):
        store.create(BUCKET, key(f"m{number}"), value(f"m{number}"))
    with pytest.raises(Expired):
        store.since(BUCKET, cursor)
    with pytest.raises(Expired):
        store.cursor(BUCKET, first.version)
    assert len(names(store)) == 21


async def test_a_restart_finds_the_same_objects_and_versions(tmp_path: Path) -> None:
    store = Store(SqliteLog(tmp_path / "s.db"))
    made = store.create(BUCKET, key("a"), value("a", x="1"))
    store.create(BUCKET, key("b"), value("b"))
    store.delete(BUCKET, store.get(BUCKET, key("b")))  # type: ignore[arg-type]
    await store.acknowledged()
    version = store.version
    store.close()
    again = Store(SqliteLog(tmp_path / "s.db"))
    assert again.version == version
    found = again.get(BUCKET, key("a"))
    assert found is not None
    assert found.data == made.data
    changes, _ = again.since(BUCKET, again.cursor(BUCKET, made.version))
    assert [(change.type, change.record.key.name) for change in changes] == [("ADDED", "b"), ("DELETED", "b")]
    again.close()


async def test_after_a_crash_unseen_versions_are_refused(tmp_path: Path) -> None:
    store = Store(SqliteLog(tmp_path / "s.db"))
    made = store.create(BUCKET, key("a"), value("a"))
    await store.acknowledged()
    store._log._db.close()  # type: ignore[attr-defined]
    import os

    os.close(store._log._lock)  # type: ignore[attr-defined]
    again = Store(SqliteLog(tmp_path / "s.db"))
    assert again.version > made.version + 100
    again.check(BUCKET, made.version)
    with pytest.raises(Expired):
        again.check(BUCKET, made.version + 50)
    again.close()


async def test_superseded_rows_leave_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "HISTORY", 16)
    log = SqliteLog(tmp_path / "s.db")
    store = Store(log)
    record = store.create(BUCKET, key("a"), value("a"))
    for number in range(200):
        record = store.update(BUCKET, record, value("a", x=str(number)))
        await store.acknowledged()
    assert len(list(log.load())) < 40
    store.close()
    again = Store(SqliteLog(tmp_path / "s.db"))
    assert again.get(BUCKET, key("a")).value()["data"] == {"x": "199"}  # type: ignore[union-attr]
    with pytest.raises(Expired):
        again.check(BUCKET, 3)
    again.close()


class Full(MemoryLog):
    """A disk that is full from some moment on."""

    full = False

    def append(self, rows: Sequence[Row], dropped: Iterable[int] = (), compacted: dict[str, int] | None = None) -> None:
        if self.full:
            raise LogError("database or disk is full")


async def test_a_batch_that_cannot_be_kept_is_taken_back() -> None:
    log = Full()
    store = Store(log)
    store._immediate = False
    kept = store.create(BUCKET, key("kept"), value("kept"))
    await store.acknowledged()
    log.full = True
    seen: list[str] = []
    store.observe(BUCKET, lambda change: seen.append(change.record.key.name))
    store.create(BUCKET, key("lost"), value("lost"))
    store.update(BUCKET, kept, value("kept", x="lost"))
    with pytest.raises(LogError):
        await store.acknowledged()
    assert names(store) == ["kept"]
    assert store.get(BUCKET, key("kept")) is kept
    assert seen == []
    assert store.since(BUCKET, store.cursor(BUCKET, store.version))[0] == []  # who lists now can watch from there
    log.full = False
    store.create(BUCKET, key("later"), value("later"))
    await store.acknowledged()
    assert seen == ["later"]


async def test_the_past_is_without_what_is_being_written() -> None:
    store = Store(MemoryLog())
    store._immediate = False
    store.create(BUCKET, key("a"), value("a"))
    await store.acknowledged()
    before = store.version
    store.create(BUCKET, key("b"), value("b"))
    assert [record.key.name for record in store.records_at(BUCKET, before)] == ["a"]


async def test_writes_of_one_turn_share_a_commit() -> None:
    batches: list[int] = []

    class Counting(MemoryLog):
        def append(
            self, rows: Sequence[Row], dropped: Iterable[int] = (), compacted: dict[str, int] | None = None
        ) -> None:
            batches.append(len(rows))

    store = Store(Counting())
    store._immediate = False

    async def write(name: str) -> None:
        store.create(BUCKET, key(name), value(name))
        await store.acknowledged()

    await asyncio.gather(*(write(f"m{number}") for number in range(10)))
    assert batches == [10]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("cud"), st.sampled_from("abcd")), max_size=40))
def test_any_run_can_be_undone_to_any_version(steps: list[tuple[str, str]]) -> None:
    store, model, pasts = Store(), dict[str, str](), list[tuple[int, dict[str, str]]]()
    for number, (verb, name) in enumerate(steps):
        record = store.get(BUCKET, key(name))
        if (verb == "c" and record is None) or (verb == "u" and record is not None):
            model[name] = str(number)
            fresh = value(name, x=str(number))
            store.create(BUCKET, key(name), fresh) if record is None else store.update(BUCKET, record, fresh)
        elif verb == "d" and record is not None:
            del model[name]
            store.delete(BUCKET, record)
        pasts.append((store.version, dict(model)))
    for version, past in pasts:
        assert {record.key.name: record.value()["data"]["x"] for record in store.records_at(BUCKET, version)} == past
