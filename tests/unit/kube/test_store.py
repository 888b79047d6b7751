"""What an informer remembers: lean, indexed, never going back in time."""

import contextlib
import sys
from typing import Any

import msgspec
import pytest

from serveplane.kube.kind import Key, Kind
from serveplane.kube.store import Change, Item, Store
from serveplane.kube.watches import generation_changed, spec_or_metadata_changed

Json = dict[str, Any]
KIND = Kind("v1", "ConfigMap")


def raw(name: str, version: int, *, owner: str = "", generation: int = 0, **labels: str) -> bytes:
    metadata: Json = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "labels": labels,
    }
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "x/v1", "kind": "X", "name": owner, "uid": f"uid-{owner}", "controller": True}
        ]
    if generation:
        metadata["generation"] = generation
    return msgspec.json.encode({"metadata": metadata, "data": {"v": str(version)}})


def whole() -> Store:
    store = Store(KIND)
    store.keeps = None
    return store


def data(store: Store, name: str) -> Json | None:
    found = store.get(Key("ns", name))
    return found and found["data"]


def test_items_of_lists_get_their_kind_back() -> None:
    store = whole()
    store.put(raw("a", 1))
    found = store.get(Key("ns", "a"))
    assert found is not None
    assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")
    found["data"]["v"] = "changed by a caller"
    assert data(store, "a") == {"v": "1"}


def test_an_older_state_never_replaces_a_newer_one() -> None:
    store = whole()
    store.put(raw("a", 10))
    store.put(raw("a", 9))
    assert data(store, "a") == {"v": "10"}
    store.remove(Key("ns", "a"), "9")
    assert data(store, "a") == {"v": "10"}, "the news of a deletion before our write is old news"
    store.remove(Key("ns", "a"), "11")
    assert data(store, "a") is None


def test_a_relist_tells_of_deletes_but_spares_what_is_newer() -> None:
    store, seen = whole(), []
    for name, version in (("a", 1), ("b", 2), ("late", 50)):
        store.put(raw(name, version))
    store.listen(lambda change: seen.append(change) if not change.initial else None)
    store.retain({Key("ns", "a")}, "", "20")
    assert [(change.old.key.name if change.old else "", change.new) for change in seen] == [("b", None)]
    assert data(store, "late") == {"v": "50"}


def test_foreign_objects_are_key_and_uid() -> None:
    store = Store(KIND)
    store.keeps = [lambda item: item.meta.controller is not None]
    store.put(raw("mine", 1, owner="o"))
    store.put(raw("theirs", 2))
    assert data(store, "theirs") is None
    assert store.foreign_uid(Key("ns", "theirs")) == "uid-theirs"
    assert store.sizes()[:2] == (1, 1)
    seen: list[Change] = []
    store.listen(seen.append)
    store.put(raw("mine", 3))  # someone took the owner reference away: it is gone for us
    assert seen[-1].new is None
    assert store.foreign_uid(Key("ns", "mine")) == "uid-mine"
    assert store.index_keys("owner", "uid-o") == []


def test_indexes_follow_changes() -> None:
    store = whole()
    store.put(raw("a", 1, colour="red", owner="x"))
    store.add_index("colour", lambda item: [(item.meta.labels or {}).get("colour", "")])
    store.put(raw("b", 2, colour="red"))
    assert [found["metadata"]["name"] for found in store.by_index("colour", "red")] == ["a", "b"]
    store.put(raw("a", 3, colour="blue", owner="y"))
    assert [key.name for key in store.index_keys("colour", "red")] == ["b"]
    assert [key.name for key in store.index_keys("owner", "uid-y")] == ["a"]
    with pytest.raises(ValueError, match="already another"):
        store.add_index("colour", lambda item: [])


def test_a_write_of_ours_is_told_as_such_even_when_the_watch_is_faster_than_the_answer() -> None:
    store, told = whole(), list[tuple[str, bool]]()
    store.listen(lambda change: told.append((change.item.meta.resourceVersion, change.own)))
    key = Key("ns", "a")
    with store.own_write(key):
        store.put(raw("a", 1))  # the watch
        store.put(raw("b", 2))  # nobody waits for this one
        store.put(raw("a", 3))  # someone else, right after us
        assert told == [("2", False)]
        store.answered(key, "1")
    assert told == [("2", False), ("1", True), ("3", False)]
    store.put(raw("a", 4))
    assert told[-1] == ("4", False)


def test_a_write_of_ours_that_fails_keeps_no_news_back() -> None:
    store, told = whole(), list[tuple[str, bool]]()
    store.listen(lambda change: told.append((change.item.meta.resourceVersion, change.own)))
    with contextlib.suppress(OSError), store.own_write(Key("ns", "a")):
        store.put(raw("a", 1))
        raise OSError
    assert told == [("1", False)]


def test_predicates_tell_spec_from_status() -> None:
    def change(old: bytes, new: bytes) -> Change:
        return Change(Item(KIND, old), Item(KIND, new))

    assert not generation_changed(change(raw("a", 1, generation=1), raw("a", 2, generation=1)))
    assert generation_changed(change(raw("a", 1, generation=1), raw("a", 2, generation=2)))
    assert not spec_or_metadata_changed(change(raw("a", 1, generation=1), raw("a", 2, generation=1)))
    assert spec_or_metadata_changed(change(raw("a", 1, generation=1), raw("a", 2, generation=1, new="label")))


def test_storage_is_lean() -> None:
    """At most 1.3 times the wire size of what is kept."""
    store, wire = whole(), 0
    for n in range(500):
        body = msgspec.json.decode(raw(f"object-{n}", n + 1, owner=f"owner-{n % 50}"))
        body["data"]["filler"] = "x" * 1500
        encoded = msgspec.json.encode(body)
        wire += len(encoded)
        store.put(encoded)
    held = sys.getsizeof(store._entries) + sum(
        sys.getsizeof(key) + sys.getsizeof(key.name) + sys.getsizeof(entry) for key, entry in store._entries.items()
    )
    for index in store._indexes.values():
        held += sys.getsizeof(index) + sum(sys.getsizeof(value) + sys.getsizeof(keys) for value, keys in index.items())
    assert held <= 1.3 * wire
