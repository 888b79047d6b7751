"""The server itself: one function from a request to an answer, in process or over HTTPS."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Self

from serveplane import http
from serveplane.clock import SYSTEM, Clock
from serveplane.embedded.apiserver import bootstrap, dispatch, errors, health, warned
from serveplane.embedded.apiserver.auth.aggregation import Aggregation
from serveplane.embedded.apiserver.body import LIMIT
from serveplane.embedded.apiserver.core import Core
from serveplane.embedded.apiserver.gc import GarbageCollector
from serveplane.embedded.apiserver.loops import Loop
from serveplane.embedded.apiserver.namespaces import NamespaceController
from serveplane.embedded.apiserver.paths import parse_target
from serveplane.embedded.apiserver.protection import Protection
from serveplane.embedded.apiserver.quotas import Quotas
from serveplane.embedded.apiserver.request import ADMIN, ANONYMOUS, Answer, Request, User, parse_query
from serveplane.embedded.store import LogError, Store
from serveplane.kube.transport import InProcessTransport

UNREAD_BYTES = 64 << 10
"""What waits for one reader before its watch does: thousands of them may never read."""
Reply = tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]


class ApiServer:
    """A Kubernetes API server over a store.

    `async with ApiServer(store) as server:` runs it with its own controllers (garbage collection, namespaces);
    `server.transport()` is a way in without a socket, `await server.serve(...)` listens.
    """

    def __init__(self, store: Store | None = None, clock: Clock = SYSTEM) -> None:
        self.store = store or Store()
        self.clock = clock
        self.core = Core(self.store, clock)
        self._work: tuple[Loop, ...] = (
            self.core.registrar,
            GarbageCollector(self.core),
            NamespaceController(self.core),
            Aggregation(self.core),
            Protection(self.core),
            Quotas(self.core),
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._listeners: list[http.Server] = []

    # --- life

    async def start(self) -> None:
        await bootstrap.prepare(self.core)
        for work in self._work:
            work.start()
            self._tasks.append(asyncio.create_task(work.run(), name=type(work).__name__))

    async def close(self) -> None:
        for listener in self._listeners:
            await listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self.core.webhooks.close()
        await self.core.nodes.close()
        self.store.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    # --- ways in

    def transport(self, user: User = ADMIN) -> InProcessTransport:
        """A transport for `serveplane.kube.Client` that acts as the given user, without credentials and without a socket."""

        async def call(method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Reply:
            return await self.handle(method, path, query, headers, body, user)

        return InProcessTransport(call)

    async def serve(
        self, host: str = "127.0.0.1", port: int = 0, tls: http.TlsConfig | None = None, hosts: set[str] | None = None
    ) -> http.Server:
        limits = http.Limits(write_buffer_bytes=UNREAD_BYTES)
        listener = await http.serve(self._over_http, host, port, tls=tls, hosts=hosts, limits=limits, clock=self.clock)
        self._listeners.append(listener)
        return listener

    async def _over_http(self, request: http.Request) -> http.Response:
        headers = _by_name(request.headers)
        try:
            body = await request.read(LIMIT)
        except http.PayloadTooLarge:
            refusal = errors.too_large(LIMIT)
            return http.Response(refusal.code, [("Content-Type", "application/json")], errors.encoded(refusal.status()))
        asked = Request(request.method, request.path, parse_query(request.query), headers, body, ANONYMOUS, query_text=request.query)
        answer = await self._answered(asked, known=False, peer=request.peer)
        if answer.upgrade is not None:
            return http.Upgrade(answer.upgrade, list(answer.headers.items()), answer.status)
        warnings = [("Warning", warned.on_the_wire(field)) for field in warned.fields(asked.warnings)]
        return http.Response(answer.status, [*_headers(answer).items(), *warnings], answer.body)

    async def handle(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, user: User | None = None
    ) -> Reply:
        """Answer one request. `user` is given where the caller is known already; else credentials are read off the headers."""
        lowered = (
            headers
            if all(name.islower() for name in headers)
            else {name.lower(): value for name, value in headers.items()}
        )
        request = Request(method, path, parse_query(query), lowered, body, user or ANONYMOUS)
        answer = await self._answered(request, known=user is not None)
        if answer.upgrade is not None:
            answer = _refused(errors.bad_request("a call in process cannot be upgraded"))
        warnings = {"Warning": ", ".join(warned.fields(request.warnings))} if request.warnings else {}
        return answer.status, {**_headers(answer), **warnings}, answer.body

    async def _answered(self, request: Request, *, known: bool, peer: http.Peer | None = None) -> Answer:
        try:
            if not known:
                request.user = self.core.authenticator.user(request.headers, peer)
            return await self._answer(request)
        except errors.Refusal as refusal:
            return _refused(refusal)
        except LogError as error:
            return _refused(errors.internal(f"the write could not be stored: {error}"))
        except Exception as error:
            self.core.log.exception("%s %s", request.method, request.path)
            return _refused(errors.internal(f"{type(error).__name__}: {error}"))

    async def _answer(self, request: Request) -> Answer:
        target = parse_target(request.path)
        if target is not None:
            request.target = target
        dispatch.authorize(self.core, request)
        if request.path in health.PATHS or request.path.startswith(health.PREFIXES):
            return health.answer(request)
        if target is None:
            return dispatch.discovery_answer(self.core, request)
        return await dispatch.resource_answer(self.core, request)


def _by_name(fields: http.Headers) -> dict[str, str]:
    """In lower case; of one that is repeated, as the groups of whom somebody acts for, every value counts."""
    found: dict[str, str] = {}
    for name, value in fields.items():
        key = name.lower()
        found[key] = f"{found[key]},{value}" if key in found else value
    return found


def _refused(refusal: errors.Refusal) -> Answer:
    headers = {"Retry-After": str(refusal.retry_after)} if refusal.retry_after else {}
    return Answer(refusal.code, errors.encoded(refusal.status()), headers=headers)


def _headers(answer: Answer) -> dict[str, str]:
    return {"Content-Type": answer.content_type, "Cache-Control": "no-cache, private", **answer.headers}
