"""Calling webhooks: by URL, or by Service through its ready endpoints."""

import base64
from typing import TYPE_CHECKING, Any

import msgspec

from serveplane import http
from serveplane.embedded.store import Key
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

ANSWER_BYTES = 16 << 20
MOST_CLIENTS = 64


class CallFailed(Exception):
    """No usable answer; the text says why, as the real server words it."""


class Webhooks:
    """Connections are kept per (authority, server name), since TLS is checked against both."""

    def __init__(self, core: "Core") -> None:
        self._core = core
        self._clients: dict[tuple[str, str], http.Client] = {}

    async def call(self, config: Json, review: Json, timeout: float, query: str = "") -> Json:
        """Send a review and read one back."""
        url, name = self._address(config)
        client = self._client(config.get("caBundle", ""), name)
        try:
            response = await client.request(
                "POST",
                url + query,
                headers=[("Content-Type", "application/json"), ("Accept", "application/json")],
                body=msgspec.json.encode(review),
                timeout=timeout,
            )
            data = await response.read(ANSWER_BYTES)
        except http.ClientTimeout:
            raise CallFailed(
                f'Post "{_shown(config, url)}{query or "?timeout=" + f"{timeout:g}s"}": context deadline exceeded'
            ) from None
        except (http.HttpError, OSError, ValueError) as error:
            raise CallFailed(f'Post "{_shown(config, url)}{query}": {error}') from None
        if response.status != 200:
            raise CallFailed(
                f"the server responded with the status code {response.status} but did not return more information"
            )
        return _review(data)

    def _client(self, bundle: str, name: str) -> http.Client:
        known = self._clients.get((bundle, name))
        if known is None:
            if len(self._clients) >= MOST_CLIENTS:
                self._clients.pop(next(iter(self._clients)))
            authority = base64.b64decode(bundle).decode() if bundle else None
            tls = http.ClientTls(ca_data=authority, server_name=name or None)
            known = self._clients[bundle, name] = http.Client(tls=tls, clock=self._core.clock)
        return known

    def _address(self, config: Json) -> tuple[str, str]:
        """Where to connect, and the name the certificate must have if it is not the host."""
        if config.get("url"):
            return config["url"], ""
        service = config["service"]
        host, port = self.endpoint(service["namespace"], service["name"], service.get("port") or 443)
        path = "/" + (service.get("path") or "").lstrip("/")
        return f"https://{host}:{port}{path}", f"{service['name']}.{service['namespace']}.svc"

    def endpoint(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        """One of those that are ready behind a Service."""
        record = self._core.store.get("services", Key(namespace, name))
        if record is None:
            raise CallFailed(f'service "{name}" not found')
        spec = record.value().get("spec") or {}
        if spec.get("type") == "ExternalName":
            return spec["externalName"], port
        wanted = next((entry for entry in spec.get("ports") or () if entry["port"] == port), None)
        if wanted is None:
            raise CallFailed(f'no service port {port} found for service "{name}"')
        found = self._ready(namespace, name, wanted)
        if not found:
            raise CallFailed(f'no endpoints available for service "{name}"')
        host, target = found[int(self._core.clock.random() * len(found))]
        return (f"[{host}]" if ":" in host else host), target

    def _ready(self, namespace: str, name: str, port: Json) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for record in self._core.store.records("endpointslices.discovery.k8s.io", namespace):
            if record.labels.get("kubernetes.io/service-name") != name:
                continue
            value = record.value()
            numbers = [
                entry["port"]
                for entry in value.get("ports") or ()
                if (entry.get("name") or "") == (port.get("name") or "")
            ]
            hosts = [
                address
                for endpoint in value.get("endpoints") or ()
                if (endpoint.get("conditions") or {}).get("ready") is not False
                for address in endpoint["addresses"]
            ]
            found += [(host, number) for host in hosts for number in numbers if number]
        return found

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
        self._clients.clear()


def _shown(config: Json, url: str) -> str:
    """By Service the real server names the Service, not the address behind it."""
    service = config.get("service")
    if not service:
        return url
    path = "/" + (service.get("path") or "").lstrip("/")
    return f"https://{service['name']}.{service['namespace']}.svc:{service.get('port') or 443}{path}"


def _review(data: bytes) -> Json:
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CallFailed(f"received invalid webhook response: {error}") from None
    if not isinstance(value, dict):
        raise CallFailed("received invalid webhook response: not an object")
    return value
