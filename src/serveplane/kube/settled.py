"""What the apply engine remembers of plans already in place, so that looking again costs almost nothing.

Per owner and child: a digest of the plan and the version of the live object that was found (or made) equal to it. It
also tells a child that was never there from one that someone deleted. Forgetting is always safe.
"""

import hashlib
from dataclasses import dataclass

import msgspec

from serveplane.kube.kind import ObjectRef
from serveplane.objects import Json


@dataclass(frozen=True, slots=True)
class Place:
    """One plan, and the live object it was found in (or made to be)."""

    plan: bytes
    version: str
    content: bytes
    """A digest of what the live object says, so that a mere status update needs no second look, and so that a plan which the
    server stores otherwise than written is not applied for ever."""
    warnings: tuple[str, ...] = ()


class Settled:
    def __init__(self) -> None:
        self._by_owner: dict[ObjectRef, dict[ObjectRef, Place]] = {}

    def has(self, owner: ObjectRef, child: ObjectRef) -> bool:
        return child in self._by_owner.get(owner, ())

    def place(self, owner: ObjectRef, child: ObjectRef, plan: bytes, live: Json) -> Place | None:
        """Where this plan is in place in this live object, if that is known."""
        known = self._by_owner.get(owner, {}).get(child)
        if known is None or known.plan != plan:
            return None
        return known if known.version == version_of(live) or known.content == content_digest(live) else None

    def note(self, owner: ObjectRef, child: ObjectRef, plan: bytes, live: Json, warnings: tuple[str, ...] = ()) -> None:
        self._by_owner.setdefault(owner, {})[child] = Place(plan, version_of(live), content_digest(live), warnings)

    def drop(self, owner: ObjectRef, child: ObjectRef) -> None:
        self._by_owner.get(owner, {}).pop(child, None)

    def forget(self, owner: ObjectRef) -> None:
        """The owner is gone; what was remembered of its children is of no use any more."""
        self._by_owner.pop(owner, None)


def version_of(live: Json) -> str:
    return str(live["metadata"].get("resourceVersion") or "")


def digest(value: Json) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=16).digest()


def content_digest(live: Json) -> bytes:
    """What a live object says, less what changes without anyone changing it."""
    volatile = ("resourceVersion", "generation")
    metadata = {name: value for name, value in live["metadata"].items() if name not in volatile}
    metadata["managedFields"] = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in metadata.get("managedFields") or ()
        if entry.get("subresource") != "status"
    ]
    return digest({**{name: value for name, value in live.items() if name != "status"}, "metadata": metadata})
