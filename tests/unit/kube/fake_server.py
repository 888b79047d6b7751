"""A few lines of an API server, for arithmetic that needs no more: leases, events and secrets as a table of objects."""

import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from serveplane.kube.client import Client
from serveplane.kube.transport import InProcessTransport
from serveplane.objects.jsonpatch import merge_patched
from tests.unit.kube.clocks import FakeClock

Json = dict[str, Any]
RESOURCES = {
    "/api/v1": [("configmaps", "ConfigMap"), ("events", "Event"), ("secrets", "Secret")],
    "/apis/coordination.k8s.io/v1": [("leases", "Lease")],
}


class FakeServer:
    """Create, get, update, merge patch; optimistic locking by resource version. `fail` may answer instead."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.requests: list[tuple[str, str]] = []
        self.fail: list[int] = []
        self._versions = itertools.count(1)

    def client(self, clock: FakeClock, **options: Any) -> Client:
        return Client(InProcessTransport(self.answer), clock, **options)

    async def answer(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]:
        if path in RESOURCES:
            listed = [{"name": plural, "kind": kind, "namespaced": True} for plural, kind in RESOURCES[path]]
            return 200, {}, msgspec.json.encode({"kind": "APIResourceList", "resources": listed})
        self.requests.append((method, path))
        if self.fail:
            return self._status(self.fail.pop(0), "told to fail")
        status, value = self._act(method, path, msgspec.json.decode(body) if body else {})
        return status, {}, msgspec.json.encode(value)

    def _act(self, method: str, path: str, sent: Json) -> tuple[int, Json]:
        live = self.objects.get(path)
        if method == "POST":
            path = f"{path}/{sent['metadata']['name']}"
            return (409, self._say(409, "AlreadyExists")) if path in self.objects else (201, self._store(path, sent))
        if live is None:
            return 404, self._say(404, "NotFound")
        if method == "GET":
            return 200, live
        if method == "PATCH":
            return 200, self._store(path, merge_patched(live, sent))
        version = sent["metadata"].get("resourceVersion")
        if version and version != live["metadata"]["resourceVersion"]:
            return 409, self._say(409, "Conflict")
        return 200, self._store(path, sent)

    def _store(self, path: str, obj: Json) -> Json:
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(next(self._versions))}}
        self.objects[path] = stored
        return stored

    def _status(self, code: int, message: str) -> tuple[int, Mapping[str, str], bytes]:
        return code, {}, msgspec.json.encode(self._say(code, "", message))

    @staticmethod
    def _say(code: int, reason: str, message: str = "") -> Json:
        return {"kind": "Status", "code": code, "reason": reason, "message": message or reason}
