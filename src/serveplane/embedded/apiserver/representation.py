"""The form an answer takes: objects as they are stored, a Table for people, or metadata only.

Objects are stored in the form of a GET, so the plain form costs nothing; a list cuts off the leading type of each
item, as the real server leaves it out there. A long list goes out in pieces: the reader takes one while the next is
made, others get their turn in between, and the whole is never in memory a second time.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from serveplane.clock import SYSTEM, Clock
from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.printing import tables
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.store.records import frame
from serveplane.objects import Json

OBJECT, TABLE, METADATA = "object", "table", "metadata"
META_GROUP = "meta.k8s.io"
PIECE_BYTES = 256 << 10


@dataclass(frozen=True)
class Form:
    kind: str = OBJECT
    version: str = "v1"
    clock: Clock = SYSTEM
    """What ages in tables are counted from."""


PLAIN = Form()


def negotiated(headers: Mapping[str, str], clock: Clock) -> Form:
    """The first form of the Accept header that the server can give."""
    accept = headers.get("accept", "")
    if not accept or accept == "application/json":
        return PLAIN
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        if media not in (
            "application/json",
            "*/*",
            "application/*",
            "application/json;stream=watch",
            "application/yaml",
        ):
            continue
        options = dict(part.partition("=")[::2] for part in parameters)
        form = _form(options, clock)
        if form is not None:
            return form
    raise errors.not_acceptable("application/json")


def _form(options: Mapping[str, str], clock: Clock) -> Form | None:
    wanted = options.get("as", "")
    if not wanted:
        return PLAIN
    if options.get("g") != META_GROUP or options.get("v") not in ("v1", "v1beta1"):
        return None
    kinds = {"Table": TABLE, "PartialObjectMetadata": METADATA, "PartialObjectMetadataList": METADATA}
    return Form(kinds[wanted], options["v"], clock) if wanted in kinds else None


def prefix(resource: Resource) -> bytes:
    """How every stored object of the resource begins."""
    return b'{"kind":"%s","apiVersion":"%s",' % (resource.kind.encode(), resource.api_version.encode())


def typed(resource: Resource, value: Json) -> Json:
    """The object with its type in front, where `prefix` expects it."""
    rest = {key: item for key, item in value.items() if key not in ("kind", "apiVersion")}
    return {"kind": resource.kind, "apiVersion": resource.api_version, **rest}


def one(form: Form, resource: Resource, data: bytes, include: str = "") -> bytes:
    if form.kind == OBJECT:
        return data
    value = msgspec.json.decode(data)
    if form.kind == METADATA:
        return errors.encoded(partial(value, form))
    return errors.encoded(
        tables.table(
            resource,
            [value],
            {"resourceVersion": value["metadata"].get("resourceVersion", "")},
            form.version,
            include,
            form.clock.now(),
        )
    )


def partial(value: Json, form: Form) -> Json:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{META_GROUP}/{form.version}",
        "metadata": value["metadata"],
    }


def many(
    form: Form, resource: Resource, items: Iterable[bytes], metadata: Json, include: str = ""
) -> bytes | AsyncIterator[bytes]:
    """A whole list answer."""
    if form.kind != OBJECT and not metadata.get("continue"):  # only plain lists of custom resources mention that there is no more
        metadata = {key: item for key, item in metadata.items() if key != "continue"}
    if form.kind == TABLE:
        return errors.encoded(
            tables.table(resource, map(msgspec.json.decode, items), metadata, form.version, include, form.clock.now())
        )
    start = b""
    kind, version = resource.list_kind, resource.api_version
    if form.kind == METADATA:
        kind, version = "PartialObjectMetadataList", f"{META_GROUP}/{form.version}"
        items = [errors.encoded(partial(msgspec.json.decode(item), form)) for item in items]
        if not items:  # nothing is told as null here, by the real server too
            return errors.encoded({"kind": kind, "apiVersion": version, "metadata": metadata, "items": None})
    elif resource.custom is None:
        start = prefix(resource)
    head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
        kind.encode(),
        version.encode(),
        errors.encoded(metadata),
    )
    return _listed(head, list(items), start)


def _listed(head: bytes, items: Sequence[bytes], start: bytes) -> bytes | AsyncIterator[bytes]:
    pieces = _pieces(head, items, start)
    if sum(map(len, items)) <= PIECE_BYTES:
        return b"".join(pieces)
    return _turn_by_turn(pieces)


async def _turn_by_turn(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _pieces(head: bytes, items: Sequence[bytes], start: bytes) -> Iterator[bytes]:
    """The list, without the `start` of its items, in pieces that are copied once."""
    begin, size, lead = 0, 0, head
    for end, item in enumerate(items, 1):
        size += len(item)
        if size > PIECE_BYTES:
            yield _joined(lead, items[begin:end], start)
            begin, size, lead = end, 0, b","
    if begin < len(items) or not items:
        yield _joined(lead, items[begin:], start)
    yield b"]}"


def _joined(lead: bytes, items: Sequence[bytes], start: bytes) -> bytes:
    cut = len(start)
    if not cut or not items:
        return lead + b",".join(items)
    parts = [b"{" + item[cut:] if item.startswith(start) else item for item in items]
    parts[0] = lead + parts[0]
    return b",".join(parts)


EventEncoder = Callable[[str, bytes], bytes]


def event_encoder(form: Form, resource: Resource, include: str = "") -> EventEncoder:
    """How one watch event is written in this form."""
    if form.kind == OBJECT:
        return frame
    if form.kind == METADATA:
        return lambda kind, data: frame(kind, errors.encoded(partial(msgspec.json.decode(data), form)))
    return _TableEvents(form, resource, include)


class _TableEvents:
    """Only the first event of a table watch carries column definitions."""

    def __init__(self, form: Form, resource: Resource, include: str) -> None:
        self._form = form
        self._resource = resource
        self._include = include
        self._first = True

    def __call__(self, kind: str, data: bytes) -> bytes:
        value: Any = msgspec.json.decode(data)
        if kind in ("ERROR", "BOOKMARK"):
            return frame(kind, data)
        meta = {"resourceVersion": value["metadata"].get("resourceVersion", "")}
        table = tables.table(self._resource, [value], meta, self._form.version, self._include, self._form.clock.now())
        if not self._first:
            table["columnDefinitions"] = None
        self._first = False
        return frame(kind, errors.encoded(table))
