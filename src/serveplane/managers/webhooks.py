"""What a manager tells its webhook process, and the certificate they share."""
import os
from pathlib import Path

import msgspec

from serveplane import pod
from serveplane.kube.cabundle import Targets
from serveplane.kube.certs import CertificateOptions
from serveplane.kube.manager import Manager
from serveplane.kube.webhook_process import WebhookProcess
from serveplane.kube.webhooks import serve_webhooks, serve_webhooks_from_folder
from serveplane.managers.options import Environment, Options
from serveplane.managers.told import Told

NICENESS = 5


def webhook_process(module: str, manager: Manager, options: Options, environment: Environment) -> WebhookProcess:
    told = Told(
        kubeconfig=options.kubeconfig, namespace=environment.namespace, namespaces=options.namespaces, log_level=options.log_level,
        log_encoder=options.log_encoder, tls_min_version=options.tls_min_version, user_agent=manager.options.user_agent)
    return WebhookProcess(module, msgspec.to_builtins(told), port=options.webhook_port, clock=manager.clock)


def serve_with_certificate(manager: Manager, process: WebhookProcess, targets: Targets, secret: str, options: Options,
                           environment: Environment) -> None:
    """With the certificate that was mounted, else with one of our own making."""
    async def part() -> None:
        await process.ready.wait()
        give_way()
    manager.everywhere(part)
    folder = pod.real_path(options.webhook_cert_dir)
    if (Path(folder) / "tls.crt").exists():
        serve_webhooks_from_folder(manager, process, folder)
        return
    host = f"{targets.service}.{targets.namespace}.svc"
    names = [host, f"{host}.{environment.cluster_domain}"]
    serve_webhooks(manager, process, CertificateOptions(secret=secret, namespace=environment.namespace, names=names), targets)


def give_way() -> None:
    """Let reviews go first where processor time is short: somebody waits for those.

    Within a pod only its own two processes are weighed against each other. A process that is started later, to replace
    one that died, gets the same lower priority.
    """
    if os.getpriority(os.PRIO_PROCESS, 0) < NICENESS:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
