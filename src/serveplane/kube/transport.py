"""Where requests go: over HTTP, or by a call into an API server that lives in the same process.

The client above knows paths, retries and errors; a transport only carries bytes. That split is what lets the whole
system run in one process on a simulated clock.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Reply(NamedTuple):
    """An answer: the body is bytes, or (when a stream was asked for) an async iterator of them."""

    status: int
    headers: Mapping[str, str]
    body: bytes | AsyncIterator[bytes]


@dataclass(frozen=True)
class Call:
    """One request as it goes out. `query` is already percent-encoded; `before_send` is called at the moment of
    sending and may refuse by raising.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] | None = None
    body: bytes = b""
    stream: bool = False
    timeout: float | None = None
    before_send: Callable[[], None] | None = None

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path


class Transport(Protocol):
    """Carries one request. Raises `ConnectionFailed` (or `DeadlineExceeded`) when there is no whole answer."""

    async def send(self, call: Call) -> Reply: ...

    async def close(self) -> None: ...

    @property
    def host(self) -> str:
        """For metrics and messages: which server this is."""


InProcessServer = Callable[
    [str, str, str, Mapping[str, str], bytes], Awaitable[tuple[int, Mapping[str, str], bytes | AsyncIterator[bytes]]]
]
"""An API server as a plain coroutine: method, path, query, headers, body → status, headers, body or stream of it."""


class InProcessTransport:
    """A call instead of a connection. The server decides by the query (`watch=true`, `follow=true`) whether it streams."""

    host = "in-process"

    def __init__(self, server: InProcessServer, headers: Mapping[str, str] | None = None) -> None:
        self._server = server
        self._headers = dict(headers or {})  # e.g. who is calling

    async def send(self, call: Call) -> Reply:
        if call.before_send:
            call.before_send()
        headers = {**self._headers, **(call.headers or {})}
        status, answered, body = await self._server(call.method, call.path, call.query, headers, call.body)
        if not call.stream and not isinstance(body, bytes):
            body = b"".join([chunk async for chunk in body])
        return Reply(status, {name.lower(): value for name, value in answered.items()}, body)

    async def close(self) -> None:
        return None
