"""What the apply engine remembers of plans already in place, so that looking again costs almost nothing.

Per owner and child: a digest of the plan and the version of the live object that was found (or made) equal to it. It
also
tells a child that was never there from one that someone deleted. Forgetting is always safe.
"""

import hashlib
from dataclasses import dataclass

import msgspec

from serveplane.kube.kind import ObjectRef
from serveplane.objects import Json


@dataclass(frozen=True, slots=True)
class _Place:
    plan: bytes
    version: str
    content: bytes
    """Set when the server stores the plan otherwise than written; then equal content counts as in place."""


class Settled:
    def __init__(self) -> None:
        self._by_owner: dict[ObjectRef, dict[ObjectRef, _Place]] = {}

    def has(self, owner: ObjectRef, child: ObjectRef) -> bool:
        return child in self._by_owner.get(owner, ())

    def is_in_place(self, owner: ObjectRef, child: ObjectRef, plan: bytes, live: Json) -> bool:
        known = self._by_owner.get(owner, {}).get(child)
        if known is None or known.plan != plan:
            return False
        return known.version == version_of(live) or (known.content != b"" and known.content == content_digest(live))

    def note(self, owner: ObjectRef, child: ObjectRef, plan: bytes, live: Json, *, exact: bool) -> None:
        place = _Place(plan, version_of(live), b"" if exact else content_digest(live))
        self._by_owner.setdefault(owner, {})[child] = place

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
