"""The way to nodes: where each is, HTTPS with the cluster's own client certificate, and what to make of a refusal."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from serveplane import http
from serveplane.clock import Clock
from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.pki import Authority
from serveplane.embedded.store import Key
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

CONNECT_SECONDS = 10.0
PATIENT = http.Timeouts(CONNECT_SECONDS, None, None)
"""For what streams: only the connection has to come about in time."""


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


def address(core: "Core", name: str) -> tuple[str, int]:
    record = core.store.get("nodes", Key("", name))
    if record is None:
        raise errors.internal(f'nodes "{name}" not found')
    status = record.value().get("status") or {}
    addresses = {entry["type"]: entry["address"] for entry in status.get("addresses") or ()}
    host = addresses.get("InternalIP") or addresses.get("Hostname")
    if not host:
        raise errors.internal(f"no preferred addresses found; known addresses: {list(addresses)}")
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or 10250
    return (f"[{host}]" if ":" in host else host), port


def container_url(core: "Core", pod: Json, container: str, what: str) -> str:
    """Where the pod's node offers something of one of its containers, as kubelets do: `containerLogs`, `exec`, `attach`."""
    host, port = address(core, pod["spec"]["nodeName"])
    parts = (what, pod["metadata"]["namespace"], pod["metadata"]["name"], container)
    return f"https://{host}:{port}/" + "/".join(quote(part, safe="") for part in parts)


async def refusal(response: http.ClientResponse) -> errors.Refusal:
    """A node's no: what was the client's mistake stays that, all else is the cluster's own."""
    text = (await response.read()).decode(errors="replace").strip()
    code, reason = {400: (400, "BadRequest"), 404: (404, "NotFound")}.get(response.status, (500, "InternalError"))
    return errors.Refusal(code, reason, text or "the node did not say why")
