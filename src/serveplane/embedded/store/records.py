"""One stored object and one change to it.

An object is kept as the very bytes a GET answers with; what the server must look at often (labels, owners) is
kept beside them, everything else is decoded when somebody asks.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from serveplane.objects import Json

NO_LABELS: Mapping[str, str] = {}
ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
_decode = msgspec.json.Decoder().decode


class Key(NamedTuple):
    """Namespace (empty for cluster-scoped objects) and name."""

    namespace: str
    name: str

    @property
    def place(self) -> str:
        """Where it stands in lists: they come in the order of paths, so `a-b/x` before `a/x`."""
        return f"{self.namespace}/{self.name}"


class Record:
    """An object as it was at one version. Never changed once made, so it may be shared freely."""

    __slots__ = ("data", "key", "labels", "version")

    def __init__(self, key: Key, data: bytes, version: int, labels: Mapping[str, str]) -> None:
        self.key = key
        self.data = data
        self.version = version
        self.labels = labels

    def value(self) -> Json:
        """A fresh tree, the caller's to change."""
        value: Json = _decode(self.data)
        return value


class Change:
    """One entry of the history. The watch frame is encoded once, however many watchers there are."""

    __slots__ = ("_frame", "bucket", "previous", "record", "type", "version")

    def __init__(self, bucket: str, kind: str, record: Record, previous: Record | None) -> None:
        self.bucket = bucket
        self.type = kind
        self.record = record
        self.previous = previous
        self.version = record.version
        self._frame: bytes | None = None

    @property
    def frame(self) -> bytes:
        if self._frame is None:
            self._frame = frame(self.type, self.record.data)
        return self._frame


def frame(kind: str, data: bytes) -> bytes:
    """A line of a watch answer."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), data)


def labels_of(value: Mapping[str, Any]) -> Mapping[str, str]:
    return value["metadata"].get("labels") or NO_LABELS


def record_of(key: Key, value: Json, version: int) -> Record:
    """The object at its new version, encoded for good."""
    value["metadata"]["resourceVersion"] = str(version)
    return Record(key, msgspec.json.encode(value), version, labels_of(value))
