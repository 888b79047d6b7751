"""What the generated runs ask: one operation is a value, so that a failing run can be shrunk, printed and asked again."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.embedded.generated.kinds import KINDS, LIMITING, Kind
from tests.embedded.generated.values import Json, labels, odd_labels, one, rarely, some
from tests.embedded.servers import APPLY, JSON_PATCH, MERGE, STRATEGIC

NAMES = ("a", "b", "c")
MANAGERS = ("one", "two", "three")
NOBODY = "00000000-0000-4000-8000-000000000000"
CURRENT, STALE = "<current>", "<stale>"
"""Stand for a version or uid of the object, which each server has its own of."""


@dataclass(frozen=True)
class Operation:
    verb: str
    kind: Kind
    name: str = ""
    body: Any = None
    content: str = "application/json"
    subresource: str = ""
    query: Json = field(default_factory=dict)
    accept: str = "application/json"

    def __repr__(self) -> str:
        said = {
            "body": self.body,
            "query": self.query,
            "content": self.content.partition("/")[2],
            "sub": self.subresource,
            "accept": self.accept.partition(";")[2],
        }
        told = " ".join(f"{key}={value}" for key, value in said.items() if value and value != "json")
        return f"{self.verb} {self.kind.plural} {self.name} {told}"


versions = one(CURRENT, STALE, "", "1", "0", "abc")
seen_versions = one(CURRENT, STALE, "1")
uids = rarely(one(CURRENT), one(NOBODY))
owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": NOBODY}
owners = one(
    [owner],
    [{**owner, "controller": True}],
    [{**owner, "controller": True}, {**owner, "uid": "u", "controller": True}],
    [{"kind": "X"}],
    [],
)
metadata = some(
    labels=odd_labels,
    annotations=rarely(labels, one({"Bad Key!": "x"}, {"a": 1})),
    finalizers=rarely(
        one([], ["example.com/f"], ["example.com/f", "example.com/g"]), one(["orphan"], ["foregroundDeletion"])
    ),
    ownerReferences=owners,
)
plain_metadata = some(labels=labels, annotations=labels)
some_metadata = rarely(plain_metadata, metadata)
kept_metadata = rarely(
    plain_metadata, some(labels=labels, finalizers=one([], ["example.com/f"], ["example.com/f", "example.com/g"]))
)
write_options = rarely(
    st.just({}),
    some(
        dryRun=rarely(st.just("All"), st.just("Some")),
        fieldValidation=rarely(one("Strict", "Warn", "Ignore"), st.just("Loud")),
        fieldManager=rarely(one(*MANAGERS), one("m" * 129, "bad\nname")),
    ),
)
TABLE, METADATA = (
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io",
)
forms = rarely(st.just("application/json"), one(TABLE, METADATA.format("")))
list_forms = rarely(st.just("application/json"), one(TABLE, METADATA.format("List")))
watch_forms = rarely(st.just("application/json"), one(METADATA.format("")))


@st.composite
def objects(draw: st.DrawFn, kind: Kind, name: str, odd: bool = False) -> Json:
    value = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, **draw(some_metadata if odd else kept_metadata)},
        **draw(kind.body),
    }
    if draw(st.integers(0, 15)) == 15 and kind.plural != "jobs":
        value = {
            **value,
            **draw(
                one(
                    {"bogus": 1},
                    {"spec": {"bogus": {"x": 1}}},
                    {"kind": "Other"},
                    {"apiVersion": "v9"},
                    {"metadata": {"name": "other"}},
                    {"metadata": {"name": "UPPER"}},
                )
            ),
        }
    if kind.plural == "jobs":  # the real server adds labels to a Job without any when it is first written again
        value["metadata"].setdefault("labels", {})
        if value["metadata"]["labels"] == {}:
            value["metadata"]["labels"] = {"k": "x"}
    return value


def _settled(kind: Kind, value: Json) -> Json:
    """A Job's pods cannot be changed, and the refusal shows the server's own structs."""
    if kind.plural != "jobs" or "template" not in (value.get("spec") or {}):
        return value
    return {**value, "spec": {key: item for key, item in value["spec"].items() if key != "template"}}


def partial(value: Any, draw: st.DrawFn) -> Any:
    """Part of an object, some of it set to null, as patches have it."""
    if not isinstance(value, dict):
        return None if draw(st.integers(0, 9)) == 9 else value
    kept = [key for key in value if key not in ("apiVersion", "kind", "name") and draw(st.integers(0, 3))]
    return {key: partial(value[key], draw) for key in kept}


def _create(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    body = draw(objects(kind, name, odd=True))
    if draw(st.integers(0, 9)) == 9:
        body["metadata"] = {
            **{key: item for key, item in body["metadata"].items() if key != "name"},
            "generateName": draw(one("gen-", "")),
        }
        return Operation("generate", kind, name, body, query=draw(write_options))
    content = draw(rarely(st.just("application/json"), one("application/yaml")))
    return Operation("create", kind, name, body, content, query=draw(write_options), accept=draw(forms))


def _update(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    if kind.plural == "jobs":  # what the server put into a Job's selector must be given back
        return _edit(draw, kind, name)
    body = draw(objects(kind, name))
    metadata = {**body["metadata"], **draw(some(resourceVersion=versions, uid=uids))}
    return Operation("update", kind, name, {**body, "metadata": metadata}, query=draw(write_options))


def _edit(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    """Read, change, write back, as controllers and `kubectl edit` do."""
    if kind.plural == "jobs":
        return _patch(draw, kind, name)
    change = partial(_settled(kind, draw(objects(kind, name))), draw)
    return Operation("edit", kind, name, change, query=draw(write_options))


def _patch(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    value = draw(objects(kind, name))
    change = partial(_settled(kind, value), draw)
    if draw(st.integers(0, 9)) == 9:
        change.setdefault("metadata", {}).update(
            draw(some(resourceVersion=seen_versions, name=one("other"), namespace=one("other"), generation=one(9)))
        )
    content = draw(one(MERGE, MERGE, STRATEGIC, STRATEGIC, JSON_PATCH))
    if content == JSON_PATCH:
        change = draw(json_patches(value))
    return Operation("patch", kind, name, change, content, query=draw(write_options))


@st.composite
def json_patches(draw: st.DrawFn, value: Json) -> list[Json]:
    content = next((key for key in value if key not in ("apiVersion", "kind", "metadata")), "data")
    steps: SearchStrategy[Any] = one(
        {"op": "add", "path": "/metadata/labels", "value": {"k": "x"}},
        {"op": "replace", "path": "/metadata/labels/k", "value": "y"},
        {"op": "remove", "path": "/metadata/labels/k"},
        {"op": "test", "path": "/metadata/labels/k", "value": "x"},
        {"op": "remove", "path": f"/{content}"},
        {"op": "add", "path": f"/{content}", "value": value.get(content)},
        {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"},
        {"op": "move", "from": "/metadata/labels/k", "path": "/metadata/labels/m"},
        {"op": "add", "path": "/metadata/finalizers", "value": []},
        {"op": "add", "path": "/metadata/annotations/a~1b", "value": "c"},
        {"op": "nonsense", "path": "/x"},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "add", "path": "/spec/containers/-", "value": {"name": "z", "image": "z"}},
    )
    return draw(st.lists(steps, min_size=1, max_size=2))


def _apply(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    body = draw(objects(kind, name))
    if draw(st.integers(0, 9)) == 9:
        body["metadata"] = {
            **body["metadata"],
            **draw(some(resourceVersion=seen_versions, managedFields=st.just([]))),
        }
    query = {**draw(write_options), "fieldManager": draw(one(*MANAGERS))}
    if draw(st.booleans()):
        query["force"] = draw(rarely(st.just("true"), one("false", "1")))
    return Operation("apply", kind, name, body, APPLY, query=query)


def _status(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    if kind.status is None:
        return Operation("get", kind, name, subresource="status")
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, **draw(plain_metadata)},
        "status": draw(kind.status),
    }
    if draw(st.integers(0, 7)) == 7:
        body.update(draw(kind.body))
    content = draw(one(MERGE, STRATEGIC, APPLY, "application/json"))
    query = draw(write_options)
    if content == APPLY:
        query = {**query, "fieldManager": draw(one(*MANAGERS)), **draw(some(force=st.just("true")))}
    verb = "edit" if content == "application/json" else "apply" if content == APPLY else "patch"
    change = body if content == APPLY else partial(body, draw)
    return Operation(verb, kind, name, change, content, "status", query)


def _scale(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    if not kind.scales:
        return Operation("get", kind, name, subresource="scale")
    spec = draw(some(replicas=rarely(one(0, 1, 3), one(-1, "x", None))))
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": spec}
    content = draw(one(MERGE, "application/json", APPLY))
    query = draw(write_options)
    if content == APPLY:
        query = {**query, "fieldManager": draw(one(*MANAGERS)), **draw(some(force=st.just("true")))}
    elif content == "application/json":
        body["metadata"] = {**body["metadata"], **draw(some(resourceVersion=versions, uid=uids))}
        return Operation("update", kind, name, body, subresource="scale", query=query)
    else:
        body = {"spec": spec}
    return Operation("patch", kind, name, body, content, "scale", query)


delete_options = some(
    gracePeriodSeconds=rarely(one(0, 5), one(-1, 7)),
    propagationPolicy=rarely(one("Background", "Foreground", "Orphan"), one("Orphan")),
    preconditions=some(uid=uids, resourceVersion=versions),
    dryRun=rarely(st.just([]), one(["All"], ["All"])),
    orphanDependents=rarely(st.just(None), st.booleans()),
)


def _delete(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    if draw(st.booleans()):
        query = some(
            gracePeriodSeconds=one("0", "5"),
            propagationPolicy=one("Background", "Foreground", "Orphan", "X"),
            dryRun=one("All"),
        )
        return Operation("delete", kind, name, query=draw(query))
    options = {"apiVersion": "v1", "kind": "DeleteOptions", **draw(delete_options)}
    return Operation("delete", kind, name, options)


selectors = rarely(
    one("k=x", "k==y", "k!=x", "k", "!k", "k in (x,y)", "k notin (x)", "k=x,l=y", ""),
    one("k in ()", "=x", "k=x,", "k > 1", "bad key!=x", "k=(", ",", "k in (x"),
)
field_selectors = rarely(
    one("metadata.name=a", "metadata.name!=a", "metadata.namespace=other", ""),
    one(
        "status.phase=Running",
        "spec.nodeName=",
        "type=Opaque",
        "spec.color=red",
        "nonsense=1",
        "x",
        "metadata.name=a,metadata.name=b",
        "status.replicas=0",
        "reason=r",
        "involvedObject.name=p",
        "regarding.name=p",
        "reportingController=c",
        "spec.host=",
    ),
)


def _list(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    query = draw(
        some(
            labelSelector=selectors,
            fieldSelector=field_selectors,
            limit=rarely(one("1", "2"), one("0", "x", "-1")),
            resourceVersion=rarely(one(CURRENT, STALE), one("0", "abc")),
            resourceVersionMatch=rarely(one("Exact", "NotOlderThan"), st.just("NotOlderThan")),
        )
    )
    return Operation("list", kind, query=query, accept=draw(list_forms))


def _watch(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    query = draw(
        some(
            {"resourceVersion": one(STALE, STALE, "0", "")},
            labelSelector=selectors,
            fieldSelector=field_selectors,
            sendInitialEvents=one("true"),
            resourceVersionMatch=one("NotOlderThan"),
            allowWatchBookmarks=one("true"),
        )
    )
    return Operation("watch", kind, query=query, accept=draw(watch_forms))


def _delete_collection(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    query = draw(
        some(
            {"labelSelector": one("k=x", "k", "l=y", "m notin (x)")},
            dryRun=one("All"),
            propagationPolicy=one("Background", "Orphan"),
            fieldSelector=field_selectors,
        )
    )
    return Operation("deletecollection", kind, query=query)


def _get(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    query = draw(rarely(st.just({}), some(resourceVersion=one("0", CURRENT))))
    return Operation("get", kind, name, query=query, accept=draw(forms))


def _forget(draw: st.DrawFn, kind: Kind, name: str) -> Operation:
    """Take the finalizers off, so that what is being deleted can go."""
    return Operation("patch", kind, name, {"metadata": {"finalizers": None}}, MERGE)


MAKERS = (
    (_get, 1),
    (_create, 7),
    (_update, 4),
    (_edit, 5),
    (_patch, 7),
    (_apply, 9),
    (_status, 3),
    (_scale, 2),
    (_delete, 3),
    (_list, 2),
    (_forget, 1),
    (_delete_collection, 1),
    (_watch, 1),
)
WEIGHTED = tuple(maker for maker, weight in MAKERS for _ in range(weight))


@st.composite
def operations(draw: st.DrawFn, kinds: tuple[Kind, ...] = KINDS) -> Operation:
    kind = draw(st.sampled_from(kinds))
    maker = draw(st.sampled_from(WEIGHTED))
    return maker(draw, kind, draw(st.sampled_from(NAMES)))


@st.composite
def runs(draw: st.DrawFn, least: int, most: int) -> list[Operation]:
    """A run keeps to a few kinds, so that its operations meet."""
    chosen = draw(st.lists(st.sampled_from(KINDS), min_size=3, max_size=3, unique_by=lambda kind: (kind.api, kind.plural)))
    limited = frozenset[str]().union(*(LIMITING.get(kind.plural, ()) for kind in chosen))
    kinds = tuple(kind for kind in chosen if kind.plural not in limited)
    return draw(st.lists(operations(kinds), min_size=least, max_size=most))
