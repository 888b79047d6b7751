"""The Services in front of a workload."""
from collections.abc import Mapping

from serveplane.api.keys import TRANSFORMER_CONTAINER
from serveplane.objects import Json
from serveplane.render.names import AGENT_PORT, APP_LABEL, DEFAULT_PORT, GENERATION_LABEL, ROLE_LABEL
from serveplane.render.workloads import Workload
from serveplane.settings import Settings

FRONT_PORT = 80
H2C = "kubernetes.io/h2c"


def services(workload: Workload, settings: Settings) -> list[Json]:
    """The one that routes point to; a multi-node predictor has two more, by which its pods find each other."""
    front: Json = {"selector": {APP_LABEL: workload.labels[APP_LABEL]}, "ports": ports(workload), "type": "ClusterIP"}
    if settings.service.service_cluster_ip_none:
        front["clusterIP"] = "None"
    result = [_service(workload.name, workload, workload.labels, front)]
    if nodes := workload.multi_node:
        result.append(_peer_service(nodes.head_service, workload, "head", workload.labels[APP_LABEL]))
        result.append(_peer_service(nodes.workers_service, workload, "worker", nodes.labels[APP_LABEL]))
    return result


def ports(workload: Workload) -> list[Json]:
    """The first port of the container that answers requests becomes 80; the agent, if any, stands in front of it."""
    containers = workload.pod["containers"]
    answering = next((container for container in containers if container.get("name") == TRANSFORMER_CONTAINER), containers[0])
    found = [_port(port, front=index == 0) for index, port in enumerate(answering.get("ports") or [])]
    if not found:
        found = [{"name": workload.name, "port": FRONT_PORT, "targetPort": DEFAULT_PORT, "protocol": "TCP"}]
    if workload.spec.logger or workload.spec.batcher:
        found[0] = {**found[0], "targetPort": AGENT_PORT}
    return found


def _port(port: Json, *, front: bool) -> Json:
    number = port["containerPort"]
    result: Json = {"port": FRONT_PORT if front else number, "targetPort": number, "protocol": port.get("protocol") or "TCP"}
    if name := port.get("name"):
        result["name"] = name
        if "grpc" in name or "h2c" in name:
            result["appProtocol"] = H2C
    return result


def _peer_service(name: str, workload: Workload, role: str, app: str) -> Json:
    """Headless, and published before the pods are ready: they must meet in order to become ready."""
    selector = {APP_LABEL: app, GENERATION_LABEL: workload.labels[GENERATION_LABEL]}
    spec: Json = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
    return _service(name, workload, {**workload.labels, ROLE_LABEL: role}, spec)


def _service(name: str, workload: Workload, labels: Mapping[str, str], spec: Json) -> Json:
    metadata = {"name": name, "namespace": workload.namespace, "labels": dict(labels), "annotations": dict(workload.annotations)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
