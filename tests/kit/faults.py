"""A bad network and an overloaded API server, on demand: a proxy between a client and the API server that misbehaves by a seed.

    async with FaultProxy(testbed.kubeconfig, Faults(errors=0.1, watch_seconds=1), seed=SEED) as proxy:
        …run the client with proxy.kubeconfig…
        proxy.faults = Faults()          # the trouble is over
    proxy.counts                         # how often each fault was committed

Every fault is one that a correct client must survive: it either did not happen, or happened and was not reported.
"""
import asyncio
import enum
import random
import shutil
import ssl
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec
from aiohttp import web

from tests.kit import credentials
from tests.kit.api import LINE, Login

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-authorization",
                        "host", "content-length"})
PATIENCE = 0.5     # seconds for requests under way when the proxy ends; to aiohttp 0 means for ever


@dataclass(frozen=True)
class Faults:
    """Shares are of all requests they can befall, from 0 to 1."""
    errors: float = 0            # 500, 502 and 503 instead of an answer
    busy: float = 0              # 429 with Retry-After
    conflicts: float = 0         # 409 to a change, as if somebody else had been faster
    gone: float = 0              # 410 to a watch or to the next page of a list, before it begins or in the midst of it
    lost: float = 0              # the request is carried out, the connection then breaks
    dropped: float = 0           # the connection breaks in the middle of the answer
    delay: float = 0             # seconds that any request may wait, at most
    watch_seconds: float = 0     # how long a watch lives, at most; for ever if 0
    retry_after: int = 1
    spare: Callable[[str, str], bool] = lambda method, path: False     # requests that are never touched


class Fault(enum.StrEnum):
    ERROR = "error"
    BUSY = "busy"
    CONFLICT = "conflict"
    GONE = "gone"
    LOST = "lost"
    DROPPED = "dropped"
    CUT = "cut"


