"""The log in one SQLite file, write-ahead mode.

`synchronous=NORMAL` hands every commit to the operating system before it returns, so the death of the process loses
nothing; `durable=True` also waits for the disk, against the death of the machine. Checkpoints run in a thread of their
own, because they wait for the disk in any case.
"""

import contextlib
import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from serveplane.embedded.store.log import LogError, Row

TABLES = """
CREATE TABLE IF NOT EXISTS log
    (version INTEGER PRIMARY KEY, bucket TEXT, namespace TEXT, name TEXT, type TEXT, data BLOB);
CREATE TABLE IF NOT EXISTS compacted (bucket TEXT PRIMARY KEY, version INTEGER);
CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value INTEGER);
"""
CHECKPOINT_BYTES = 16 << 20


class SqliteLog:
    """`path` is created with mode 0600 in a folder of mode 0700; a second process on the same file is refused."""

    def __init__(self, path: Path, durable: bool = False) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _locked(path)
        try:
            self._db = self._open(durable)
        except sqlite3.Error as error:
            os.close(self._lock)
            raise LogError(f"cannot open {path}: {error}") from error
        self._written = 0
        self._checkpoint: threading.Thread | None = None

    def _open(self, durable: bool) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        db.execute("PRAGMA wal_autocheckpoint=0")
        db.execute("PRAGMA busy_timeout=10000")
        db.executescript(TABLES)
        return db

    def load(self) -> Iterator[Row]:
        rows = self._db.execute("SELECT version, bucket, namespace, name, type, data FROM log ORDER BY version")
        yield from map(Row._make, rows)

    def compacted(self) -> dict[str, int]:
        return dict(self._db.execute("SELECT bucket, version FROM compacted"))

    def last_version(self) -> tuple[int, bool]:
        """Opening counts as unclean until `close` says otherwise."""
        state: dict[str, int] = dict(self._db.execute("SELECT key, value FROM state"))
        newest: int = self._db.execute("SELECT coalesce(max(version), 0) FROM log").fetchone()[0]
        clean = bool(state.get("clean", 1))
        self._db.execute("INSERT OR REPLACE INTO state VALUES ('clean', 0)")
        return max(newest, state.get("version", 0)), clean

    def append(self, rows: Sequence[Row], dropped: Iterable[int] = (), compacted: dict[str, int] | None = None) -> None:
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO log VALUES (?,?,?,?,?,?)", rows)
            db.executemany("DELETE FROM log WHERE version=?", [(version,) for version in dropped])
            if compacted:
                db.executemany("INSERT OR REPLACE INTO compacted VALUES (?,?)", list(compacted.items()))
                db.execute("INSERT OR REPLACE INTO state VALUES ('version', ?)", (rows[-1].version if rows else 0,))
            db.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise LogError(str(error)) from error
        self._written += sum(len(row.data) for row in rows) + 64 * len(rows)
        if self._written > CHECKPOINT_BYTES:
            self._start_checkpoint()

    def _start_checkpoint(self) -> None:
        if self._checkpoint is None or not self._checkpoint.is_alive():
            self._written = 0
            self._checkpoint = threading.Thread(target=_run_checkpoint, args=(self._path,), daemon=True)
            self._checkpoint.start()

    def close(self, version: int) -> None:
        if self._checkpoint is not None:
            self._checkpoint.join()
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("INSERT OR REPLACE INTO state VALUES ('version', ?), ('clean', 1)", (version,))
        self._db.close()
        os.close(self._lock)


def _run_checkpoint(path: Path) -> None:
    """Passive: takes what it can without ever making the writer wait."""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _locked(path: Path) -> int:
    handle = os.open(path.with_name(path.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise LogError(f"{path} is in use by another process") from None
    return handle
