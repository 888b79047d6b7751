"""Which objects a list or watch is about: label and field selectors, with the fields Kubernetes has per kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.request import Request
from serveplane.embedded.apiserver.resources import EVENT_BUCKET, Resource
from serveplane.embedded.store import Record
from serveplane.objects import Json, selectors

_INVOLVED = tuple(
    f"involvedObject.{name}"
    for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
)
FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "events": (*_INVOLVED, "reason", "reportingComponent", "source", "type"),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "replicationcontrollers": ("status.replicas",),
    "jobs.batch": ("status.successful",),
}
NEWER_EVENTS = {
    **{f"regarding.{path.partition('.')[2]}": path for path in _INVOLVED},
    "reportingController": "reportingComponent",
    **{path: path for path in ("reason", "type")},
}
"""What events of the newer group may be chosen by, and what the older one calls it."""
OTHER_NAMES = {"pods": {"spec.host": "spec.nodeName"}}
ALWAYS = ("metadata.name", "metadata.namespace")
NAME_ONLY = frozenset({"nodes", "namespaces"})
"""Kinds without a namespace that say so."""


@dataclass(frozen=True)
class Selection:
    """A test on records. `all` says that every object passes, which readers use to go faster."""

    labels: selectors.LabelSelector
    fields: selectors.FieldSelector
    namespace: str | None
    name: str = ""
    """The one name asked for, if the field selector asks for one."""

    @property
    def all(self) -> bool:
        return not self.labels.requirements and not self.fields.terms

    def matches(self, record: Record) -> bool:
        if self.namespace is not None and record.key.namespace != self.namespace:
            return False
        if self.labels.requirements and not self.labels.matches(record.labels):
            return False
        return not self.fields.terms or self.fields.matches_with(_getter(record))


def _getter(record: Record) -> Callable[[str], str]:
    value: list[Json] = []

    def field(path: str) -> str:
        if path == "metadata.name":
            return record.key.name
        if path == "metadata.namespace":
            return record.key.namespace
        if not value:
            value.append(record.value())
        return _field(value[0], path)

    return field


def _field(value: Json, path: str) -> str:
    if path == "source":  # of an event: the component that reported it
        return selectors.field_value(value, "source.component") or selectors.field_value(value, "reportingComponent")
    if path == "status.successful":
        return selectors.field_value(value, "status.succeeded") or "0"
    found = selectors.field_value(value, path)
    if path in ("spec.unschedulable", "spec.hostNetwork") and not found:
        return "false"
    return "0" if path == "status.replicas" and not found else found


def check_syntax(request: Request) -> None:
    """Selectors are read first; whether a kind has the fields they speak of is asked later."""
    _labels(request)
    _parsed_fields(request)


def selection(request: Request, resource: Resource) -> Selection:
    namespace = request.target.namespace if resource.namespaced and request.target.namespace else None
    labels, fields = _labels(request), _fields(request, resource)
    name = next((value for path, equal, value in fields.terms if path == "metadata.name" and equal), "")
    return Selection(labels, fields, namespace, name)


def _labels(request: Request) -> selectors.LabelSelector:
    text = request.query.get("labelSelector", "")
    if not text:
        return selectors.EVERYTHING
    try:
        return selectors.parse_labels(text)
    except selectors.BadSelector as error:
        raise errors.bad_request(str(error)) from None


def _parsed_fields(request: Request) -> selectors.FieldSelector:
    text = request.query.get("fieldSelector", "")
    try:
        return selectors.parse_fields(text) if text else selectors.FieldSelector()
    except selectors.BadSelector as error:
        raise errors.bad_request(str(error)) from None


def _fields(request: Request, resource: Resource) -> selectors.FieldSelector:
    parsed = _parsed_fields(request)
    known, names = selectable(resource), _names(resource)
    for path, _, _ in parsed.terms:
        if path not in known and path not in names:
            listed = ", ".join(f'"{name}"' for name in ALWAYS)
            why = (
                f'"{path}" is not a known field selector: only {listed}'
                if known == ALWAYS and not names and not resource.custom
                else f"field label not supported: {path}"
            )
            raise errors.bad_request(f'field label "{path}" not supported for Job' if resource.bucket == "jobs.batch" else why)
    return selectors.FieldSelector(tuple((names.get(path, path), equal, value) for path, equal, value in parsed.terms))


def _names(resource: Resource) -> Mapping[str, str]:
    if resource.bucket == EVENT_BUCKET and resource.group:
        return NEWER_EVENTS
    return OTHER_NAMES.get(resource.bucket, {})


def selectable(resource: Resource) -> tuple[str, ...]:
    if resource.bucket == EVENT_BUCKET and resource.group:
        return ALWAYS
    if resource.bucket in NAME_ONLY:
        return (ALWAYS[0], *FIELDS[resource.bucket])
    custom = resource.custom.selectable_fields if resource.custom else ()
    if resource.custom and not resource.namespaced:
        return (ALWAYS[0], *custom)
    return (*ALWAYS, *FIELDS.get(resource.bucket, ()), *custom)
