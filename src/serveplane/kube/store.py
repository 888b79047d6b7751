"""What an informer remembers: objects as the bytes they came in, foreign ones as key and uid only, and indexes over them.

Nothing here decodes an object until someone reads it, and every read gives a fresh value, so callers may change what
they get. Our own writes may be noted before the watch tells of them (`note`), which saves a reconcile from acting on
its own stale past; resource versions, which grow along the server's history, decide which of two states is the newer
one.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from serveplane.kube.kind import Key, Kind
from serveplane.kube.wire import decode_item
from serveplane.objects import Json

LOG = logging.getLogger(__name__)


class OwnerReference(msgspec.Struct, frozen=True):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(msgspec.Struct):
    """The part of an object that predicates, indexes and owner look-ups read; decoding it skips all the rest."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[OwnerReference] | None = None
    finalizers: list[str] | None = None
    deletionTimestamp: str = ""

    @property
    def key(self) -> Key:
        return Key(sys.intern(self.namespace), self.name)

    @property
    def controller(self) -> OwnerReference | None:
        return next((owner for owner in self.ownerReferences or () if owner.controller), None)


class _Envelope(msgspec.Struct):
    metadata: Meta


_META = msgspec.json.Decoder(_Envelope)


class Item:
    """One cached object, decoded as far as it is looked at."""

    __slots__ = ("_key", "_meta", "_object", "kind", "raw")

    def __init__(self, kind: Kind, raw: bytes) -> None:
        self.kind = kind
        self.raw = raw
        self._key: Key | None = None
        self._meta: Meta | None = None
        self._object: Json | None = None

    @property
    def meta(self) -> Meta:
        if self._meta is None:
            self._meta = _META.decode(self.raw).metadata
        return self._meta

    @property
    def key(self) -> Key:
        if self._key is None:
            self._key = self.meta.key
        return self._key

    @property
    def object(self) -> Json:
        """The whole object; shared among those who look at this item, so not to be changed."""
        if self._object is None:
            self._object = decode_item(self.raw, self.kind)
        return self._object


class Change(NamedTuple):
    """What happened to one object. `old` is None when it is new, `new` when it is gone (or became foreign)."""

    old: Item | None
    new: Item | None
    initial: bool = False
    """Seen by the first list: nobody did anything just now."""
    own: bool = False
    """Our own write, known from the server's answer to it."""

    @property
    def item(self) -> Item:
        item = self.new or self.old
        assert item is not None
        return item


Index = Callable[[Item], Iterable[str]]
Keep = Callable[[Item], bool]
Trim = Callable[[Json], Json]
Listener = Callable[[Change], None]


def by_owner(item: Item) -> Iterable[str]:
    """The index every informer has: the uids of an object's owners."""
    return [owner.uid for owner in item.meta.ownerReferences or ()]


