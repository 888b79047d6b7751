"""Where the embedded API server keeps objects: bytes in memory, every change in an append-only log.

`Store` is the whole of it for readers and writers; `Log` is the small interface a backend has to offer. `MemoryLog`
forgets, `SqliteLog` survives `kill -9`.
"""

from serveplane.embedded.store.log import Log, LogError, MemoryLog, Row
from serveplane.embedded.store.records import Change, Key, Record
from serveplane.embedded.store.sqlite import SqliteLog
from serveplane.embedded.store.store import Conflict, Expired, Store

__all__ = [
    "Change",
    "Conflict",
    "Expired",
    "Key",
    "Log",
    "LogError",
    "MemoryLog",
    "Record",
    "Row",
    "SqliteLog",
    "Store",
]
