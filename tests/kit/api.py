"""A small client for tests, on aiohttp and nothing of ours: the judge must not share code with what is judged.

Objects are plain JSON values and say themselves where they live (`apiVersion`, `kind`, `metadata`).
"""
import asyncio
import copy
import ssl
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
import msgspec
import yaml

from tests.kit.waiting import eventually

Json = dict[str, Any]
CONNECTIONS = 64
LINE = 4 << 20                      # a watch event is one line, and a Pod with managedFields is a long one
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
BUSY = b"resource quota evaluation timed out"  # an API server with too little CPU, in the words of its quota plugin (500)
BUSY_ATTEMPTS = 30                  # a server that takes in a changed CRD answers 429 for a moment


class Refused(Exception):
    """The server said no, in these words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Resource(NamedTuple):
    prefix: str
    plural: str
    namespaced: bool
    api_version: str
    kind: str

    def collection(self, namespace: str | None) -> str:
        return f"{self.prefix}/namespaces/{namespace}/{self.plural}" if self.namespaced and namespace else f"{self.prefix}/{self.plural}"


@dataclass(frozen=True)
class Login:
    server: str
    token: str
    ca: str | None

    @classmethod
    def read(cls, kubeconfig: Path | str) -> "Login":
        content = yaml.safe_load(Path(kubeconfig).read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        return cls(cluster["server"], user["token"], cluster.get("certificate-authority"))

    def trust(self) -> ssl.SSLContext | bool:
        return ssl.create_default_context(cafile=self.ca) if self.ca else False


class Api:
    """One user's connection to an API server, as an async context manager."""

    def __init__(self, kubeconfig: Path | str, agent: str = "test") -> None:
        self._login, self._agent = Login.read(kubeconfig), agent
        self.resources: dict[tuple[str, str], Resource] = {}
        self.preferred: list[Resource] = []      # every listable kind once, in its preferred version

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._login.trust(), limit=CONNECTIONS)
        headers = {"Authorization": f"Bearer {self._login.token}", "User-Agent": self._agent}
        self.http = aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=LINE)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        await self.http.close()

    async def call(self, method: str, path: str, body: Json | list[Any] | None = None, content_type: str = "application/json",
                   **query: str) -> Json:
        """One request; `Refused` unless it was granted. A server that is busy is asked again."""
        for _ in range(BUSY_ATTEMPTS):
            data = msgspec.json.encode(body) if body is not None else None
            url = self._login.server + path
            async with self.http.request(method, url, data=data, headers={"Content-Type": content_type}, params=query) as answer:
                text = await answer.read()
            if answer.status != 429 and BUSY not in text:
                break
            await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))
        if answer.status >= 400:
            raise Refused(answer.status, _message(text))
        return msgspec.json.decode(text) if text.startswith(b"{") else {"text": text.decode(errors="replace")}

    async def resource(self, api_version: str, kind: str) -> Resource:
        if (api_version, kind) not in self.resources:
            await self._discover_version(api_version)
        try:
            return self.resources[api_version, kind]
        except KeyError:
            raise Refused(404, f"the server knows no {kind} in {api_version}") from None

    async def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Json | None:
        where = (await self.resource(api_version, kind)).collection(namespace)
        try:
            return await self.call("GET", f"{where}/{name}")
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise

    async def list(self, api_version: str, kind: str, namespace: str | None = None, labels: str = "") -> list[Json]:
        """Every object, each saying its own kind (the items of a list do not)."""
        where = (await self.resource(api_version, kind)).collection(namespace)
        found = await self.call("GET", where, **({"labelSelector": labels} if labels else {}))
        return [{"apiVersion": api_version, "kind": kind, **item} for item in found["items"]]

    async def create(self, obj: Json, namespace: str | None = None) -> Json:
        return await self.call("POST", await self.collection_of(obj, namespace), obj)

    async def apply(self, obj: Json, namespace: str | None = None, manager: str = "test") -> Json:
        """Server-side apply, forced."""
        path = f"{await self.collection_of(obj, namespace)}/{obj['metadata']['name']}"
        return await self.call("PATCH", path, obj, APPLY, fieldManager=manager, force="true")

    async def kubectl_apply(self, obj: Json, namespace: str, before: Json | None = None) -> Json:
        """Create, or change as `kubectl apply` would: a merge patch that also clears what the apply before had set.

        A status in the document is written too, which kubectl cannot: tests use it to say what other software has done.
        """
        collection, name = await self.collection_of(obj, namespace), obj["metadata"]["name"]
        wanted = copy.deepcopy(obj)
        if (await self.resource(obj["apiVersion"], obj["kind"])).namespaced:
            wanted["metadata"].setdefault("namespace", namespace)
        if await self.get(obj["apiVersion"], obj["kind"], name, wanted["metadata"].get("namespace")) is None:
            done = await self.call("POST", collection, wanted)
        else:
            done = await self.call("PATCH", f"{collection}/{name}", clearing(before or {}, wanted), MERGE)
        if obj.get("status"):
            done = await self.call("PATCH", f"{collection}/{name}/status", {"status": obj["status"]}, MERGE)
        return done

    async def patch(self, obj: Json, change: Json, namespace: str | None = None, subresource: str = "") -> Json:
        """A merge patch of the object that `obj` names."""
        path = f"{await self.collection_of(obj, namespace)}/{obj['metadata']['name']}"
        return await self.call("PATCH", f"{path}/{subresource}" if subresource else path, change, MERGE)

    async def delete(self, obj: Json, namespace: str | None = None, propagation: str = "Background") -> None:
        """Delete, if it is there."""
        path = f"{await self.collection_of(obj, namespace)}/{obj['metadata']['name']}"
        try:
            await self.call("DELETE", path, {"propagationPolicy": propagation})
        except Refused as refusal:
            if refusal.status != 404 or "denied the request" in refusal.message:
                raise

    async def watch(self, path: str, resource_version: str = "", **query: str) -> AsyncIterator[tuple[str, Json]]:
        """Events of one collection as (type, object), until the server ends the watch."""
        query = {"watch": "1", "allowWatchBookmarks": "true"} | ({"resourceVersion": resource_version} if resource_version else {}) | query
        timeout = aiohttp.ClientTimeout(total=None)
        async with self.http.get(self._login.server + path, params=query, timeout=timeout) as answer:
            if answer.status >= 400:
                raise Refused(answer.status, _message(await answer.read()))
            async for line in answer.content:
                event = msgspec.json.decode(line)
                yield event["type"], event["object"]

    async def collection_of(self, obj: Json, namespace: str | None = None) -> str:
        resource = await self.resource(obj["apiVersion"], obj["kind"])
        return resource.collection(obj["metadata"].get("namespace") or namespace)

    async def discover(self) -> None:
        """Learn every kind the server has, for who wants to look at all of them."""
        groups = (await self.call("GET", "/apis"))["groups"]
        versions = ["v1", *(version["groupVersion"] for group in groups for version in group["versions"])]
        await asyncio.gather(*map(self._discover_version, versions))
        first: dict[tuple[str, str], Resource] = {}
        for version in versions:                     # the server lists the preferred version of a group first
            for resource in self.resources.values():
                if resource.api_version == version:
                    first.setdefault((version.rpartition("/")[0], resource.kind), resource)
        self.preferred = list(first.values())

    async def _discover_version(self, api_version: str) -> None:
        prefix = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            document = await self.call("GET", prefix)
        except Refused as refusal:
            if refusal.status == 404:
                return
            raise
        for entry in document["resources"]:
            if "/" not in entry["name"] and "list" in entry["verbs"]:
                found = Resource(prefix, entry["name"], entry["namespaced"], api_version, entry["kind"])
                self.resources[api_version, entry["kind"]] = found


