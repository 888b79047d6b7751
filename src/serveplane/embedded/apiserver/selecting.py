"""Which objects a list or watch is about: label and field selectors, with the fields Kubernetes has per kind."""

from collections.abc import Callable
from dataclasses import dataclass

from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.request import Request
from serveplane.embedded.apiserver.resources import Resource
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
REGARDING = {f"regarding.{path.partition('.')[2]}": path for path in _INVOLVED}
ALWAYS = ("metadata.name", "metadata.namespace")


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


def _fields(request: Request, resource: Resource) -> selectors.FieldSelector:
    text = request.query.get("fieldSelector", "")
    if not text:
        return selectors.FieldSelector()
    try:
        parsed = selectors.parse_fields(text)
    except selectors.BadSelector as error:
        raise errors.bad_request(str(error)) from None
    known = selectable(resource)
    for path, _, _ in parsed.terms:
        if REGARDING.get(path, path) not in known:
            listed = ", ".join(f'"{name}"' for name in ALWAYS)
            why = (
                f'"{path}" is not a known field selector: only {listed}'
                if known == ALWAYS
                else f"field label not supported: {path}"
            )
            raise errors.bad_request(f'field label "{path}" not supported for Job' if resource.bucket == "jobs.batch" else why)
    return selectors.FieldSelector(
        tuple((REGARDING.get(path, path), equal, value) for path, equal, value in parsed.terms)
    )


def selectable(resource: Resource) -> tuple[str, ...]:
    custom = resource.custom.selectable_fields if resource.custom else ()
    if resource.custom and not resource.namespaced:
        return (ALWAYS[0], *custom)
    return (*ALWAYS, *FIELDS.get(resource.bucket, ()), *custom)
