"""Asking both servers the operations of a run, and comparing all they say: code, body, warnings, and the watch events at the end."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.embedded.generated.kinds import Kind
from tests.embedded.generated.operations import CURRENT, STALE, Operation
from tests.embedded.generated.values import Json
from tests.embedded.servers import Answer, Api, differences, normal

WATCH_SECONDS = 1
PAGES = 5
CACHE_PATIENCE = 3


@dataclass
class Side:
    """One server in one run: what it said so far about versions and uids."""

    api: Api
    space: str
    oldest: dict[str, str] = field(default_factory=dict)
    """By path, the first version that was seen."""
    latest: dict[str, int] = field(default_factory=dict)
    """By uid, the newest version that was seen."""

    def path(self, operation: Operation) -> str:
        path = operation.kind.collection(self.space)
        if operation.name:
            path += f"/{operation.kind.name(operation.name, self.space)}"
        return path + (f"/{operation.subresource}" if operation.subresource else "")

    def place(self, operation: Operation) -> str:
        """The object itself, whichever part of it is asked for."""
        return self.path(operation).removesuffix(f"/{operation.subresource}" if operation.subresource else "\0")

    # --- versions: no two servers have the same, but both have them in the same order

    def resolved(self, value: Any, operation: Operation, live: Json) -> Any:
        """The value with what stands for versions, uids and the run's own names filled in."""
        if isinstance(value, dict):
            return {key: self._member(key, item, operation, live) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolved(item, operation, live) for item in value]
        return self.space if value == "NS" else value

    def _member(self, key: str, item: Any, operation: Operation, live: Json) -> Any:
        if item == CURRENT:
            return (live.get("metadata") or {}).get(key) or "1"
        if item == STALE:
            return self.oldest.get(self.place(operation)) or "1"
        if key == "name" and item == operation.name and not operation.kind.namespaced:
            return operation.kind.name(item, self.space)
        return self.resolved(item, operation, live)

    def ordered(self, value: Any, path: str) -> Any:
        """The value with each version told as later, same or earlier than the last one seen of that object."""
        if isinstance(value, list):
            return [self.ordered(item, path) for item in value]
        if not isinstance(value, dict):
            return value
        found = {key: self.ordered(item, path) for key, item in value.items()}
        metadata = value.get("metadata")
        if isinstance(metadata, dict) and metadata.get("uid") and str(metadata.get("resourceVersion", "")).isdigit():
            found["versionIs"] = self._compared(metadata["uid"], int(metadata["resourceVersion"]))
            self.oldest.setdefault(path, metadata["resourceVersion"])
        return found

    def _compared(self, uid: str, version: int) -> str:
        known = self.latest.get(uid)
        self.latest[uid] = max(version, known or 0)
        return "new" if known is None else "same" if version == known else "later" if version > known else "earlier"

    # --- asking

    def ask(self, operation: Operation) -> list[Any]:
        path = self.path(operation)
        if operation.verb == "watch":
            return self._watched(operation)
        if operation.verb == "list":
            return self._pages(operation)
        live = self._live(operation) if operation.name else {}
        query = {key: str(item) for key, item in self.resolved(operation.query, operation, live).items()}
        match operation.verb:
            case "create":
                answer = self._sent("POST", operation.kind.collection(self.space), operation, live, query)
            case "generate":
                return self._generated(operation, live, query)
            case "update":
                answer = self._sent("PUT", path, operation, live, query)
            case "edit":
                changed = _merged(live, self.resolved(operation.body, operation, live))
                answer = self.api.call("PUT", path, changed, headers={"Accept": operation.accept}, **query)
            case "patch" | "apply":
                answer = self._sent("PATCH", path, operation, live, query)
            case "get":
                answer = self.api.call("GET", path, headers={"Accept": operation.accept}, **query)
            case "delete":
                answer = self._sent("DELETE", path, operation, live, query)
            case "deletecollection":
                answer = self.api.call("DELETE", path, **self._kept_to_run(operation, query))
        return [self._seen(answer, self.place(operation))]

    def _live(self, operation: Operation) -> Json:
        answer = self.api.call("GET", self.path(operation))
        return answer.value if answer.status == 200 else {}

    def _sent(self, method: str, path: str, operation: Operation, live: Json, query: dict[str, str]) -> Answer:
        body: Any = self._marked(self.resolved(operation.body, operation, live), operation)
        if method == "PUT" and not live and isinstance(body, dict):  # an update that creates knows no version yet
            body["metadata"] = {
                key: item for key, item in body["metadata"].items() if key not in ("resourceVersion", "uid")
            }
        if operation.content == "application/yaml":
            body = yaml.safe_dump(body).encode()
        return self.api.call(method, path, body, operation.content, {"Accept": operation.accept}, **query)

    def _marked(self, body: Any, operation: Operation) -> Any:
        """Objects outside of namespaces are marked with the run, so that lists can keep to it."""
        metadata = body.get("metadata") if isinstance(body, dict) else None
        if (
            operation.kind.namespaced
            or operation.verb not in ("create", "generate", "update", "apply")
            or not isinstance(metadata, dict)
        ):
            return body
        marks = metadata.get("labels", {})
        return (
            {**body, "metadata": {**metadata, "labels": {**marks, "run": self.space}}}
            if isinstance(marks, dict)
            else body
        )

    def _kept_to_run(self, operation: Operation, query: dict[str, str]) -> dict[str, str]:
        mark = f"run={self.space}"
        return (
            query
            if operation.kind.namespaced
            else {**query, "labelSelector": ",".join(filter(None, (query.get("labelSelector", ""), mark)))}
        )

    def _generated(self, operation: Operation, live: Json, query: dict[str, str]) -> list[Any]:
        """The name is not known before, so what was created is deleted at once."""
        made = self._sent("POST", operation.kind.collection(self.space), operation, live, query)
        seen = [self._seen(made, self.path(operation))]
        if made.status == 201 and "dryRun" not in query:
            path = f"{operation.kind.collection(self.space)}/{made.value['metadata']['name']}"
            self.api.call("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
            gone = self.api.call("DELETE", path, propagationPolicy="Background", gracePeriodSeconds="0")
            self.api.call("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
            seen.append(self._seen(gone, path))
        return seen

    def _query(self, operation: Operation) -> dict[str, str]:
        """For a collection the oldest version is where the run began, the current one that of the collection now."""
        collection = self.path(operation)
        known = {STALE: self.oldest.get(collection, "1")}
        if CURRENT in operation.query.values():
            known[CURRENT] = self.api.call("GET", collection, limit="1").value["metadata"]["resourceVersion"]
        return {key: known.get(item, item) for key, item in operation.query.items()}

    def _pages(self, operation: Operation) -> list[Any]:
        path, query, seen = self.path(operation), self._kept_to_run(operation, self._query(operation)), []
        if query.get("labelSelector") or query.get("fieldSelector"):  # etcd cuts pages before it selects: there may be empty ones
            query = {key: item for key, item in query.items() if key != "limit"}
        for _ in range(PAGES):
            answer = self.api.call("GET", path, headers={"Accept": operation.accept}, **query)
            seen.append(self._seen(answer, path))
            more = answer.value.get("metadata", {}).get("continue") if isinstance(answer.value, dict) else ""
            if not more:
                break
            kept = {key: item for key, item in query.items() if key in ("labelSelector", "fieldSelector", "limit")}
            query = {**kept, "continue": more}
        return seen

    def _watched(self, operation: Operation) -> list[Any]:
        return self.events(operation.kind, operation.accept, **self._query(operation))

    def events(self, kind: Kind, accept: str = "application/json", **query: str) -> list[Any]:
        path = kind.collection(self.space)
        found = self.api.watch(path, seconds=WATCH_SECONDS, accept=accept, **query)
        whole = "sendInitialEvents" in query
        return [
            normal(_plain(event))
            for event in found
            if _concerns(event, kind, self.space) and not _is_tick(event, whole)
        ]

    def _seen(self, answer: Answer, path: str) -> list[Any]:
        warnings = sorted(answer.headers.get("warning", "").removeprefix("299 - ").split(", 299 - "))
        value = _undescribed(self.ordered(answer.value, path))
        return [answer.status, warnings, value]


def _plain(event: Json) -> Json:
    """Of the bookmark at the end of the first state, only that it came: the empty object around it is nobody's."""
    if event.get("type") != "BOOKMARK":
        return event
    return {"type": "BOOKMARK", "annotations": event["object"]["metadata"].get("annotations")}


def _undescribed(value: Any) -> Any:
    """Tables are compared but for the prose about their columns."""
    if isinstance(value, dict) and value.get("kind") == "Table":
        columns = value.get("columnDefinitions")
        return {
            **value,
            "rows": value.get("rows") or [],
            "columnDefinitions": [{**column, "description": ""} for column in columns] if columns else columns,
        }
    return value


def _is_tick(event: Json, whole: bool) -> bool:
    """Bookmarks come when the time for one has come; only the one after the first state is an answer, where that was asked for."""
    marks = event["object"]["metadata"].get("annotations", {}) if event.get("type") == "BOOKMARK" else {}
    return event.get("type") == "BOOKMARK" and not (whole and "k8s.io/initial-events-end" in marks)


def _concerns(event: Json, kind: Kind, space: str) -> bool:
    """Objects outside of namespaces are everybody's; only those of this run are compared."""
    name = ((event.get("object") or {}).get("metadata") or {}).get("name", "")
    return kind.namespaced or not name or name.startswith(f"{space}-")


def _merged(value: Any, change: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(change, dict):
        return change
    merged = {**value, **{key: _merged(value.get(key), item) for key, item in change.items()}}
    return {key: item for key, item in merged.items() if change.get(key, item) is not None}


class Run:
    """Both servers through one run."""

    def __init__(self, ours: Api, real: Api, space: str, kinds: Sequence[Kind]) -> None:
        self.sides = (Side(ours, space), Side(real, space))
        self.kinds = kinds
        self.space = space
        self.starts: list[dict[str, str]] = []
        for side in self.sides:
            found = {}
            for kind in kinds:
                collection = kind.collection(space)
                version = side.api.call("GET", collection, limit="1").value["metadata"]["resourceVersion"]
                found[collection] = side.oldest[collection] = version
            self.starts.append(found)

    def play(self, operation: Operation) -> list[str]:
        """Where the two answers differ. The real server may read from a cache that is a moment behind, so reads are asked again."""
        found = self._differences(operation)
        for _ in range(CACHE_PATIENCE if operation.verb in ("get", "list", "watch") else 0):
            if not found:
                break
            time.sleep(0.2)
            found = self._differences(operation)
        return found

    def _differences(self, operation: Operation) -> list[str]:
        ours, real = (normal(side.ask(operation)) for side in self.sides)
        return list(differences(ours, real))

    def events(self) -> Iterator[str]:
        """Where the events of the whole run differ, kind by kind."""
        with ThreadPoolExecutor() as threads:
            asked = [
                (
                    kind,
                    [
                        threads.submit(side.events, kind, resourceVersion=start[kind.collection(self.space)])
                        for side, start in zip(self.sides, self.starts, strict=True)
                    ],
                )
                for kind in self.kinds
            ]
        for kind, (ours, real) in asked:
            for line in differences(ours.result(), real.result()):
                yield f"events of {kind.api_version} {kind.plural}{line}"