def clearing(before: Json, after: Json) -> Json:
    """A merge patch towards `after` that removes what only `before` had.

    >>> clearing({"a": 1, "b": {"c": 1}}, {"b": {"d": 2}})
    {'b': {'d': 2, 'c': None}, 'a': None}
    """
    patch = dict(after)
    for key, value in before.items():
        if key not in after:
            patch[key] = None
        elif isinstance(value, dict) and isinstance(after[key], dict):
            patch[key] = clearing(value, after[key])
    return patch


def documents(path: Path) -> list[Json]:
    return [document for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if document]


async def install(api: Api, objects: Iterable[Json], namespace: str = "default") -> None:
    """Apply objects in their order; CustomResourceDefinitions are waited for, so that what follows may use them."""
    definitions = []
    for obj in objects:
        await api.apply(obj, namespace)
        if obj["kind"] == "CustomResourceDefinition":
            definitions.append(obj)
    for definition in definitions:
        await established(api, definition["metadata"]["name"])


async def established(api: Api, definition: str, seconds: float = 120) -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}"

    async def is_established() -> bool:
        return condition(await api.call("GET", path), "Established")
    await eventually(is_established, seconds, f"{definition} is established")


def condition(obj: Json, kind: str) -> bool:
    """Whether an object has a condition of that type and it is True."""
    return any(c["type"] == kind and c["status"] == "True" for c in (obj.get("status") or {}).get("conditions") or [])


def _message(text: bytes) -> str:
    try:
        return str(msgspec.json.decode(text).get("message", text.decode()))
    except (msgspec.DecodeError, AttributeError):
        return text.decode(errors="replace")
