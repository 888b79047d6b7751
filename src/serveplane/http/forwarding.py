"""One forwarded request, from the connection it came in on to the connection it goes out on and back.

The usual request is all there when its head is, the origin has a kept connection, and the answer fits one read. It needs
nobody who waits: the server connection hands it to the client connection, and that one calls back with the answer. A task and a
future would cost as much as all the rest. Whatever is not usual (a body still coming, no kept connection or a stale one, an
answer that streams or switches protocols) is awaited in a task like any handler's work. Both ways share every check: heads are
judged, written and taken apart in the same places.
"""
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from serveplane.http import wire
from serveplane.http.client import IDEMPOTENT, Client
from serveplane.http.client_connection import ClientConnection, ClientResponse
from serveplane.http.errors import ClientError, ClientTimeout, ConnectFailed, ConnectionLost
from serveplane.http.headers import Headers
from serveplane.http.limits import Timeouts
from serveplane.http.messages import Direct, Request, Response, Sink, Upgrade
from serveplane.http.origin import Origin
from serveplane.http.tunnel import Tunnel, splice

if TYPE_CHECKING:
    from serveplane.http.client import RequestBody

Otherwise = Callable[["Forwarding"], Awaitable[Response]]

_REPEATABLE = frozenset(method.decode() for method in IDEMPOTENT)
_NOT_RETURNED = wire.CONNECTION_FIELDS - {b"proxy-authenticate"}
_NEVER_NAMED = frozenset((b"host", b"content-length", b"authorization", b"cookie", b"content-type"))


class Forwarding(Direct):
    """Awaitable; gives the origin's answer, or 502, 503 or 504 if there is none.

    `otherwise` takes the place of the plain exchange when it has to be awaited: a gateway tries one endpoint after another there.
    """

    __slots__ = ("_client", "_connection", "_head", "_left", "_origin", "_otherwise", "_sink", "_timeouts", "fresh")
    _connection: ClientConnection
    _sink: Sink

    def __init__(self, client: Client, request: Request, origin: Origin, head: bytes, timeouts: Timeouts,
                 otherwise: Otherwise | None, fresh: bool) -> None:
        self._client = client
        self.request = request
        self._origin = origin
        self._head = head
        self._timeouts = timeouts
        self._otherwise = otherwise
        self._left = False
        self.fresh = fresh   # only a new connection will do: a kept one turned out closed

    def __await__(self) -> Generator[Any, Any, Response]:
        answer = self._exchange() if self._otherwise is None else self._otherwise(self)
        return answer.__await__()

    async def _exchange(self) -> Response:
        request, repeat = self.request, self._repeatable and not self.fresh
        body = request.body
        content: RequestBody = body if isinstance(body, bytes) else request.stream()
        try:
            answer = await self._client.exchange(self._origin, self._head, content, self._timeouts, repeat, fresh=self.fresh)
        except ClientError as error:
            return failure(error)
        return returned(answer)

    @property
    def _repeatable(self) -> bool:
        request = self.request
        may = request.method in _REPEATABLE or b"idempotency-key" in request.headers.index
        return may and isinstance(request.body, bytes)

    # without a task

    def start(self, sink: Sink) -> bool:
        body = self.request.body
        if type(body) is not bytes or self.fresh:
            return False
        connection = self._client.exchange_now(self._origin, self._head, body, self._timeouts, self)
        if connection is None:
            return False
        self._connection = connection
        self._sink = sink
        return True

    def cancel(self) -> None:
        self._left = True
        self._connection.fail(ConnectionLost("the client went away"))

    # the client connection's Receiver

    def done(self) -> bool:
        """Nobody waits any more."""
        return self._left

    def set_result(self, answer: ClientResponse) -> None:
        self._sink.answered(self.request, returned(answer))

    def set_exception(self, error: Exception) -> None:
        if isinstance(error, ConnectionLost) and error.replayable and self._repeatable:
            self.fresh = True
            self._sink.awaits(self.request, self)
        else:
            self._sink.answered(self.request, failure(error))


class Unreachable(Response):
    """Our own word that no connection came about, so that nothing of the request was used up; an origin may say 503, too."""

    __slots__ = ()


def returned(answer: ClientResponse) -> Response:
    """The origin's answer as ours: without what belongs to its connection."""
    if answer.tunnel is not None:
        return _joined(answer, answer.tunnel)
    content = answer.body
    return Response(answer.status, _message_fields(answer.headers), content if type(content) is bytes else answer.stream())


def _message_fields(headers: Headers) -> Headers:
    if _NOT_RETURNED.isdisjoint(headers.index):
        return headers
    dropped = _NOT_RETURNED if b"connection" not in headers.index else _NOT_RETURNED | named(headers)
    return Headers.parsed([field for field in headers.raw if field[0].lower() not in dropped])


def named(headers: Headers) -> set[bytes]:
    """Fields the sender declares to be of the connection; what the message needs cannot be taken away like that."""
    return {token.encode("latin-1") for token in headers.tokens("connection")} - _NEVER_NAMED


def _joined(answer: ClientResponse, origin: Tunnel) -> Response:
    """Both agreed to speak something else: their bytes are joined until one of them ends."""
    headers = _message_fields(answer.headers)
    headers.remove("content-length")
    agreed = answer.headers.get("upgrade")
    if agreed is not None:
        headers.add("Upgrade", agreed)

    async def run(client: Tunnel) -> None:
        try:
            await splice(client, origin)
        finally:
            await answer.close()
    return Upgrade(run, headers, answer.status)


def failure(error: Exception) -> Response:
    """What a client is told when its origin gave no answer."""
    if isinstance(error, ClientTimeout):
        return Response.text("the origin did not answer in time\n", 504)
    if isinstance(error, ConnectFailed):
        return Unreachable.text("the origin cannot be reached\n", 503)
    return Response.text("the origin gave no valid answer\n", 502)
