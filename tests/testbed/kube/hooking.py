"""A manager that serves the webhooks of Widgets. As a program it rotates its certificates every minute and burns CPU all the while.

    python -m tests.testbed.kube.hooking KUBECONFIG NAMESPACE NAME PORT
"""

import asyncio
import datetime
import sys
from typing import Any

from serveplane.kube.cabundle import Targets
from serveplane.kube.certs import CertificateOptions
from serveplane.kube.config import load_config
from serveplane.kube.http_transport import HttpTransport
from serveplane.kube.manager import Manager, ManagerOptions, run_program, run_until
from serveplane.kube.webhook_process import WebhookProcess
from serveplane.kube.webhooks import serve_webhooks

LIVES = {"life": datetime.timedelta(seconds=60), "ca_life": datetime.timedelta(seconds=120), "renew_at": 0.55}
OFTEN = {"check_seconds": 0.5, "settle_seconds": 15.0}  # the webhooks' timeout is 10 s


def hooked(
    kubeconfig: str, namespace: str, name: str, crds: tuple[str, ...] = (), port: int = 0, **options: Any
) -> tuple[Manager, WebhookProcess]:
    manager = Manager(HttpTransport(load_config(kubeconfig)), ManagerOptions(user_agent=f"hooks-{namespace}"))
    process = WebhookProcess("tests.testbed.kube.answering", host="127.0.0.1", port=port)
    certificates = CertificateOptions("hooks-cert", namespace, [f"hooks.{namespace}.svc"], **options)
    targets = Targets("hooks", namespace, mutating=[name], validating=[name], crds=crds)
    serve_webhooks(manager, process, certificates, targets)
    return manager, process


async def burn() -> None:
    """A reconcile that computes: 50 ms at a time without giving way."""
    loop = asyncio.get_running_loop()
    while True:
        end = loop.time() + 0.05
        while loop.time() < end:
            sum(range(1000))
        await asyncio.sleep(0.01)


def main(kubeconfig: str, namespace: str, name: str, port: str) -> int:
    async def replica(stop: asyncio.Event) -> None:
        manager, _ = hooked(kubeconfig, namespace, name, port=int(port), **LIVES, **OFTEN)
        burning = asyncio.create_task(burn())
        try:
            await run_until(manager, stop)
        finally:
            burning.cancel()

    return run_program(replica)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
