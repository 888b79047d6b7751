"""`kserve-controller-manager`: InferenceServices and their webhooks. Flags and wiring only."""
import asyncio

from serveplane.clock import SYSTEM
from serveplane.controllers.inferenceservice.controller import InferenceServices
from serveplane.controllers.settings import LiveSettings
from serveplane.kube.cabundle import Targets
from serveplane.kube.config import load_config
from serveplane.kube.http_transport import HttpTransport
from serveplane.kube.logs import set_up_logs
from serveplane.kube.manager import Manager, run_program, run_until
from serveplane.managers.bootstrap import install_defaults
from serveplane.managers.options import Environment, Options, manager_options
from serveplane.managers.webhooks import serve_with_certificate, webhook_process

LEASE = "kserve-controller-manager-leader-lock"
EVENT_SOURCE = "v1beta1Controllers"
SERVICE, SECRET = "kserve-webhook-server-service", "kserve-webhook-server-cert"
WEBHOOKS = "serveplane.managers.kserve_webhooks"
MUTATING = ("inferenceservice.serving.kserve.io",)
VALIDATING = tuple(f"{name}.serving.kserve.io" for name in (
    "inferenceservice", "trainedmodel", "inferencegraph", "servingruntime", "clusterservingruntime"))


def run(options: Options) -> int:
    set_up_logs(options.log_level, json=options.log_encoder == "json")
    return run_program(lambda stop: serve(options, Environment.read(), stop))


async def serve(options: Options, environment: Environment, stop: asyncio.Event) -> None:
    transport = HttpTransport(load_config(options.kubeconfig or None))
    try:
        await run_until(wired(transport, options, environment), stop)
    finally:
        await transport.close()


def wired(transport: HttpTransport, options: Options, environment: Environment) -> Manager:
    """The manager with everything in it, not yet running."""
    manager = Manager(transport, manager_options(options, environment, lease=LEASE, component=EVENT_SOURCE))
    settings = LiveSettings(manager.informers, environment.namespace, manager.events, manager.registry)
    services = InferenceServices(
        manager.client, manager.informers, settings, manager.events, namespace=environment.namespace,
        cluster_domain=environment.cluster_domain, clock=SYSTEM, registry=manager.registry, workers=options.workers)
    manager.add(services.controller)
    services.attached()
    manager.when_leading(services.follow_neighbours)
    manager.when_leading(services.downloads.follow)
    targets = Targets(SERVICE, environment.namespace, mutating=MUTATING, validating=VALIDATING)
    process = webhook_process(WEBHOOKS, manager, options, environment)
    serve_with_certificate(manager, process, targets, environment.secret_name or SECRET, options, environment)
    manager.when_leading(lambda: install_defaults(manager.client, environment.namespace, SYSTEM))
    return manager
