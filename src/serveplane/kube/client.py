"""The Kubernetes API as a handful of verbs over plain JSON values.

    client = Client(HttpTransport(load_config()))
    iris = await client.get(Kind("serving.kserve.io/v1beta1", "InferenceService"), "iris", "default")
    await client.apply(deployment, field_manager="serveplane")

Every request has a deadline; what is safe to repeat is repeated (`retry`); every failure is one of `errors`.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from enum import StrEnum
from typing import Any, TypedDict, Unpack

import msgspec

from serveplane.clock import SYSTEM, Clock
from serveplane.kube.discovery import Discovery, Resource
from serveplane.kube.errors import NotFound
from serveplane.kube.kind import Key, Kind, key_of, kind_of
from serveplane.kube.metrics import Registry
from serveplane.kube.rest import READ_TIMEOUT, WRITE_TIMEOUT, Guard, Rest
from serveplane.kube.retry import RetryPolicy
from serveplane.kube.transport import Transport
from serveplane.kube.wire import Page, RawEvent, WatchEvent, decode, decode_item, lines, parse_event, parse_page
from serveplane.objects import Json

PAGE = 500
# How long the server keeps a watch open; the client jitters it, so that watches do not end together
WATCH_SECONDS = 300
USER_AGENT = "serveplane"


class PatchType(StrEnum):
    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class From(TypedDict, total=False):
    """Which changes a watch tells, and for how many seconds at the most."""

    labels: str
    fields: str
    resource_version: str
    seconds: int


class Client:
    """One API server. Cheap to share: it holds no state but the kinds it has discovered."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock = SYSTEM,
        *,
        retry: RetryPolicy | None = None,
        registry: Registry | None = None,
        user_agent: str = USER_AGENT,
        read_timeout: float = READ_TIMEOUT,
        write_timeout: float = WRITE_TIMEOUT,
        guard: Guard | None = None,
    ) -> None:
        self.clock = clock
        self.registry = registry or Registry()
        self.rest = Rest(
            transport,
            clock,
            retry=retry or RetryPolicy(),
            registry=self.registry,
            user_agent=user_agent,
            read_timeout=read_timeout,
            write_timeout=write_timeout,
            guard=guard,
        )
        self.discovery = Discovery(self._get_path, clock)

    # ---- reads

    async def get(
        self, kind: Kind, name: str, namespace: str | None = None, *, subresource: str = "", resource_version: str = ""
    ) -> Json:
        resource = await self.discovery.resource(kind)
        return await self._get_path(
            resource.path(namespace or "", _named(name), subresource), {"resourceVersion": resource_version}
        )

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Json | None:
        """Like `get`, where absence is an answer and not an error."""
        try:
            return await self.get(kind, name, namespace)
        except NotFound:
            return None

    async def list(
        self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "", limit: int = PAGE
    ) -> list[Json]:
        """Every object, fetched page by page."""
        pages = self.list_pages(kind, namespace, labels=labels, fields=fields, limit=limit)
        return [decode_item(item, kind) async for page in pages for item in page.items]

    async def list_pages(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        limit: int = PAGE,
        resource_version: str = "",
    ) -> AsyncGenerator[Page]:
        """Pages of undecoded objects. Raises `Gone` when the list outlives the server's memory of it."""
        path = (await self.discovery.resource(kind)).path(namespace or "")
        query = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "limit": str(limit or ""),
            "resourceVersion": resource_version,
        }
        while True:
            reply = await self.rest.request("GET", path, query)
            page = parse_page(_bytes(reply.body))
            yield page
            if not page.continue_token:
                return
            query = {**query, "continue": page.continue_token, "resourceVersion": ""}

    async def watch(self, kind: Kind, namespace: str | None = None, **where: Unpack[From]) -> AsyncGenerator[WatchEvent]:
        """Changes after `resource_version` until the server ends the stream; bookmarks included."""
        async with aclosing(self.watch_raw(kind, namespace, **where)) as events:
            async for event in events:
                yield WatchEvent(event.type, decode(event.object))

    async def watch_raw(self, kind: Kind, namespace: str | None = None, **where: Unpack[From]) -> AsyncGenerator[RawEvent]:
        """The same with objects left undecoded, for those who may not need to look inside."""
        path = (await self.discovery.resource(kind)).path(namespace or "")
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": where.get("labels", ""),
            "fieldSelector": where.get("fields", ""),
            "resourceVersion": where.get("resource_version", ""),
            "timeoutSeconds": str(where.get("seconds", WATCH_SECONDS)),
        }
        async with aclosing(self._stream(path, query)) as chunks, aclosing(lines(chunks)) as each:
            async for line in each:
                yield parse_event(line)

    async def logs(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        since_seconds: int | None = None,
        timestamps: bool = False,
    ) -> AsyncGenerator[bytes]:
        """A container's output as the kubelet hands it out."""
        path = (await self.discovery.resource(Kind("v1", "Pod"))).path(namespace, _named(name), "log")
        query = {
            "container": container,
            "follow": _flag(follow),
            "previous": _flag(previous),
            "timestamps": _flag(timestamps),
            "tailLines": "" if tail is None else str(tail),
            "sinceSeconds": str(since_seconds or ""),
        }
        async with aclosing(self._stream(path, query, accept="*/*")) as chunks:
            async for chunk in chunks:
                yield chunk

    async def document(self, path: str) -> Json:
        """Whatever JSON the server has at a path: `/version`, `/openapi/v3/...`."""
        return await self._get_path(path)

    # ---- writes

    async def create(
        self,
        obj: Json,
        *,
        namespace: str = "",
        field_manager: str = "",
        dry_run: bool = False,
        subresource: str = "",
        field_validation: str = "",
    ) -> Json:
        """POST; with a subresource (`token`, `eviction`, `binding`) the object is posted there."""
        resource, key = await self._placed(obj, namespace)
        path = resource.path(key.namespace, key.name if subresource else "", subresource)
        return await self._write("POST", path, obj, _options(field_manager, dry_run, field_validation))

    async def update(self, obj: Json, *, field_manager: str = "", dry_run: bool = False, subresource: str = "") -> Json:
        """PUT; with a resourceVersion in the object the server refuses to overwrite newer changes."""
        resource, key = await self._placed(obj)
        return await self._write(
            "PUT", resource.path(key.namespace, _named(key.name), subresource), obj, _options(field_manager, dry_run)
        )

    async def update_status(self, obj: Json, *, field_manager: str = "") -> Json:
        return await self.update(obj, subresource="status", field_manager=field_manager)

    async def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        body: Any,
        *,
        patch_type: PatchType = PatchType.MERGE,
        field_manager: str = "",
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Json:
        resource = await self.discovery.resource(kind)
        query = _options(field_manager, dry_run)
        if patch_type is PatchType.APPLY:
            query["force"] = _flag(force)
        return await self._write(
            "PATCH",
            resource.path(namespace or "", _named(name), subresource),
            body,
            query,
            patch_type,
            idempotent=patch_type is PatchType.APPLY,
        )

    async def apply(
        self,
        obj: Json,
        field_manager: str,
        *,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: str = "",
    ) -> Json:
        """Server-side apply: creates or changes, and owns exactly the fields given. Sending it twice does no harm, so it is retried."""
        resource, key = await self._placed(obj)
        query = {**_options(field_manager, dry_run, field_validation), "force": _flag(force)}
        return await self._write(
            "PATCH",
            resource.path(key.namespace, _named(key.name), subresource),
            obj,
            query,
            PatchType.APPLY,
            idempotent=True,
        )

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> Json:
        """DELETE. With a uid it can only ever hit the object meant, so it is retried. `propagation`: Background, Foreground, Orphan."""
        resource = await self.discovery.resource(kind)
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if preconditions := _set(uid=uid, resourceVersion=resource_version):
            options["preconditions"] = preconditions
        options |= _set(propagationPolicy=propagation) | ({"dryRun": ["All"]} if dry_run else {})
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self._write(
            "DELETE", resource.path(namespace or "", _named(name)), options, {}, idempotent=bool(uid)
        )

    async def close(self) -> None:
        await self.rest.transport.close()

    # ---- how

    async def _placed(self, obj: Json, namespace: str = "") -> tuple[Resource, Key]:
        resource = await self.discovery.resource(kind_of(obj))
        key = key_of(obj)
        return resource, Key(key.namespace or namespace, key.name)

    async def _get_path(self, path: str, query: dict[str, str] | None = None) -> Json:
        return decode(_bytes((await self.rest.request("GET", path, query)).body))

    async def _write(
        self,
        method: str,
        path: str,
        body: Any,
        query: dict[str, str],
        content_type: str = "application/json",
        *,
        idempotent: bool = False,
    ) -> Json:
        reply = await self.rest.request(
            method, path, query, body=msgspec.json.encode(body), content_type=content_type, idempotent=idempotent
        )
        return decode(_bytes(reply.body))

    async def _stream(self, path: str, query: dict[str, str], accept: str = "") -> AsyncGenerator[bytes]:
        reply = await self.rest.request("GET", path, query, stream=True, accept=accept)
        if isinstance(reply.body, bytes):
            yield reply.body
            return
        try:
            async for chunk in reply.body:
                yield chunk
        finally:
            if close := getattr(reply.body, "aclose", None):
                await close()


def _named(name: str) -> str:
    if not name:  # an empty name would address the whole collection
        raise ValueError("the object has no name")
    return name


def _bytes(body: bytes | AsyncIterator[bytes]) -> bytes:
    assert isinstance(body, bytes), "a stream was answered where none was asked for"
    return body


def _flag(value: bool) -> str:
    return "true" if value else ""


def _set(**values: str) -> Json:
    return {name: value for name, value in values.items() if value}


def _options(field_manager: str, dry_run: bool = False, field_validation: str = "") -> dict[str, str]:
    return {"fieldManager": field_manager, "dryRun": "All" if dry_run else "", "fieldValidation": field_validation}
