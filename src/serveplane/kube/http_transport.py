"""Requests over HTTP(S), with the credentials of a `ClusterConfig`.

A 401 makes the credentials be renewed and the request sent once more: tokens in pods are short-lived, and a request
that was
refused for its token has done nothing.
"""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from serveplane.kube.config import ClusterConfig
from serveplane.kube.errors import ConnectionFailed
from serveplane.kube.transport import Call, Reply

CONNECTIONS = 64


class HttpTransport:
    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self.host = urlsplit(config.server).netloc
        self._session: Any = None
        self._pair: tuple[bytes, bytes] | None = None

    async def send(self, call: Call) -> Reply:
        reply = await self._send(call, await self._authorization(renew=False))
        if reply.status == 401 and self.config.credentials is not None:
            renewed = await self._authorization(renew=True)
            reply = await self._send(call, renewed)
        return reply

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _authorization(self, *, renew: bool) -> str:
        if self.config.credentials is None:
            return ""
        header = await self.config.credentials.header(renew=renew)
        pair = self.config.credentials.client_pair()
        if pair != self._pair:
            self._pair = pair
            await self.close()
        return header

    async def _send(self, call: Call, authorization: str) -> Reply:
        import aiohttp
        import yarl

        if self._session is None:
            context = self.config.ssl_context(self._pair)
            connector = aiohttp.TCPConnector(ssl=context if context is not None else True, limit=0)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(), auto_decompress=False
            )
        headers = dict(call.headers or {})
        if authorization:
            headers["authorization"] = authorization
        url = yarl.URL(self.config.server + call.target, encoded=True)
        if call.before_send:
            call.before_send()
        try:
            response = await self._session.request(
                call.method,
                url,
                headers=headers,
                data=call.body or None,
                server_hostname=self.config.server_name or None,
            )
            answered = {name.lower(): value for name, value in response.headers.items()}
            if call.stream and response.status < 400:
                return Reply(response.status, answered, _chunks(response))
            return Reply(response.status, answered, await response.read())
        except aiohttp.ClientError as error:
            raise ConnectionFailed(f"{self.config.server} cannot be reached: {error}") from None


async def _chunks(response: Any) -> AsyncIterator[bytes]:
    import aiohttp

    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except aiohttp.ClientError as error:
        raise ConnectionFailed(f"the stream broke off: {error}") from None
    finally:
        response.close()