class FaultProxy:
    def __init__(self, kubeconfig: Path | str, faults: Faults, seed: int) -> None:
        self._upstream, self.faults, self._random = Login.read(kubeconfig), faults, random.Random(seed)
        self.counts: Counter[Fault] = Counter()
        self._folder = Path(tempfile.mkdtemp(prefix="serveplane-faults-"))

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._upstream.trust(), limit=0)
        plain = ("Accept-Encoding",)      # what the client did not ask for: it would be given long lists packed
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False, read_bufsize=LINE, skip_auto_headers=plain)
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=PATIENCE)
        await self._runner.setup()
        authority = credentials.Authority(self._folder)
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=_serving(authority))
        await site.start()
        self.port: int = self._runner.addresses[0][1]
        self.url = f"https://127.0.0.1:{self.port}"
        self.ca = authority.certificate
        self.kubeconfig = self.kubeconfig_for(self._upstream.token)
        return self

    def kubeconfig_for(self, token: str) -> Path:
        """The way through this proxy for another user."""
        return credentials.write_kubeconfig(self._folder / f"{abs(hash(token)):x}.kubeconfig", self.url, self.ca, token)

    async def __aexit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        await self._session.close()
        await self._runner.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        faults = Faults() if self.faults.spare(request.method, request.path) else self.faults
        fault = self._choose(request, faults)
        if faults.delay:
            await asyncio.sleep(self._random.uniform(0, faults.delay))
        if fault:
            self.counts[fault] += 1
        refusal = self._refusal(fault, request, faults)
        try:
            return refusal if refusal is not None else await self._forward(request, fault, faults)
        except ConnectionError:           # the client went away first
            return _break_off(request)

    def _choose(self, request: web.BaseRequest, faults: Faults) -> Fault | None:
        """One draw per request, so that shares add up and the order of the fields does not matter."""
        watching, paging = _is_watch(request), "continue" in request.query
        shares = [(Fault.ERROR, faults.errors), (Fault.BUSY, faults.busy), (Fault.LOST, faults.lost), (Fault.DROPPED, faults.dropped),
                  (Fault.CONFLICT, faults.conflicts if request.method in ("PUT", "PATCH", "DELETE") else 0),
                  (Fault.GONE, faults.gone if watching or paging else 0)]
        drawn = self._random.random()
        for fault, share in shares:
            if drawn < share:
                return fault
            drawn -= share
        return None

    def _refusal(self, fault: Fault | None, request: web.BaseRequest, faults: Faults) -> web.Response | None:
        match fault:
            case Fault.ERROR:
                code = self._random.choice((500, 502, 503))
                said_well = code == 500      # the others come from load balancers, which do not speak JSON
                return _status(code, "InternalError", "told to fail") if said_well else web.Response(status=code, text="bad gateway")
            case Fault.BUSY:
                busy = _status(429, "TooManyRequests", "the server is busy, try again")
                busy.headers["Retry-After"] = str(faults.retry_after)
                return busy
            case Fault.CONFLICT:
                return _status(409, "Conflict", "Operation cannot be fulfilled: the object has been modified")
            case Fault.GONE if not _is_watch(request) or self._random.random() < 0.5:
                return _status(410, "Expired", "too old resource version")
        return None

    async def _forward(self, request: web.BaseRequest, fault: Fault | None, faults: Faults) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        body = await request.content.read(-1) if request.can_read_body else None
        timeout = aiohttp.ClientTimeout(total=None)
        url = self._upstream.server + request.raw_path
        async with self._session.request(request.method, url, headers=headers, data=body, timeout=timeout, allow_redirects=False) as answer:
            if _is_watch(request) and answer.status == 200:
                return await self._stream(request, answer, fault, faults)
            content = await answer.read()
        if fault is Fault.LOST:
            return _break_off(request)
        return await self._answer(request, answer, content, drop=fault is Fault.DROPPED)

    async def _answer(self, request: web.BaseRequest, answer: aiohttp.ClientResponse, content: bytes, drop: bool) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_passed_on(answer))
        response.content_length = len(content)
        await response.prepare(request)
        await response.write(content[: len(content) // 2] if drop else content)
        if drop:
            return _break_off(request, response)
        await response.write_eof()
        return response

    async def _stream(self, request: web.BaseRequest, answer: aiohttp.ClientResponse, fault: Fault | None,
                      faults: Faults) -> web.StreamResponse:
        """Pass a watch on until its time is up; then it ends as watches end in practice: cleanly, or in the middle of a line."""
        response = web.StreamResponse(status=200, headers=_passed_on(answer))
        response.enable_chunked_encoding()
        await response.prepare(request)
        life = self._random.uniform(0.2, 1) * faults.watch_seconds if faults.watch_seconds else None
        try:
            async with asyncio.timeout(0.05 if fault in (Fault.GONE, Fault.LOST, Fault.DROPPED) else life):
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
        except TimeoutError:
            self.counts[Fault.CUT] += fault is None
            return await self._cut(request, response, fault)
        await response.write_eof()
        return response

    async def _cut(self, request: web.BaseRequest, response: web.StreamResponse, fault: Fault | None) -> web.StreamResponse:
        if fault is Fault.GONE:
            error = {"type": "ERROR", "object": _status_object(410, "Expired", "too old resource version")}
            await response.write(msgspec.json.encode(error) + b"\n")
        elif self._random.random() < 0.5:
            await response.write(b'{"type":"MODI')
            return _break_off(request, response)
        await response.write_eof()
        return response


def _is_watch(request: web.BaseRequest) -> bool:
    return request.query.get("watch", "") in ("1", "true", "True")


def _passed_on(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}


def _break_off(request: web.BaseRequest, response: web.StreamResponse | None = None) -> web.StreamResponse:
    if request.transport:
        request.transport.abort()
    return response or web.Response(status=500)      # nobody will read it


def _status(code: int, reason: str, message: str) -> web.Response:
    return web.Response(status=code, body=msgspec.json.encode(_status_object(code, reason, message)), content_type="application/json")


def _status_object(code: int, reason: str, message: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": message}


def _serving(authority: credentials.Authority) -> ssl.SSLContext:
    pair = authority.server("fault-proxy", ["127.0.0.1", "localhost"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(pair.certificate, pair.key)
    return context
