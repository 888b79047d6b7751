"""The flags of a manager as one value, and what its environment says."""
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from serveplane.kube.lease import LeaseOptions
from serveplane.kube.manager import ManagerOptions

CONTROL_NAMESPACE = "kserve"
GRACE_SECONDS = 8.0
"""For reconciles under way at a stop. A pod is killed after 15 s (10 with KServe's manifests), and the lease is to be released before."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What an administrator can set on the command line; the defaults are KServe's."""
    metrics_addr: str = ":8080"
    health_probe_addr: str = ":8081"
    webhook_port: int = 9443
    webhook_cert_dir: str = "/tmp/k8s-webhook-server/serving-certs"
    leader_elect: bool = False
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    kubeconfig: str = ""
    namespaces: tuple[str, ...] = ()
    workers: int = 16
    tls_min_version: str = "VersionTLS12"
    tls_cipher_suites: tuple[str, ...] = ()
    log_level: str = "info"
    log_encoder: str = "json"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What a pod is told about itself."""
    namespace: str = CONTROL_NAMESPACE
    identity: str = ""
    secret_name: str = ""
    cluster_domain: str = "cluster.local"

    @staticmethod
    def read(environment: Mapping[str, str] = os.environ, resolver: str = "/etc/resolv.conf") -> "Environment":
        return Environment(
            namespace=environment.get("POD_NAMESPACE") or CONTROL_NAMESPACE,
            identity=environment.get("POD_NAME") or socket.gethostname(),
            secret_name=environment.get("SECRET_NAME") or "",
            cluster_domain=environment.get("CLUSTER_DOMAIN") or _search_domain(resolver))


def manager_options(options: Options, environment: Environment, *, lease: str, component: str) -> ManagerOptions:
    held = LeaseOptions(
        name=lease, namespace=environment.namespace, identity=environment.identity, duration=options.lease_duration,
        renew_deadline=options.renew_deadline, retry_period=options.retry_period) if options.leader_elect else None
    return ManagerOptions(lease=held, grace_seconds=GRACE_SECONDS,
                          metrics_address=options.metrics_addr, health_address=options.health_probe_addr,
                          namespaces=options.namespaces, component=component, user_agent=f"serveplane-{component}")


def _search_domain(path: str) -> str:
    """The cluster's DNS domain: the first search entry below `svc.`."""
    try:
        with open(path) as file:
            words = [word for line in file if line.startswith("search") for word in line.split()[1:]]
    except OSError:
        words = []
    return next((word.removeprefix("svc.").rstrip(".") for word in words if word.startswith("svc.")), "cluster.local")
