"""The way to nodes: HTTPS with the cluster's own client certificate."""

from typing import Any

from serveplane import http
from serveplane.clock import Clock
from serveplane.embedded.apiserver.pki import Authority


class Nodes:
    """Made usable by `trust`; a server without certificates has no way to a node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._client: http.Client | None = None
        self._plain: http.Client | None = None

    def plain(self) -> http.Client:
        """For what pods themselves serve."""
        if self._plain is None:
            self._plain = http.Client(clock=self._clock)
        return self._plain

    def trust(self, authority: Authority) -> None:
        pair = authority.issue("apiserver-kubelet-client", "kube-apiserver-kubelet-client", ["system:masters"])
        tls = http.ClientTls(ca=authority.pair.certificate, certificate=pair.certificate, key=pair.key)
        self._client = http.Client(tls=tls, clock=self._clock)

    async def request(self, method: str, url: str, **options: Any) -> http.ClientResponse:
        if self._client is None:
            raise OSError("this API server has no client certificate for nodes")
        return await self._client.request(method, url, **options)

    async def close(self) -> None:
        for client in (self._client, self._plain):
            if client is not None:
                await client.close()
