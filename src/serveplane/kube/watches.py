"""What makes a controller look at an object, declared as data.

    watches=[Primary(INFERENCE_SERVICE), Owned(DEPLOYMENT), Mapped(CONFIG_MAP, settings_users, keep=is_settings)]
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from serveplane.kube.kind import Key, Kind
from serveplane.kube.store import Change, Index, Item, Keep, Meta, Trim

Predicate = Callable[[Change], bool]


@dataclass(frozen=True)
class _Watched:
    """Which objects of a kind are seen, and how much of each is kept. `optional` kinds may be absent from the server."""

    kind: Kind
    _: KW_ONLY
    predicate: Predicate | None = None
    labels: str = ""
    fields: str = ""
    namespace: str = ""
    keep: Keep | None = None
    indexes: Mapping[str, Index] = field(default_factory=dict)
    optional: bool = False
    trim: Trim | None = None
    cluster_scoped: bool = False


@dataclass(frozen=True)
class Primary(_Watched):
    """The kind a controller is about: an object's change means its own key."""


@dataclass(frozen=True)
class Owned(_Watched):
    """A kind of children: a change means the controlling owner, if that is of the primary kind.

    Objects controlled by others are remembered as key and uid only. Without `own_writes`, what the process itself wrote
    is no news: for reconciles that judge by the answers to their writes.
    """

    own_writes: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class Mapped(_Watched):
    """Any other kind: a function says whose business a change is. It sees the old and the new state, one at a time."""

    map: Callable[[Item], Iterable[Key]]


Watch = Primary | Owned | Mapped


def generation_changed(change: Change) -> bool:
    """The spec changed, or it is new, or its deletion began. Status writes do not count; label and annotation edits do not."""
    if change.old is None or change.new is None:
        return True
    old, new = change.old.meta, change.new.meta
    return old.generation != new.generation or old.deletionTimestamp != new.deletionTimestamp or old.uid != new.uid


def spec_or_metadata_changed(change: Change) -> bool:
    """Like `generation_changed`, and edits of labels, annotations, finalizers or owners count too."""
    if generation_changed(change):
        return True
    assert change.old is not None
    assert change.new is not None
    return _settable(change.old.meta) != _settable(change.new.meta)


def owner_keys(item: Item, primary: Kind) -> list[Key]:
    """The object that controls this one, if it is of the given kind, in any version of its group."""
    owner = item.meta.controller
    if owner is None or owner.kind != primary.kind or Kind(owner.apiVersion, "").group != primary.group:
        return []
    return [Key(item.meta.namespace, owner.name)]


def _settable(meta: Meta) -> tuple[object, ...]:
    return meta.labels or {}, meta.annotations or {}, meta.finalizers or [], meta.ownerReferences or []
