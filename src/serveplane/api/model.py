"""Frozen typed views of our kinds.

What is ours has a field with a type. What is a Pod's (or a Container's, a Gateway's) stays plain JSON under a field
marked `Inline` or `Part`, so nothing a user wrote is lost. The same classes describe the CRD schemas (`api.schema`), so
a field exists once.

A view is read from an object and never written back.
"""

import functools
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from serveplane.objects import Json


class Inline(NamedTuple):
    """Marks the field that takes every key of the object which no other field claims, as Kubernetes' type `name` has them.
    """

    name: str
    optional: tuple[str, ...] = ()
    """Fields that Kubernetes requires and we do not."""
    without: tuple[str, ...] = ()
    """Fields of the type that are not part of our schema."""
    only: tuple[str, ...] = ()
    """If given, the fields that are."""


class Part(NamedTuple):
    """Marks a field (or, in a list or map, its values) that holds Kubernetes' type `name` as it is."""

    name: str
    optional: tuple[str, ...] = ()


class Rules:
    """Schema keywords of a field, as OpenAPI spells them: `enum`, `pattern`, `minimum`, `default`, list types, …"""

    def __init__(self, keywords: Mapping[str, Any]) -> None:
        self.keywords = keywords


class Described(NamedTuple):
    """Marks JSON whose schema is a model's although it is not read into one: statuses."""

    model: "type[Model]"


class Schemaless:
    """Marks a field that API servers are told nothing about, because its type contains itself; we check it ourselves.
    """


class Open(NamedTuple):
    """Marks an object whose unknown keys the API server keeps."""


def rules(**keywords: Any) -> Rules:
    """`rules(minimum=0, x_kubernetes_list_type="atomic")`"""
    return Rules({name.replace("_", "-") if name.startswith("x_") else name: value for name, value in keywords.items()})


def cel(message: str, rule: str) -> Json:
    """A rule that the API server checks; validation repeats it, for clusters with the minimal definitions."""
    return {"message": message, "rule": rule}


class ModelMeta(msgspec.StructMeta):
    """Makes every subclass keyword-only, which a struct does not inherit; so required fields may follow optional ones.
    """

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: Json, **options: Any) -> "ModelMeta":
        options = options | {"frozen": True, "kw_only": True, "rename": "camel"}
        return super().__new__(mcls, name, bases, namespace, **options)


@typing.dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Model(msgspec.Struct, frozen=True, kw_only=True, metaclass=ModelMeta):
    """Base of every typed view. A field without default is required in the schema."""


class Named(Model):
    """An object of a kind. Metadata stays JSON: it is the API server's."""

    metadata: Json = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.metadata.get("name") or "")

    @property
    def namespace(self) -> str:
        """Empty for an object of the whole cluster."""
        return str(self.metadata.get("namespace") or "")

    @property
    def annotations(self) -> "StringMap":
        return self.metadata.get("annotations") or {}

    @property
    def labels(self) -> "StringMap":
        return self.metadata.get("labels") or {}


class WithPod(Model):
    """A part with pod fields of the user's under `pod`; which ones, the subclass says."""

    pod: Json = msgspec.field(default_factory=dict)

    @property
    def containers(self) -> list[Json]:
        found: list[Json] = self.pod.get("containers") or []
        return found


Int32 = Annotated[int, rules(format="int32")]
Int64 = Annotated[int, rules(format="int64")]
Quantity = Annotated[int | float | str, rules(format="quantity")]
IntOrString = int | str
StringMap = dict[str, str]

M = TypeVar("M", bound=Model)
Reader = Callable[[Any], Any]


class Slot(NamedTuple):
    """One field of a model as the reader sees it."""

    attribute: str
    key: str
    read: Reader | None
    fallback: Any


class Plan(NamedTuple):
    slots: tuple[Slot, ...]
    inline: str
    keys: frozenset[str]


def read(model: type[M], value: Mapping[str, Any] | None) -> M:
    """The typed view of an object that its schema accepts; null reads as absent, as everywhere in Kubernetes."""
    value = value or {}
    plan = plan_of(model)
    found: Json = {}
    for slot in plan.slots:
        given = value.get(slot.key)
        if given is not None:
            found[slot.attribute] = given if slot.read is None else slot.read(given)
        elif slot.fallback is not msgspec.NODEFAULT:
            found[slot.attribute] = slot.fallback
    if plan.inline:
        found[plan.inline] = {key: item for key, item in value.items() if key not in plan.keys and item is not None}
    return model(**found)


@functools.cache
def plan_of(model: type[Model]) -> Plan:
    """How `model` is read: worked out once per class from its annotations."""
    hints = typing.get_type_hints(model, include_extras=True)
    slots, inline = [], ""
    for field in msgspec.structs.fields(model):
        hint = hints[field.name]
        if marker(hint, Inline):
            inline = field.name
            continue
        slots.append(
            Slot(field.name, field.encode_name, reader(hint), _zero(hint) if field.required else msgspec.NODEFAULT)
        )
    return Plan(tuple(slots), inline, frozenset(slot.key for slot in slots))


def marker(hint: Any, kind: type[Any]) -> Any:
    """The first annotation of that kind on a type, looking through `X | None`."""
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, kind):
            return extra
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return next((found for part in typing.get_args(hint) if (found := marker(part, kind))), None)
    if typing.get_origin(hint) is Annotated:
        return marker(typing.get_args(hint)[0], kind)
    return None


def plain(hint: Any) -> Any:
    """A type without its annotations and without `| None`."""
    while True:
        if typing.get_origin(hint) is Annotated:
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
            parts = [part for part in typing.get_args(hint) if part is not types.NoneType]
            if len(parts) != 1:
                return hint
            hint = parts[0]
        else:
            return hint


def reader(hint: Any) -> Reader | None:
    """What turns a JSON value into the field's value; None if it is taken as it is."""
    kind = plain(hint)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Model):
        return functools.partial(read, kind)
    if origin is tuple:
        inner = reader(arguments[0])
        return tuple if inner is None else functools.partial(_tuple, inner)
    if origin is dict:
        inner = reader(arguments[1])
        return None if inner is None else functools.partial(_map, inner)
    return None


def _tuple(inner: Reader, items: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(inner(item) for item in items)


def _map(inner: Reader, items: Mapping[str, Any]) -> Json:
    return {key: inner(item) for key, item in items.items()}


def _zero(hint: Any) -> Any:
    """What a required field reads as when an old stored object lacks it: Go's zero value, never an exception."""
    kind = plain(hint)
    if isinstance(kind, type) and issubclass(kind, Model):
        return read(kind, None)
    zeros: dict[Any, Any] = {str: "", int: 0, bool: False, tuple: (), dict: {}}
    return zeros.get(typing.get_origin(kind) or kind)
