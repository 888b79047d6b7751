"""What a handler gets and gives: `Request`, `Response`, and `Upgrade` for those who want the raw bytes afterwards."""
import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from serveplane.http.body import Body
from serveplane.http.errors import PayloadTooLarge
from serveplane.http.headers import Headers

if TYPE_CHECKING:
    from serveplane.http.tunnel import Tunnel

Handler = Callable[["Request"], Awaitable["Response"]]
"""Mostly an `async def`. A plain function may return a `Response` it has already, or a `Direct`: then no task is needed."""
HeaderItems = Iterable[tuple[str, str]] | Mapping[str, str] | Headers


class Peer(NamedTuple):
    """Who is at the other end of the connection."""

    address: str = ""
    port: int = 0
    tls: bool = False
    certificate: bytes | None = None
    """The client's certificate (DER), verified against the server's client CAs."""
    subject: Mapping[str, tuple[str, ...]] = {}
    """Its subject by attribute, as `ssl` names them: commonName, organizationName…"""


NOBODY = Peer()


class Request:
    """One request. `path` is still percent-encoded: decoding it before routing would make `%2F` a separator."""

    __slots__ = ("_body", "_body_limit", "headers", "http10", "keep_alive", "length", "method", "params", "path", "peer", "query", "target")

    def __init__(self, method: str, target: str, headers: HeaderItems = (), body: bytes | Body = b"", *, peer: Peer = NOBODY,
                 params: dict[str, str] | None = None, body_limit: int = 1 << 30) -> None:
        self.method = method
        self.target = target
        self.headers = headers if isinstance(headers, Headers) else Headers(headers)
        self.peer = peer
        self.params: dict[str, str] = {} if params is None else params
        self.path, _, self.query = target.partition("?")
        self.http10 = False
        self.keep_alive = True
        self.length: int = len(body) if isinstance(body, bytes) else -1
        """Declared length of the body; -1 if it is chunked."""
        self._body = body
        self._body_limit = body_limit

    @property
    def body(self) -> bytes | Body:
        """The body as far as the connection knows it: bytes if it is all here, for those who forward it."""
        return self._body

    async def read(self, limit: int | None = None) -> bytes:
        """The whole body. Longer than the limit (the server's, unless given) is a 413."""
        limit = self._body_limit if limit is None else limit
        body = self._body
        if self.length > limit:
            raise PayloadTooLarge(limit)
        if not isinstance(body, bytes):
            self._body = body = await body.read(limit)
        elif len(body) > limit:
            raise PayloadTooLarge(limit)
        return body

    async def stream(self) -> AsyncIterator[bytes]:
        """The body piece by piece; the sender is held back while a piece is being dealt with."""
        if isinstance(self._body, bytes):
            if self._body:
                yield self._body
            return
        while piece := await self._body.next():
            yield piece

    async def json(self) -> Any:
        from msgspec import json  # here and below: two megabytes that a server without JSON does not need
        return json.decode(await self.read())

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.path}>"


class Response:
    """One answer. A body given as an async iterable is sent piece by piece, each flushed as it comes.

    The connection itself decides on framing: Content-Length of a bytes body, chunked for a stream (unless the handler
    declares a Content-Length), Connection and Date. HEAD, 204 and 304 never get a body.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int = 200, headers: HeaderItems = (), body: bytes | AsyncIterable[bytes] = b"") -> None:
        self.status = status
        self.headers = headers if type(headers) is Headers else Headers(headers)
        self.body: bytes | AsyncIterable[bytes] = body if type(body) is bytes else _sendable(body)

    @classmethod
    def json(cls, value: Any, status: int = 200, headers: HeaderItems = ()) -> "Response":
        from msgspec import json
        response = cls(status, headers, json.encode(value))
        response.headers.add("Content-Type", "application/json")
        return response

    @classmethod
    def text(cls, text: str, status: int = 200, headers: HeaderItems = ()) -> "Response":
        response = cls(status, headers, text.encode())
        response.headers.add("Content-Type", "text/plain; charset=utf-8")
        return response

    def __await__(self) -> Generator[Any, Any, "Response"]:
        """A handler that has its answer at once may return it as it is; whoever awaits it anyway gets it."""
        yield from ()
        return self

    def __repr__(self) -> str:
        return f"<Response {self.status}>"


def _sendable(body: bytes | bytearray | memoryview | AsyncIterable[bytes]) -> bytes | AsyncIterable[bytes]:
    """What is neither bytes nor a stream of them fails here, where it was made, and not after the head is out."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    if not hasattr(body, "__aiter__"):
        raise TypeError(f"a body is bytes or an async iterable of bytes, not {type(body).__name__}")
    return body


class Upgrade(Response):
    """The answer after which the connection speaks something else: 101 for an Upgrade, 200 for a CONNECT.

    `run` then has the raw byte stream for as long as it likes; the connection closes when it returns.
    """

    __slots__ = ("run",)

    def __init__(self, run: "Callable[[Tunnel], Awaitable[None]]", headers: HeaderItems = (), status: int = 101) -> None:
        super().__init__(status, headers)
        self.run = run


class Sink(Protocol):
    """The connection that waits for an answer."""

    def answered(self, request: Request, response: Response) -> None:
        """Here it is."""

    def awaits(self, request: Request, answer: Awaitable[Response]) -> None:
        """It has to be waited for after all."""


class Direct:
    """What a handler may return so that no task is needed: an awaitable that can also deliver its answer by itself."""

    __slots__ = ("request",)
    request: Request

    def __await__(self) -> Generator[Any, Any, Response]:
        raise NotImplementedError

    def start(self, sink: Sink) -> bool:
        """Begin at once and tell the sink later; False (and nothing begun) if it has to be awaited instead."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Nobody waits any more; the sink hears nothing."""
        raise NotImplementedError


class Later(Direct):
    """An answer that somebody else will give: the handler returns this, and whoever has the answer calls `answer`, in the loop's thread.

    For work that is done for many requests at once, where a task for each would only wait.
    """

    __slots__ = ("_sink", "gone")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.gone = False
        """Nobody waits any more: the client left, or there was an answer."""
        self._sink: Sink | asyncio.Future[Response] | None = None

    def answer(self, response: Response) -> None:
        sink = self._sink
        if self.gone:
            return
        self.gone = True
        if isinstance(sink, asyncio.Future):
            if not sink.done():
                sink.set_result(response)
        elif sink is not None:
            sink.answered(self.request, response)
        else:
            raise RuntimeError("answered before it was returned: return the response instead")

    def start(self, sink: Sink) -> bool:
        self._sink = sink
        return True

    def cancel(self) -> None:
        self.gone = True

    def __await__(self) -> Generator[Any, Any, Response]:
        self._sink = asyncio.get_running_loop().create_future()
        return (yield from self._sink)
