"""One request to an API server: deadline, retries, write guard, metrics, errors. The verbs are in `client`."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from urllib.parse import urlencode

from serveplane.clock import Clock
from serveplane.kube.errors import ApiError, ConnectionFailed, DeadlineExceeded, KubeError, error_from_reply
from serveplane.kube.metrics import Registry
from serveplane.kube.retry import RetryPolicy, parse_retry_after
from serveplane.kube.transport import Call, Reply, Transport

READ_TIMEOUT = 30.0  # a whole page of a large list may take a while on a busy server
WRITE_TIMEOUT = 10.0
MAX_ERROR_BODY = 1 << 20
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')

Guard = Callable[[], None]
"""Called at the moment a write is sent; raises (`LeaseLost`) when it may not go out."""


class Rest:
    """Sends requests until they succeed, fail for good, or run out of time."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        retry: RetryPolicy,
        registry: Registry,
        user_agent: str,
        read_timeout: float = READ_TIMEOUT,
        write_timeout: float = WRITE_TIMEOUT,
        guard: Guard | None = None,
    ) -> None:
        self.transport = transport
        self.clock = clock
        self.registry = registry
        self.read_timeout = read_timeout
        self.write_timeout = write_timeout
        self.guard = guard
        self.warn: Callable[[str], None] = lambda warning: None
        self._retry = retry
        self._headers = {"user-agent": user_agent, "accept": "application/json"}

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: bytes = b"",
        content_type: str = "",
        accept: str = "",
        idempotent: bool = False,
        stream: bool = False,
        timeout: float | None = None,
    ) -> Reply:
        """The successful answer, or the error. Retries happen within the deadline; for a stream it bounds the time until the headers."""
        headers = dict(self._headers)
        if content_type:
            headers["content-type"] = content_type
        if accept:
            headers["accept"] = accept
        reading = method in ("GET", "HEAD")
        budget = timeout or (self.read_timeout if reading else self.write_timeout)
        call = Call(method, path, encode_query(query), headers, body, stream, budget, None if reading else self.guard)
        return await self._attempts(call, self.clock.monotonic() + budget, idempotent or reading)

    async def _attempts(self, call: Call, deadline: float, idempotent: bool) -> Reply:
        attempt = 0
        while True:
            left = deadline - self.clock.monotonic()
            try:
                return await self._once(replace(call, timeout=max(left, 0.001)))
            except KubeError as error:
                delay = self._retry.delay(error, attempt, idempotent=idempotent, clock=self.clock)
                if delay is None or self.clock.monotonic() + delay >= deadline:
                    raise
            attempt += 1
            await self.clock.sleep(delay)

    async def _once(self, call: Call) -> Reply:
        started = self.clock.monotonic()
        try:
            async with asyncio.timeout(call.timeout):
                reply = await self.transport.send(call)
                if reply.status < 400:
                    self._note(call, str(reply.status), started, reply.headers)
                    return reply
                body = await _whole(reply.body)
        except TimeoutError:
            self._note(call, "<error>", started, {})
            raise DeadlineExceeded(
                f"{call.method} {call.path}: no answer within {call.timeout or 0:.1f} s from {self.transport.host}"
            ) from None
        except ConnectionFailed:
            self._note(call, "<error>", started, {})
            raise
        self._note(call, str(reply.status), started, reply.headers)
        raise _error(call, reply, body)

    def _note(self, call: Call, code: str, started: float, headers: Mapping[str, str]) -> None:
        host = self.transport.host
        self.registry.requests.inc(code, call.method, host)
        self.registry.request_seconds.observe(self.clock.monotonic() - started, call.method, host)
        for text in warnings_of(headers.get("warning", "")):
            self.warn(text)


def encode_query(query: Mapping[str, str] | None) -> str:
    """Parameters that are set, encoded; an empty value means "not set" everywhere in this API."""
    return urlencode({name: value for name, value in query.items() if value}) if query else ""


def warnings_of(header: str) -> list[str]:
    """What the server warns of, from its Warning fields.

    >>> warnings_of('299 - "spec.x is deprecated", 299 - "say \\\\"why\\\\""')
    ['spec.x is deprecated', 'say "why"']
    """
    return [_as_sent(text).replace('\\"', '"').replace("\\\\", "\\") for text in _WARNING.findall(header)]


def _as_sent(text: str) -> str:
    """Servers write these in UTF-8, which a header's Latin-1 garbles; what never went over a wire is as it was."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


def _error(call: Call, reply: Reply, body: bytes) -> ApiError:
    error = error_from_reply(reply.status, body, parse_retry_after(reply.headers.get("retry-after")))
    if error.args[0] == "Unauthorized" or error.args[0].startswith("HTTP "):  # say at least what was asked
        error.args = (f"{call.method} {call.path}: {error.args[0]}",)
    return error


async def _whole(body: bytes | AsyncIterator[bytes]) -> bytes:
    if isinstance(body, bytes):
        return body
    parts: list[bytes] = []
    async for chunk in body:
        parts.append(chunk)
        if sum(map(len, parts)) > MAX_ERROR_BODY:
            break
    return b"".join(parts)
