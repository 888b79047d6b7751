"""Our own control plane on the testbed, installed from the project's manifests and run as it would run in a pod.

The managers are programs of this machine instead of Deployments, but with the rights, the certificates and the webhook
Services of the manifests: a missing rule in config/rbac fails here as it would on a cluster.
"""
import functools
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from tests.kit.api import Api, install
from tests.kit.processes import free_ports, start, stop, tail
from tests.kit.testbed import Testbed
from tests.kit.waiting import eventually

Json = dict[str, Any]
NAMESPACE = "kserve"
RUN_BY_US = {"Deployment", "DaemonSet"}
WEBHOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
READY_SECONDS = 120.0


def shipped() -> list[Json]:
    """Every object of the project's manifests. Two megabytes of YAML take seconds to read, so they are read once."""
    return cast(list[Json], msgspec.json.decode(_shipped()))


@functools.cache
def _shipped() -> bytes:
    from serveplane.cli.manifests import objects

    return msgspec.json.encode(objects())


@dataclass(frozen=True)
class Program:
    """One of the managers, as its manifests know it."""
    account: str
    webhook_service: str = ""


PROGRAMS = {
    "kserve": Program("kserve-controller-manager", "kserve-webhook-server-service"),
    "llmisvc": Program("llmisvc-controller-manager", "llmisvc-webhook-server-service"),
    "localmodel": Program("kserve-localmodel-controller-manager", "localmodel-webhook-server-service"),
    "localmodelnode": Program("kserve-localmodelnode-agent"),
}


@dataclass
class Manager:
    """A running manager process."""
    process: subprocess.Popen[bytes]
    log: Path
    health_port: int
    metrics_port: int
    webhook_port: int
    account: str = ""                  # its user in the audit log
    flags: tuple[str, ...] = ()

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def await_ready(self, seconds: float = READY_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            ended = self.process.poll()
            if ended is not None or time.monotonic() > deadline:
                why = f"ended with {ended}" if ended is not None else f"was not ready within {seconds:g} s"
                raise RuntimeError(f"the manager {why}\n{tail(self.log, 40)}")
            time.sleep(0.05)

    def stop(self) -> None:
        stop(self.process)


@dataclass
class Installation:
    testbed: Testbed
    managers: list[Manager] = field(default_factory=list)

    async def put(self, *, webhooks: bool) -> None:
        """Apply the manifests: first everything but the webhooks, which nobody answers before a manager runs; then those."""
        async with Api(self.testbed.kubeconfig, agent="installation") as api:
            wanted = [obj for obj in shipped() if obj["kind"] not in RUN_BY_US and (obj["kind"] in WEBHOOKS) == webhooks]
            await install(api, wanted, NAMESPACE)

    async def await_defaults(self) -> None:
        """Until the leader has created the runtimes that come with an installation."""
        bundle = next(obj for obj in shipped() if obj["metadata"]["name"] == "serveplane-bootstrap")
        wanted = [obj for text in bundle["data"].values() for obj in yaml.load_all(text, Loader=yaml.CSafeLoader) if obj]
        async with Api(self.testbed.kubeconfig, agent="installation") as api:
            async def are_there() -> bool:
                names = [(obj["apiVersion"], obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace")) for obj in wanted]
                return all([await api.get(*name) for name in names])
            await eventually(are_there, READY_SECONDS, "the default runtimes exist")

    def run(self, name: str, *flags: str, kubeconfig: Path | None = None, environment: dict[str, str] | None = None) -> Manager:
        """Start a manager under its own ServiceAccount. It is up to the caller to wait until it is ready, and to stop it."""
        program = PROGRAMS[name]
        health, metrics, webhook = free_ports(3)
        log = self.testbed.folder / f"{name}-manager-{len(self.managers)}.log"
        own = {"KUBECONFIG": str(kubeconfig or self.testbed.service_account(NAMESPACE, program.account)), "POD_NAMESPACE": NAMESPACE,
               "POD_NAME": f"{program.account}-{len(self.managers)}", "SECRET_NAME": "kserve-webhook-server-cert", **(environment or {})}
        command = [sys.executable, "-m", "serveplane.cli.main", "manager", name, f"--health-probe-addr=127.0.0.1:{health}",
                   f"--metrics-addr=127.0.0.1:{metrics}", f"--webhook-port={webhook}", *flags]
        if program.webhook_service:
            self.testbed.expose(NAMESPACE, program.webhook_service, webhook)
        account = f"system:serviceaccount:{NAMESPACE}:{program.account}"
        manager = Manager(start(command, log, own), log, health, metrics, webhook, account, flags)
        self.managers.append(manager)
        return manager

    def stop(self) -> None:
        for manager in self.managers:
            manager.stop()