class Store:
    """The objects of one informer."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._entries: dict[Key, bytes | str] = {}  # bytes: the object; str: the uid of a foreign one
        self._index_functions: dict[str, Index] = {"owner": by_owner}
        self._indexes: dict[str, dict[str, Key | set[Key]]] = {"owner": {}}  # a set only where there are several
        self._listeners: list[Listener] = []
        self._withheld: dict[Key, list[Change]] = {}  # while a write of ours is under way
        self._answered: dict[Key, str] = {}
        self.keeps: list[Keep] | None = []
        """Who wants an object kept whole; None keeps all."""
        self.trim: Trim | None = None

    # ---- reading

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Json | None:
        entry = self._entries.get(key)
        return decode_item(entry, self.kind) if isinstance(entry, bytes) else None

    def item(self, key: Key) -> Item | None:
        entry = self._entries.get(key)
        return Item(self.kind, entry) if isinstance(entry, bytes) else None

    def foreign_uid(self, key: Key) -> str:
        """The uid of an object that exists but is none of ours; empty otherwise."""
        entry = self._entries.get(key)
        return entry if isinstance(entry, str) else ""

    def items(self, namespace: str = "") -> Iterator[Item]:
        for key, entry in list(self._entries.items()):
            if isinstance(entry, bytes) and (not namespace or key.namespace == namespace):
                yield Item(self.kind, entry)

    def keys(self, namespace: str = "") -> list[Key]:
        """Every known key, foreign ones included."""
        return [key for key in self._entries if not namespace or key.namespace == namespace]

    def by_index(self, index: str, value: str) -> list[Json]:
        return [found for key in self.index_keys(index, value) if (found := self.get(key)) is not None]

    def index_keys(self, index: str, value: str) -> list[Key]:
        found = self._indexes[index].get(value)
        return [found] if isinstance(found, Key) else sorted(found or ())

    def sizes(self) -> tuple[int, int, int]:
        """Objects kept, foreign ones, and bytes of those kept."""
        kept = [len(entry) for entry in self._entries.values() if isinstance(entry, bytes)]
        return len(kept), len(self._entries) - len(kept), sum(kept)

    # ---- wiring

    def add_index(self, name: str, function: Index) -> None:
        known = self._index_functions.get(name)
        if known is function:
            return
        if known is not None:
            raise ValueError(f"index {name!r} of {self.kind} is already another function")
        self._index_functions[name] = function
        self._indexes[name] = {}
        for item in self.items():
            self._enter(name, item)

    def listen(self, listener: Listener) -> None:
        """Hear of every change from now on, and of what is already there."""
        self._listeners.append(listener)
        for item in self.items():
            listener(Change(None, item, initial=True))

    # ---- writing

    def put(self, raw: bytes, *, initial: bool = False, force: bool = False, own: bool = False) -> Key:
        """Take in a state from the server, unless a newer one is known already (`force`: the server's history itself went back)."""
        new = Item(self.kind, raw)
        key, old = new.key, self.item(new.key)
        if old is not None and not force and not is_newer(new.meta.resourceVersion, old.meta.resourceVersion):
            return key
        if not self._is_kept(new):
            self._entries[key] = new.meta.uid
            self._reindex(old, None)
            self._tell(Change(old, None, initial, own) if old else None)
            return key
        if self.trim is not None:
            new = Item(self.kind, msgspec.json.encode(self.trim(decode_item(raw, self.kind))))
        self._entries[key] = new.raw
        self._reindex(old, new)
        self._tell(Change(old, new, initial, own))
        return key

    @contextmanager
    def own_write(self, key: Key) -> Iterator[None]:
        """Around one of our writes and the noting of its answer: what the watch tells of the object meanwhile is told after it.

        The watch is often faster than the answer, and only the answer says that it is our own write the watch told of.
        """
        if key in self._withheld:
            yield
            return
        self._withheld[key] = []
        self._answered.pop(key, None)
        try:
            yield
        finally:
            version = self._answered.pop(key, None)
            for change in self._withheld.pop(key):
                ours = change.new is not None and change.new.meta.resourceVersion == version
                self._tell(change._replace(own=True) if ours else change)

    def answered(self, key: Key, version: str) -> None:
        """The state that a write of ours led to."""
        if key in self._withheld:
            self._answered[key] = version

    def remove(self, key: Key, resource_version: str = "") -> None:
        """The object is gone, unless a state newer than that news is known (it was made anew)."""
        old = self.item(key)
        if old and resource_version and is_newer(old.meta.resourceVersion, resource_version):
            return
        if self._entries.pop(key, None) is not None and old:
            self._reindex(old, None)
            self._tell(Change(old, None))

    def retain(self, seen: set[Key], namespace: str, resource_version: str) -> None:
        """After a fresh list: what it did not show is gone, except what came into being after it."""
        for key in self.keys(namespace):
            if key not in seen:
                self.remove(key, resource_version)

    def _is_kept(self, item: Item) -> bool:
        return self.keeps is None or any(keep(item) for keep in self.keeps)

    def _reindex(self, old: Item | None, new: Item | None) -> None:
        for name in self._index_functions:
            if old is not None:
                self._leave(name, old)
            if new is not None:
                self._enter(name, new)

    def _enter(self, name: str, item: Item) -> None:
        index, key = self._indexes[name], item.key
        for value in self._index_functions[name](item):
            found = index.get(value)
            if found is None or found == key:
                index[value] = key
            elif isinstance(found, Key):
                index[value] = {found, key}
            else:
                found.add(key)

    def _leave(self, name: str, item: Item) -> None:
        index, key = self._indexes[name], item.key
        for value in self._index_functions[name](item):
            found = index.get(value)
            if isinstance(found, set) and len(found) > 1:
                found.discard(key)
            elif found == key or found == {key}:
                del index[value]

    def _tell(self, change: Change | None) -> None:
        """A listener that raises is at fault itself; the cache and the other listeners go on."""
        if change is not None and change.item.key in self._withheld:
            self._withheld[change.item.key].append(change)
            return
        for listener in self._listeners if change else ():
            assert change is not None
            try:
                listener(change)
            except Exception:
                LOG.exception("a listener failed", extra={"kind": str(self.kind), "object": str(change.item.key)})


def is_newer(new: str, old: str) -> bool:
    """Whether one resource version is later than another; where they are no numbers, whatever comes last is.

    >>> is_newer("10", "9"), is_newer("9", "9"), is_newer("b", "a")
    (True, False, True)
    """
    if new.isdecimal() and old.isdecimal():
        return int(new) > int(old)
    return new != old


def encoded(obj: Any) -> bytes:
    return msgspec.json.encode(obj)
