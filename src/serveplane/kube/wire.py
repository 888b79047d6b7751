"""Lists and watch streams as they come over the wire, split into objects without decoding them.

Objects stay bytes until someone reads them; that is what keeps caches small and a relist of thousands of objects cheap.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import NamedTuple

import msgspec

from serveplane.kube.errors import ConnectionFailed, error_from_status
from serveplane.kube.kind import Kind
from serveplane.objects import Json

# One watch event; etcd itself refuses objects over a few MB, so this only bounds a broken peer
LONGEST_LINE = 64 * 1024 * 1024


class Page(NamedTuple):
    """One page of a list."""

    items: list[bytes]
    resource_version: str
    continue_token: str
    remaining: int


class RawEvent(NamedTuple):
    """ADDED, MODIFIED, DELETED or BOOKMARK, with the object still encoded."""

    type: str
    object: bytes


class WatchEvent(NamedTuple):
    """ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Json


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remainingItemCount: int = 0


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_LIST = msgspec.json.Decoder(_List)
_EVENT = msgspec.json.Decoder(_Event)


def decode(body: bytes | msgspec.Raw) -> Json:
    """A JSON object from the wire."""
    value = msgspec.json.decode(body)
    if not isinstance(value, dict):
        raise ConnectionFailed("the API server answered JSON that is not an object")
    return value


def decode_item(body: bytes, kind: Kind) -> Json:
    """An item of a list: built-in kinds leave apiVersion and kind out there, so they are put back in their usual place."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **decode(body)}


def parse_page(body: bytes) -> Page:
    try:
        page = _LIST.decode(body)
    except msgspec.DecodeError as error:
        raise ConnectionFailed(f"the API server's list could not be read: {error}") from None
    meta = page.metadata
    return Page(
        [bytes(item) for item in page.items or ()], meta.resourceVersion, meta.continue_, meta.remainingItemCount
    )


def parse_event(line: bytes) -> RawEvent:
    """One line of a watch stream; an ERROR event becomes the error it carries."""
    try:
        event = _EVENT.decode(line)
    except msgspec.DecodeError:
        raise ConnectionFailed("the watch stream broke off within an event") from None
    if event.type == "ERROR":
        raise error_from_status(decode(event.object))
    return RawEvent(event.type, bytes(event.object))


async def lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """A byte stream cut at newlines. A last line without one was cut off in flight and is dropped."""
    pending: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            line = b"".join((*pending, part)) if pending else part
            pending, size = [], 0
            if line.strip():
                yield line
        if rest:
            pending.append(rest)
            size += len(rest)
            if size > LONGEST_LINE:
                raise ConnectionFailed(f"a watch event is larger than {LONGEST_LINE} bytes")
