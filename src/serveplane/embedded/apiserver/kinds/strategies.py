"""What only the server sets, kind by kind: addresses of Services, selectors of Jobs, phases, labels."""

import hashlib
import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING

from serveplane.clock import timestamp
from serveplane.embedded.apiserver import errors
from serveplane.embedded.apiserver.resources import Resource
from serveplane.objects import Json
from serveplane.objects.qos import quality

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write

STATUS_WRITERS = frozenset({"status", "binding", "finalize", "eviction"})
SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/12")
NODE_PORTS = range(30000, 32768)
DATA_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
Create = Callable[["Core", Resource, Json], None]
Update = Callable[["Core", "Write"], None]


def on_create(core: "Core", resource: Resource, value: Json) -> None:
    step = _CREATE.get(resource.bucket)
    if step is not None:
        step(core, resource, value)


def on_update(core: "Core", write: "Write") -> None:
    step = _UPDATE.get(write.resource.bucket)
    if step is not None:
        step(core, write)


def on_status(core: "Core", write: "Write") -> None:
    """What the server adds when somebody writes a status."""
    step = _STATUS.get(write.resource.bucket)
    if step is not None:
        step(core, write)


def _pod_status(core: "Core", write: "Write") -> None:
    """Quality of service is settled when a pod is made, and its owners are not the node's business."""
    status, metadata, live = write.value.setdefault("status", {}), write.value["metadata"], write.live
    if not status.get("qosClass") and (live.get("status") or {}).get("qosClass"):
        status["qosClass"] = live["status"]["qosClass"]
    metadata.pop("ownerReferences", None)
    if live["metadata"].get("ownerReferences"):
        metadata["ownerReferences"] = live["metadata"]["ownerReferences"]


def _volume_status(core: "Core", write: "Write") -> None:
    """When a volume came into its phase."""
    status, live = write.value.setdefault("status", {}), write.live.get("status") or {}
    before = live.get("lastPhaseTransitionTime")
    if status.get("phase") == live.get("phase"):
        if status.get("lastPhaseTransitionTime") is None and before is not None:
            status["lastPhaseTransitionTime"] = before
    elif status.get("lastPhaseTransitionTime") in (None, before):
        status["lastPhaseTransitionTime"] = timestamp(core.clock.now())


def _pod(core: "Core", resource: Resource, value: Json) -> None:
    value["status"] = {"phase": "Pending", "qosClass": quality(value["spec"])}


def _namespace(core: "Core", resource: Resource, value: Json) -> None:
    value["status"] = {"phase": "Active"}
    finalizers = value["spec"].setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    name = value["metadata"].get("name") or ""
    value["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _claim(core: "Core", resource: Resource, value: Json) -> None:
    value["status"] = {"phase": "Pending"}
    _sources(value["spec"], {})


def _claim_update(core: "Core", write: "Write") -> None:
    _sources(write.value["spec"], write.live["spec"])


def _sources(spec: Json, old: Json) -> None:
    """Where a claim's first data comes from is told in two places, of which a client need fill in one.

    The older of the two has always been ignored if it was neither a claim nor a snapshot.
    """
    if old.get("dataSource") is None and old.get("dataSourceRef") is None:
        given = spec.get("dataSource") or {}
        if (given.get("apiGroup") or "", given.get("kind")) not in DATA_SOURCES:
            spec.pop("dataSource", None)
    one, other = spec.get("dataSource"), spec.get("dataSourceRef")
    if one is not None and other is None:
        spec["dataSourceRef"] = dict(one)
    elif other is not None and one is None and not other.get("namespace"):
        spec["dataSource"] = {key: item for key, item in other.items() if key != "namespace"}


def _volume(core: "Core", resource: Resource, value: Json) -> None:
    value["status"] = {"phase": "Pending", "lastPhaseTransitionTime": timestamp(core.clock.now())}


def _limit_range(core: "Core", resource: Resource, value: Json) -> None:
    """Ranges alone need no name."""
    if not value["metadata"].get("name"):
        value["metadata"]["name"] = core.clock.uuid()


def _job(core: "Core", resource: Resource, value: Json) -> None:
    """A Job's pods are told apart by its uid, unless the author took that on."""
    spec, uid = value["spec"], value["metadata"]["uid"]
    if spec.get("manualSelector"):
        return
    name = value["metadata"].get("name") or ""
    marks = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    labels = spec["template"]["metadata"].setdefault("labels", {})
    for key, mark in marks.items():
        labels.setdefault(key, mark)
    spec.setdefault("selector", {}).setdefault("matchLabels", {}).setdefault("batch.kubernetes.io/controller-uid", uid)
    if not value["metadata"].get("labels"):
        value["metadata"]["labels"] = dict(labels)


def _service(core: "Core", resource: Resource, value: Json) -> None:
    spec = value["spec"]
    value["status"] = {"loadBalancer": {}}
    if spec["type"] == "ExternalName":
        return
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("ipFamilies", ["IPv4"])
    spec["internalTrafficPolicy"] = spec.get("internalTrafficPolicy", "Cluster")
    _assign_address(core, value)
    _assign_node_ports(core, value)


def _assign_address(core: "Core", value: Json) -> None:
    spec = value["spec"]
    address = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or []), "")
    if not address:
        address = free_address(core, value["metadata"]["uid"])
    elif address != "None":
        _check_address(core, value, address)
    spec["clusterIP"], spec["clusterIPs"] = address, [address]


