"""The webhook process of `kserve-controller-manager`: reviews answered from caches of its own. Wiring only."""
import asyncio
import ssl
import sys

from serveplane.clock import SYSTEM
from serveplane.controllers.inferenceservice.admission import Admission
from serveplane.controllers.settings import LiveSettings
from serveplane.kube.client import Client
from serveplane.kube.config import load_config
from serveplane.kube.http_transport import HttpTransport
from serveplane.kube.informers import Informers
from serveplane.kube.logs import set_up_logs
from serveplane.kube.webhook import WebhookServer
from serveplane.kube.webhook_child import Work, run_webhooks
from serveplane.managers.told import Told


async def answer_reviews(work: Work) -> None:
    told = Told.read(work.told)
    set_up_logs(told.log_level, json=told.log_encoder == "json")
    transport = HttpTransport(load_config(told.kubeconfig or None))
    client = Client(transport, SYSTEM, registry=work.registry, user_agent=told.user_agent)
    informers = Informers(client, SYSTEM, namespaces=told.namespaces)
    server = WebhookServer(registry=work.registry)
    if told.tls_min_version == "VersionTLS13":
        server.tls.minimum_version = ssl.TLSVersion.TLSv1_3
    Admission(client, informers, LiveSettings(informers, told.namespace), told.namespace).register(server)
    try:
        async with asyncio.TaskGroup() as group:
            informers.start(group)
            await work.serve(server, lambda: "" if informers.is_synced else "the webhook process is still reading the cluster")
            await informers.stop()
    finally:
        await transport.close()


if __name__ == "__main__":
    sys.exit(run_webhooks(answer_reviews))
