"""EndpointSlices: where the pods of a Service are found.

A slice has one list of ports for all its addresses. Pods whose ports were moved (the node's annotation says so) therefore
get slices of their own, which is how the rest of the cluster learns of it.
"""
import hashlib
from datetime import timedelta

from serveplane.embedded.node.addresses import moved_by
from serveplane.embedded.workloads.cluster import ENDPOINT_SLICE, POD, SERVICE, Cluster
from serveplane.embedded.workloads.pods import is_over, is_ready
from serveplane.kube.controller import Controller
from serveplane.kube.kind import Key, controller_reference, is_being_deleted
from serveplane.kube.store import Item
from serveplane.kube.watches import Mapped, Owned, Primary, Watch
from serveplane.objects import Json

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
CONTROLLER = "endpointslice-controller.k8s.io"

Ports = tuple[tuple[str, str, int], ...]   # name, protocol, number


def slices(service: Json, pods: list[Json]) -> list[Json]:
    """The slices of a Service, one per distinct list of ports, with deterministic names."""
    groups: dict[Ports, list[Json]] = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        if (pod.get("status") or {}).get("podIP") and not is_over(pod):
            groups.setdefault(ports_of(service, pod), []).append(endpoint(service, pod))
    return [_slice(service, ports, members) for ports, members in sorted(groups.items())]


def ports_of(service: Json, pod: Json) -> Ports:
    """The ports of a Service as this pod has them."""
    moved = moved_by(pod)
    found = []
    for port in service["spec"].get("ports") or ():
        number = target_port(port, pod)
        if number is not None:
            found.append((port.get("name") or "", port.get("protocol") or "TCP", moved.get(number, number)))
    return tuple(found)


def target_port(port: Json, pod: Json) -> int | None:
    """A target port by number, or by the name that a container gives it."""
    target: int | str = port.get("targetPort") or port["port"]
    if isinstance(target, int) or str(target).isdigit():
        return int(target)
    for container in [*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ())]:
        for entry in container.get("ports") or ():
            if entry.get("name") == target and (entry.get("protocol") or "TCP") == (port.get("protocol") or "TCP"):
                return int(entry["containerPort"])
    return None


def endpoint(service: Json, pod: Json) -> Json:
    leaving = is_being_deleted(pod)
    serving = is_ready(pod)
    anyway = bool(service["spec"].get("publishNotReadyAddresses"))
    entry: Json = {
        "addresses": [pod["status"]["podIP"]], "nodeName": pod["spec"].get("nodeName"),
        "conditions": {"ready": anyway or (serving and not leaving), "serving": serving, "terminating": leaving},
        "targetRef": {"kind": "Pod", "name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"],
                      "uid": pod["metadata"]["uid"]}}
    if pod["spec"].get("hostname"):
        entry["hostname"] = pod["spec"]["hostname"]
    return {name: value for name, value in entry.items() if value is not None}


def _slice(service: Json, ports: Ports, endpoints: list[Json]) -> Json:
    metadata = service["metadata"]
    mark = hashlib.sha256(repr((metadata["name"], ports)).encode()).hexdigest()[:5]   # long names may begin alike
    return {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": f"{metadata['name'][:57]}-{mark}", "namespace": metadata["namespace"],
                     "labels": {**(metadata.get("labels") or {}), SERVICE_NAME: metadata["name"],
                                MANAGED_BY: CONTROLLER},
                     "ownerReferences": [controller_reference(service)]},
        "endpoints": endpoints,
        "ports": [{"name": name, "protocol": protocol, "port": number} for name, protocol, number in ports]}


class EndpointSlices:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def controller(self) -> Controller:
        watches: list[Watch] = [Primary(SERVICE), Owned(ENDPOINT_SLICE), Mapped(POD, self._services_of)]
        return Controller("endpointslice", self.reconcile, watches, workers=4, clock=self._cluster.clock)

    def _services_of(self, item: Item) -> list[Key]:
        labels = item.meta.labels or {}
        found = []
        for service in self._cluster.informer(SERVICE).items(item.meta.namespace):
            selector = service.object["spec"].get("selector")
            if selector and all(labels.get(name) == value for name, value in selector.items()):
                found.append(service.key)
        return found

    async def reconcile(self, key: Key) -> timedelta | None:
        service = self._cluster.informer(SERVICE).get(*key)
        if service is None or is_being_deleted(service) or not service["spec"].get("selector"):
            return None
        selector = service["spec"]["selector"]
        pods = [item.object for item in self._cluster.informer(POD).items(key.namespace)
                if all((item.meta.labels or {}).get(name) == value for name, value in selector.items())]
        wanted = {one["metadata"]["name"]: one for one in slices(service, pods)}
        for one in self._cluster.owned(ENDPOINT_SLICE, service):
            name = one["metadata"]["name"]
            if name in wanted:
                await self._refresh(one, wanted.pop(name))
            elif not is_being_deleted(one):
                await self._cluster.delete(one)
        for one in wanted.values():
            await self._cluster.create(one)
        return None

    async def _refresh(self, live: Json, wanted: Json) -> None:
        same = all(live.get(name) == wanted[name] for name in ("endpoints", "ports"))
        if not same or live["metadata"].get("labels") != wanted["metadata"]["labels"]:
            metadata = {**live["metadata"], "labels": wanted["metadata"]["labels"]}
            await self._cluster.update({**live, **wanted, "metadata": metadata})
