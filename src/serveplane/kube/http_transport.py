"""Requests over HTTP(S), with the credentials of a `ClusterConfig`.

A 401 makes the credentials be renewed and the request sent once more: tokens in pods are short-lived, and a request
that was refused for its token has done nothing.
"""

import ssl
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from serveplane.http.client import Client as HttpClient
from serveplane.http.client_connection import ClientResponse
from serveplane.http.errors import ClientTimeout, ConnectFailed, HttpError
from serveplane.http.limits import MIB, ClientLimits, Timeouts
from serveplane.http.tls import ClientTls
from serveplane.kube.config import ClusterConfig
from serveplane.kube.errors import ConnectionFailed, DeadlineExceeded, Unreachable
from serveplane.kube.transport import Call, Reply

LIMITS = ClientLimits(connections_per_origin=512, body_bytes=512 * MIB)  # every watch holds a connection
TIMEOUTS = Timeouts(connect=10.0, read=None, total=None)  # the client above sets each request's own deadline


@dataclass(frozen=True)
class _Tls(ClientTls):
    """The TLS context of a cluster's configuration, made from data rather than files."""

    made: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        return self.made or super().context()


class HttpTransport:
    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self.host = urlsplit(config.server).netloc
        self._pair: tuple[bytes, bytes] | None = None
        self._http = self._client()

    async def send(self, call: Call) -> Reply:
        used = await self._authorization(renew=False)
        reply = await self._send(call, used)
        if reply.status == 401 and self.config.credentials is not None:
            renewed = await self._authorization(renew=True)
            if renewed != used:
                reply = await self._send(call, renewed)
        return reply

    async def close(self) -> None:
        await self._http.close()

    def _client(self) -> HttpClient:
        tls = _Tls(server_name=self.config.server_name or None, made=self.config.ssl_context(self._pair))
        return HttpClient(limits=LIMITS, timeouts=TIMEOUTS, tls=tls, proxy=self.config.proxy)

    async def _authorization(self, *, renew: bool) -> str:
        credentials = self.config.credentials
        if credentials is None:
            return ""
        header = await credentials.header(renew=renew)
        pair = credentials.client_pair()
        if pair != self._pair:  # a plugin handed out another client certificate
            self._pair = pair
            old, self._http = self._http, self._client()
            await old.close()
        return header

    async def _send(self, call: Call, authorization: str) -> Reply:
        headers = [*(call.headers or {}).items(), *self.config.impersonation]
        if authorization:
            headers.append(("authorization", authorization))
        try:
            response = await self._http.request(
                call.method,
                self.config.server + call.target,
                headers=headers,
                body=call.body or None,
                before_send=call.before_send,
            )
            answered = _joined(response.headers.items())
            if call.stream and response.status < 400:
                return Reply(response.status, answered, self._chunks(response))
            return Reply(response.status, answered, await response.read())
        except HttpError as error:
            raise self._told(error) from None

    async def _chunks(self, response: ClientResponse) -> AsyncGenerator[bytes]:
        try:
            async for chunk in response.stream():
                yield chunk
        except HttpError as error:
            raise self._told(error) from None
        finally:
            await response.close()

    def _told(self, error: HttpError) -> ConnectionFailed:
        if isinstance(error, ConnectFailed):
            return Unreachable(f"the API server at {self.config.server} cannot be reached: {_reason(error)}")
        if isinstance(error, ClientTimeout):
            return DeadlineExceeded(f"the API server at {self.config.server}: {error}")
        return ConnectionFailed(f"the API server at {self.config.server} gave no whole answer: {error}")


def _joined(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Header fields by name; of one that is repeated (warnings) all values count."""
    joined: dict[str, str] = {}
    for name, value in items:
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


def _reason(error: ConnectFailed) -> str:
    """The cause in words; a certificate that does not check out is the commonest and tells what to look at."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({cause.verify_message}); check certificate-authority in the kubeconfig, "
            "or whether this is another cluster"
        )
    return " ".join(str(error).split())