def _check_address(core: "Core", value: Json, address: str) -> None:
    if address in used_addresses(core):
        at = (
            f'Invalid value: []string{{"{address}"}}: failed to allocate IP {address}: provided IP is already allocated'
        )
        raise errors.invalid(
            "Service", "", value["metadata"].get("name", ""), [errors.Cause("FieldValueInvalid", at, "spec.clusterIPs")]
        )


def used_addresses(core: "Core") -> set[str]:
    return {(record.value().get("spec") or {}).get("clusterIP", "") for record in core.store.records("services")}


def free_address(core: "Core", seed: str) -> str:
    """An address nobody has: where to start is taken from the uid, so a simulated run gives the same ones again."""
    size = SERVICE_NETWORK.num_addresses
    start = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big") % size
    used = used_addresses(core)
    for step in range(size):
        number = (start + step) % size
        address = str(SERVICE_NETWORK[number])
        if number > 256 and number < size - 1 and address not in used:
            return address
    raise errors.internal("failed to allocate a serviceIP: range is full")


def _assign_node_ports(core: "Core", value: Json) -> None:
    spec = value["spec"]
    if spec["type"] not in ("NodePort", "LoadBalancer") or spec.get("allocateLoadBalancerNodePorts") is False:
        return
    own = value["metadata"]["uid"]
    used = {
        port.get("nodePort")
        for record in core.store.records("services")
        for service in [record.value()]
        if service["metadata"]["uid"] != own
        for port in (service.get("spec") or {}).get("ports") or ()
    }
    for port in spec.get("ports") or ():
        if not port.get("nodePort"):
            start = int(core.clock.random() * len(NODE_PORTS))
            port["nodePort"] = next(
                number for number in (*NODE_PORTS[start:], *NODE_PORTS[:start]) if number not in used
            )
        used.add(port["nodePort"])


def _service_update(core: "Core", write: "Write") -> None:
    """Addresses and ports stay unless the type changes; a client need not repeat them."""
    spec, old = write.value["spec"], write.live["spec"]
    if spec["type"] == "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if old.get("type") != "ExternalName":
                spec.pop(field, None)
        return
    for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
        if field not in spec and field in old:
            spec[field] = old[field]
    if spec["type"] != "LoadBalancer" and old.get("type") == "LoadBalancer":
        spec.pop("allocateLoadBalancerNodePorts", None)
    if spec["type"] == "ClusterIP" and old.get("type") in ("NodePort", "LoadBalancer"):
        spec.pop("externalTrafficPolicy", None)
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if old.get("type") == "ExternalName" or not spec.get("clusterIP"):
        _service(core, write.resource, write.value)
        write.value["status"] = write.live.get("status", {})
    if spec["type"] in ("NodePort", "LoadBalancer"):
        known = {(port.get("protocol"), port["port"]): port.get("nodePort") for port in old.get("ports") or ()}
        for port in spec.get("ports") or ():
            if not port.get("nodePort") and known.get((port.get("protocol"), port["port"])):
                port["nodePort"] = known[port.get("protocol"), port["port"]]
        _assign_node_ports(core, write.value)


def _namespace_update(core: "Core", write: "Write") -> None:
    """Only `finalize` touches a namespace's own finalizers."""
    if write.subresource != "finalize":
        write.value["spec"] = write.live.get("spec", {})


def _daemon_set_update(core: "Core", write: "Write") -> None:
    """A leftover of the first version of the API counts the templates."""
    count = int((write.live["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION) or 1)
    if write.value["spec"].get("template") != write.live["spec"].get("template"):
        count += 1
    write.value["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(count)


_CREATE: dict[str, Create] = {
    "pods": _pod,
    "namespaces": _namespace,
    "persistentvolumes": _volume,
    "persistentvolumeclaims": _claim,
    "limitranges": _limit_range,
    "jobs.batch": _job,
    "services": _service,
}
_STATUS: dict[str, Update] = {"pods": _pod_status, "persistentvolumes": _volume_status}
_UPDATE: dict[str, Update] = {
    "persistentvolumeclaims": _claim_update,
    "services": _service_update,
    "namespaces": _namespace_update,
    "daemonsets.apps": _daemon_set_update,
}
