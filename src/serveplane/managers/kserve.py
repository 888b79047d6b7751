"""`kserve-controller-manager`: InferenceServices and their webhooks. Flags and wiring only."""
import asyncio
import ssl
from pathlib import Path

from serveplane import pod
from serveplane.clock import SYSTEM
from serveplane.controllers.inferenceservice.admission import Admission
from serveplane.controllers.inferenceservice.controller import InferenceServices
from serveplane.controllers.inferenceservice.credentials import PodCredentials
from serveplane.controllers.settings import LiveSettings
from serveplane.kube.cabundle import Targets
from serveplane.kube.certs import CertificateOptions
from serveplane.kube.client import Client
from serveplane.kube.config import load_config
from serveplane.kube.http_transport import HttpTransport
from serveplane.kube.logs import set_up_logs
from serveplane.kube.manager import Manager, run_program, run_until
from serveplane.kube.webhook import WebhookServer
from serveplane.kube.webhooks import serve_webhooks, serve_webhooks_from_folder
from serveplane.managers.bootstrap import install_defaults
from serveplane.managers.options import Environment, Options, manager_options

LEASE = "kserve-controller-manager-leader-lock"
EVENT_SOURCE = "v1beta1Controllers"
SERVICE, SECRET = "kserve-webhook-server-service", "kserve-webhook-server-cert"
MUTATING = ("inferenceservice.serving.kserve.io",)
VALIDATING = tuple(f"{name}.serving.kserve.io" for name in (
    "inferenceservice", "trainedmodel", "inferencegraph", "servingruntime", "clusterservingruntime"))


def run(options: Options) -> int:
    set_up_logs(options.log_level, json=options.log_encoder == "json")
    return run_program(lambda stop: serve(options, Environment.read(), stop))


async def serve(options: Options, environment: Environment, stop: asyncio.Event) -> None:
    config = load_config(options.kubeconfig or None)
    transport = HttpTransport(config)
    try:
        await run_until(wired(transport, HttpTransport(config), options, environment), stop)
    finally:
        await transport.close()


def wired(transport: HttpTransport, for_webhooks: HttpTransport, options: Options, environment: Environment) -> Manager:
    """The manager with everything in it, not yet running.

    Webhooks have a loop, and therefore a transport, of their own; its connections end with that loop.
    """
    manager = Manager(transport, manager_options(options, environment, lease=LEASE, component=EVENT_SOURCE))
    settings = LiveSettings(manager.informers, environment.namespace, manager.events, manager.registry)
    services = InferenceServices(
        manager.client, manager.informers, settings, manager.events, namespace=environment.namespace,
        cluster_domain=environment.cluster_domain, clock=SYSTEM, registry=manager.registry, workers=options.workers)
    manager.add(services.controller)
    services.attached()
    manager.when_leading(services.follow_neighbours)
    manager.when_leading(services.downloads.follow)
    reader = Client(for_webhooks, SYSTEM, registry=manager.registry, user_agent=manager.options.user_agent)
    admission = Admission(PodCredentials(reader), manager.informers, services.caches, settings, environment.namespace)
    server = WebhookServer(port=options.webhook_port, registry=manager.registry)
    admission.register(server)
    _serve_webhooks(manager, server, options, environment)
    manager.when_leading(lambda: install_defaults(manager.client, environment.namespace, SYSTEM))
    return manager


def _serve_webhooks(manager: Manager, server: WebhookServer, options: Options, environment: Environment) -> None:
    """With the certificate that was mounted, else with one of our own making."""
    if options.tls_min_version == "VersionTLS13":
        server.tls.minimum_version = ssl.TLSVersion.TLSv1_3
    folder = pod.real_path(options.webhook_cert_dir)
    if (Path(folder) / "tls.crt").exists():
        serve_webhooks_from_folder(manager, server, folder)
        return
    names = [f"{SERVICE}.{environment.namespace}.svc", f"{SERVICE}.{environment.namespace}.svc.{environment.cluster_domain}"]
    certificate = CertificateOptions(secret=environment.secret_name or SECRET, namespace=environment.namespace, names=names)
    serve_webhooks(manager, server, certificate, Targets(SERVICE, environment.namespace, mutating=MUTATING, validating=VALIDATING))
