"""All that makes webhooks work, in the order that keeps every call answerable: Secret, serve, caBundles, ready.

    process = WebhookProcess("module.that.answers", port=9443)
    serve_webhooks(manager, process, certificate_options, targets)

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
from serveplane.kube.webhook_process import WebhookProcess


def serve_webhooks(manager: Manager, process: WebhookProcess, options: CertificateOptions, targets: Targets) -> None:
    """Self-made certificates, shared by replicas in a Secret, with caBundles kept right."""

    async def verify(bundle: bytes) -> None:
        await call(process, bundle, options.names[0])

    bundles = CaBundles(manager.open_client, manager.informers, targets, manager.clock, verify)
    certificates = SelfMadeCertificates(manager.open_client, options, process.use, manager.clock, bundles.publish)

    async def part() -> None:
        await certificates.load()
        async with asyncio.TaskGroup() as group:
            group.create_task(certificates.run(), name="certificates")
            group.create_task(bundles.run(), name="caBundles")

    manager.everywhere(part)
    _include(manager, process, certificates.ready)


def serve_webhooks_from_folder(manager: Manager, process: WebhookProcess, folder: str) -> None:
    """Certificates that someone else mounts and renews; their caBundles are that someone's business."""
    certificates = MountedCertificates(folder, process.use, manager.clock)

    async def part() -> None:
        await certificates.load()
        await certificates.run()

    manager.everywhere(part)
    _include(manager, process, certificates.ready)


def _include(manager: Manager, process: WebhookProcess, ready: asyncio.Event) -> None:
    """The process lives with the manager, and counts as a part of it."""
    manager.everywhere(process.run)
    manager.health.ready["webhooks"] = lambda: _why_not(process, ready)
    manager.wait_for(ready)
    manager.wait_for(process.ready)
    manager.registry.include(process.counted)


async def call(process: WebhookProcess, bundle: bytes, name: str) -> None:
    """Reach the server as the API server would, trusting nothing but the bundle and insisting on the name."""
    try:
        async with HttpClient(tls=ClientTls(ca_data=bundle.decode(), server_name=name)) as client:
            response = await client.request("GET", f"{process.url}/", timeout=5.0)
            await response.read()
    except HttpError as error:
        raise ConnectionFailed(f"the webhook server's certificate is not what the caBundle trusts: {error}") from None


def _why_not(process: WebhookProcess, ready: asyncio.Event) -> str:
    return process.why_not or ("" if ready.is_set() else "the API server does not trust the certificate yet")
