"""The form an answer takes: objects as they are stored, a Table for people, or metadata only.

Objects are stored in the form of a GET, so the plain form costs nothing; a list cuts off the leading type of each
item, as the real server leaves it out there.
"""

from collections.abc import Callable, Iterable, Mapping
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


def many(form: Form, resource: Resource, items: Iterable[bytes], metadata: Json, include: str = "") -> bytes:
    """A whole list answer."""
    if form.kind == TABLE:
        return errors.encoded(
            tables.table(resource, map(msgspec.json.decode, items), metadata, form.version, include, form.clock.now())
        )
    meta = errors.encoded(metadata)
    if form.kind == METADATA:
        head = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/%s","metadata":' % form.version.encode()
        parts = [errors.encoded(partial(msgspec.json.decode(item), form)) for item in items]
        return b'%s%s,"items":[%s]}' % (head, meta, b",".join(parts))
    head = b'{"kind":"%s","apiVersion":"%s","metadata":' % (resource.list_kind.encode(), resource.api_version.encode())
    if resource.custom is None:
        start = prefix(resource)
        size = len(start)
        items = [b"{" + item[size:] if item.startswith(start) else item for item in items]
    return b'%s%s,"items":[%s]}' % (head, meta, b",".join(items))


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
