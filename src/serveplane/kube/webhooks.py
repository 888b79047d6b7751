"""All that makes webhooks work, in the order that keeps every call answerable: Secret, serve, caBundles, ready.

    server = WebhookServer(port=9443)
    server.admit("/validate-...", validating(...))
    serve_webhooks(manager, server, certificate_options, targets)

Every replica does this, leader or not.
"""

import asyncio

from serveplane.http.client import Client as HttpClient
from serveplane.http.errors import HttpError
from serveplane.http.tls import ClientTls
from serveplane.kube.cabundle import CaBundles, Targets
from serveplane.kube.certs import CertificateOptions, MountedCertificates, SelfMadeCertificates
from serveplane.kube.errors import ConnectionFailed
from serveplane.kube.manager import Manager
from serveplane.kube.webhook import WebhookServer


def serve_webhooks(
    manager: Manager, server: WebhookServer, options: CertificateOptions, targets: Targets, linger: float = 0.0
) -> None:
    """Self-made certificates, shared by replicas in a Secret, with caBundles kept right.

    `linger` is how many seconds calls are still answered after a stop: with several replicas the API server needs a moment to
    learn that this one is leaving.
    """

    async def verify(bundle: bytes) -> None:
        await call(server, bundle, options.names[0])

    bundles = CaBundles(manager.open_client, manager.informers, targets, manager.clock, verify)
    certificates = SelfMadeCertificates(manager.open_client, options, server.tls, manager.clock, bundles.publish)

    async def part() -> None:
        await certificates.load()
        await server.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(certificates.run(), name="certificates")
                group.create_task(bundles.run(), name="caBundles")
        finally:
            await asyncio.shield(_leave(manager, server, linger))

    manager.everywhere(part)
    manager.health.ready["webhooks"] = lambda: _why_not(server, certificates.ready)
    manager.wait_for(certificates.ready)


def serve_webhooks_from_folder(manager: Manager, server: WebhookServer, folder: str) -> None:
    """Certificates that someone else mounts and renews; their caBundles are that someone's business."""
    certificates = MountedCertificates(folder, server.tls, manager.clock)

    async def part() -> None:
        await certificates.load()
        await server.start()
        try:
            await certificates.run()
        finally:
            await asyncio.shield(server.stop())

    manager.everywhere(part)
    manager.health.ready["webhooks"] = lambda: _why_not(server, certificates.ready)
    manager.wait_for(certificates.ready)


async def _leave(manager: Manager, server: WebhookServer, linger: float) -> None:
    await manager.clock.sleep(linger)
    await server.stop()


async def call(server: WebhookServer, bundle: bytes, name: str) -> None:
    """Reach the server as the API server would, trusting nothing but the bundle and insisting on the name."""
    try:
        async with HttpClient(tls=ClientTls(ca_data=bundle.decode(), server_name=name)) as client:
            response = await client.request("GET", f"{server.url}/", timeout=5.0)
            await response.read()
    except HttpError as error:
        raise ConnectionFailed(f"the webhook server's certificate is not what the caBundle trusts: {error}") from None


def _why_not(server: WebhookServer, ready: asyncio.Event) -> str:
    if not server.is_serving:
        return "the webhook server is not listening"
    return "" if ready.is_set() else "the API server does not trust the certificate yet"
