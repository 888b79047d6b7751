"""The columns of Kubernetes' own kinds, as `kubectl get` shows them."""

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from serveplane.embedded.apiserver.durations import since
from serveplane.objects import Json

Cell = Callable[[Json, datetime.datetime], Any]
NONE = "<none>"


@dataclass(frozen=True)
class Column:
    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    def definition(self) -> Json:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description or self.name,
            "priority": self.priority,
        }


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text(name: str, path: str, priority: int = 0, empty: str = NONE) -> Column:
    def cell(value: Json, now: datetime.datetime) -> Any:
        found = _at(value, path)
        return empty if found in (None, "", []) else ",".join(found) if isinstance(found, list) else str(found)

    return Column(name, cell, priority=priority)


def number(name: str, path: str, kind: str = "integer") -> Column:
    return Column(name, lambda value, now: _at(value, path) or 0, kind)


def count(name: str, path: str, kind: str = "string") -> Column:
    """How many entries a map or list has."""
    return Column(name, lambda value, now: len(_at(value, path) or ()), kind)


def age(path: str = "metadata.creationTimestamp", name: str = "Age", priority: int = 0) -> Column:
    return Column(name, lambda value, now: since(_at(value, path), now), priority=priority)


def made(name: str, cell: Callable[[Json], Any], priority: int = 0) -> Column:
    return Column(name, lambda value, now: cell(value), priority=priority)


NAME = Column(
    "Name",
    lambda value, now: value["metadata"].get("name", ""),
    format="name",
    description="Name must be unique within a namespace.",
)
AGE = age()


# --- pods


def _pod_status(value: Json) -> str:
    """The most telling word about a pod: why it waits or failed, else its phase."""
    status, spec = value.get("status") or {}, value.get("spec") or {}
    reason = status.get("reason") or status.get("phase") or ""
    reason, initializing = _init_reason(status, spec, reason)
    if not initializing:
        reason = _container_reason(status, reason)
    if value["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _init_reason(status: Json, spec: Json, reason: str) -> tuple[str, bool]:
    listed = status.get("initContainerStatuses") or []
    for index, one in enumerate(listed):
        state = one.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        sidecar = _is_sidecar(spec, one.get("name"))
        if (ended and ended.get("exitCode") == 0) or (sidecar and one.get("started")):
            continue
        if ended:
            return f"Init:{ended.get('reason') or _ended(ended)}", True
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}", True
        return f"Init:{index}/{len(spec.get('initContainers') or [])}", True
    return reason, False


def _is_sidecar(spec: Json, name: str | None) -> bool:
    return any(one["name"] == name and one.get("restartPolicy") == "Always" for one in spec.get("initContainers") or ())


def _ended(state: Json) -> str:
    return f"Signal:{state['signal']}" if state.get("signal") else f"ExitCode:{state.get('exitCode', 0)}"


def _container_reason(status: Json, reason: str) -> str:
    running = False
    for one in reversed(status.get("containerStatuses") or []):
        state = one.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended:
            reason = ended.get("reason") or _ended(ended)
        elif one.get("ready") and state.get("running") is not None:
            running = True
    if reason == "Completed" and running:
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
        return "Running" if ready else "NotReady"
    return reason


def _pod_ready(value: Json) -> str:
    status, spec = value.get("status") or {}, value.get("spec") or {}
    sidecars = [one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    ready = sum(bool(one.get("ready")) for one in status.get("containerStatuses") or ())
    ready += sum(bool(one.get("ready")) for one in status.get("initContainerStatuses") or () if one["name"] in sidecars)
    return f"{ready}/{len(spec.get('containers') or ()) + len(sidecars)}"


def _pod_restarts(value: Json, now: datetime.datetime) -> str:
    listed = (value.get("status") or {}).get("containerStatuses") or []
    total = sum(one.get("restartCount", 0) for one in listed)
    ends = [found for one in listed if (found := _at(one, "lastState.terminated.finishedAt"))]
    return f"{total} ({since(max(ends), now)} ago)" if total and ends else str(total)


def _readiness_gates(value: Json) -> str:
    gates = (value.get("spec") or {}).get("readinessGates") or ()
    if not gates:
        return NONE
    true = {one["type"] for one in (value.get("status") or {}).get("conditions") or () if one["status"] == "True"}
    return f"{sum(gate['conditionType'] in true for gate in gates)}/{len(gates)}"


# --- workloads


def _ready_of(path: str) -> Column:
    return made("Ready", lambda value: f"{_at(value, 'status.readyReplicas') or 0}/{_at(value, path) or 0}")


def _template(path: str, field: str) -> Callable[[Json], str]:
    return lambda value: ",".join(one.get(field, "") for one in _at(value, path) or ()) or NONE


def _selector(value: Json) -> str:
    selector = _at(value, "spec.selector") or {}
    labels = (
        selector.get("matchLabels", {}) if "matchLabels" in selector or "matchExpressions" in selector else selector
    )
    return ",".join(f"{key}={item}" for key, item in sorted(labels.items())) or NONE


PODS_OF = "spec.template.spec.containers"
WIDE = (
    made("Containers", _template(PODS_OF, "name"), 1),
    made("Images", _template(PODS_OF, "image"), 1),
    made("Selector", _selector, 1),
)


def _job_state(value: Json) -> str:
    for condition in _at(value, "status.conditions") or ():
        if condition["status"] == "True" and condition["type"] in (
            "Complete",
            "Failed",
            "Suspended",
            "FailureTarget",
            "SuccessCriteriaMet",
        ):
            return str(condition["type"])
    return "Terminating" if value["metadata"].get("deletionTimestamp") else "Running"


def _job_completions(value: Json) -> str:
    done, wanted = _at(value, "status.succeeded") or 0, _at(value, "spec.completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = _at(value, "spec.parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(value: Json, now: datetime.datetime) -> str:
    start, end = _at(value, "status.startTime"), _at(value, "status.completionTime")
    if not start:
        return ""
    from serveplane.clock import parse_timestamp

    return since(start, parse_timestamp(end) if end else now)


# --- services and network


def _external_address(value: Json) -> str:
    spec = value.get("spec") or {}
    if spec.get("type") == "LoadBalancer":
        found = [one.get("ip") or one.get("hostname") for one in _at(value, "status.loadBalancer.ingress") or ()]
        return ",".join([*found, *(spec.get("externalIPs") or ())]) or "<pending>"
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    return ",".join(spec.get("externalIPs") or ()) or NONE


def _service_ports(value: Json) -> str:
    shown = [
        f"{port['port']}{':' + str(port['nodePort']) if port.get('nodePort') else ''}/{port.get('protocol', 'TCP')}"
        for port in _at(value, "spec.ports") or ()
    ]
    return ",".join(shown) or NONE


def _endpoints(value: Json) -> str:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in value.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return _shortened(found)


def _shortened(found: list[str]) -> str:
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "") or NONE


def _slice_endpoints(value: Json) -> str:
    return _shortened([address for one in value.get("endpoints") or () for address in one["addresses"]])


def _slice_ports(value: Json) -> str:
    return ",".join(str(port.get("port") or "*") for port in value.get("ports") or ()) or "<unset>"


def _hosts(value: Json) -> str:
    found = [rule["host"] for rule in _at(value, "spec.rules") or () if rule.get("host")]
    return _shortened(found) if found else "*"


def _ingress_address(value: Json) -> str:
    return ",".join(
        one.get("ip") or one.get("hostname") or "" for one in _at(value, "status.loadBalancer.ingress") or ()
    )


# --- nodes, storage, autoscaling, events, rights


def _node_status(value: Json) -> str:
    ready = next((one for one in _at(value, "status.conditions") or () if one["type"] == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if _at(value, "spec.unschedulable") else word


def _node_roles(value: Json) -> str:
    prefix, labels = "node-role.kubernetes.io/", value["metadata"].get("labels") or {}
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or NONE


def _node_address(kind: str) -> Callable[[Json], str]:
    return lambda value: next(
        (one["address"] for one in _at(value, "status.addresses") or () if one["type"] == kind), NONE
    )


MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(path: str) -> Callable[[Json], str]:
    return lambda value: ",".join(MODES.get(mode, mode) for mode in _at(value, path) or ())


def _claim(value: Json) -> str:
    reference = _at(value, "spec.claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def _scale_target(value: Json) -> str:
    reference = _at(value, "spec.scaleTargetRef") or {}
    return f"{reference.get('kind')}/{reference.get('name')}"


def _metrics(value: Json) -> str:
    shown = []
    for index, metric in enumerate(_at(value, "spec.metrics") or ()):
        inner = metric.get("resource") or metric.get("containerResource") or {}
        target = inner.get("target") or {}
        now = ((_at(value, "status.currentMetrics") or [])[index:] or [{}])[0]
        used = _at(now, "resource.current.averageUtilization")
        if "averageUtilization" in target:
            shown.append(
                f"{inner.get('name')}: {'<unknown>' if used is None else f'{used}%'}/{target['averageUtilization']}%"
            )
        else:
            wanted = (
                target.get("averageValue")
                or target.get("value")
                or _at(metric, "external.target.averageValue")
                or "<auto>"
            )
            shown.append(f"<unknown>/{wanted}")
    return ", ".join(shown) or NONE


def _event_object(value: Json) -> str:
    about = value.get("involvedObject") or value.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_seen(value: Json, now: datetime.datetime) -> str:
    series = _at(value, "series.lastObservedTime")
    return since(
        series
        or value.get("lastTimestamp")
        or value.get("deprecatedLastTimestamp")
        or value.get("eventTime")
        or value["metadata"].get("creationTimestamp"),
        now,
    )


def _role_ref(value: Json) -> str:
    return f"{_at(value, 'roleRef.kind')}/{_at(value, 'roleRef.name')}"


def _subjects(kind: str) -> Callable[[Json], str]:
    def cell(value: Json) -> str:
        found = [one for one in value.get("subjects") or () if one["kind"] == kind]
        return ", ".join(
            f"{one['namespace']}/{one['name']}" if kind == "ServiceAccount" else one["name"] for one in found
        )

    return cell


def _default(annotation: str) -> Column:
    return Column(
        "Name",
        lambda value, now: value["metadata"]["name"] + (" (default)" if _marked(value, annotation) else ""),
        format="name",
    )


def _marked(value: Json, annotation: str) -> bool:
    return (value["metadata"].get("annotations") or {}).get(annotation) == "true"


def _columns(*columns: Column | Iterable[Column]) -> tuple[Column, ...]:
    return tuple(inner for column in columns for inner in ([column] if isinstance(column, Column) else column))


SUBJECTS = tuple(
    made(name, _subjects(kind), 1)
    for name, kind in (("Users", "User"), ("Groups", "Group"), ("ServiceAccounts", "ServiceAccount"))
)
KINDS: dict[str, tuple[Column, ...]] = {
    "pods": _columns(
        NAME,
        made("Ready", _pod_ready),
        made("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        AGE,
        text("IP", "status.podIP", 1),
        text("Node", "spec.nodeName", 1),
        text("Nominated Node", "status.nominatedNodeName", 1),
        made("Readiness Gates", _readiness_gates, 1),
    ),
    "deployments.apps": _columns(
        NAME,
        _ready_of("spec.replicas"),
        number("Up-to-date", "status.updatedReplicas", "string"),
        number("Available", "status.availableReplicas", "string"),
        AGE,
        WIDE,
    ),
    "replicasets.apps": _columns(
        NAME,
        number("Desired", "spec.replicas"),
        number("Current", "status.replicas"),
        number("Ready", "status.readyReplicas"),
        AGE,
        WIDE,
    ),
    "statefulsets.apps": _columns(NAME, _ready_of("spec.replicas"), AGE, WIDE[:2]),
    "daemonsets.apps": _columns(
        NAME,
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        made(
            "Node Selector",
            lambda v: (
                ",".join(f"{k}={i}" for k, i in sorted((_at(v, "spec.template.spec.nodeSelector") or {}).items()))
                or NONE
            ),
        ),
        AGE,
        WIDE,
    ),
    "replicationcontrollers": _columns(
        NAME,
        number("Desired", "spec.replicas"),
        number("Current", "status.replicas"),
        number("Ready", "status.readyReplicas"),
        AGE,
        WIDE,
    ),
    "jobs.batch": _columns(
        NAME,
        made("Status", _job_state),
        made("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
        WIDE,
    ),
    "cronjobs.batch": _columns(
        NAME,
        text("Schedule", "spec.schedule"),
        text("Timezone", "spec.timeZone"),
        Column("Suspend", lambda v, n: bool(_at(v, "spec.suspend")), "boolean"),
        count("Active", "status.active", "integer"),
        Column(
            "Last Schedule",
            lambda v, n: since(_at(v, "status.lastScheduleTime"), n) if _at(v, "status.lastScheduleTime") else NONE,
        ),
        AGE,
    ),
    "services": _columns(
        NAME,
        text("Type", "spec.type"),
        text("Cluster-IP", "spec.clusterIP"),
        made("External-IP", _external_address),
        made("Port(s)", _service_ports),
        AGE,
        made("Selector", _selector, 1),
    ),
    "endpoints": _columns(NAME, made("Endpoints", _endpoints), AGE),
    "endpointslices.discovery.k8s.io": _columns(
        NAME, text("AddressType", "addressType"), made("Ports", _slice_ports), made("Endpoints", _slice_endpoints), AGE
    ),
    "ingresses.networking.k8s.io": _columns(
        NAME,
        text("Class", "spec.ingressClassName"),
        made("Hosts", _hosts),
        made("Address", _ingress_address),
        made("Ports", lambda v: "80, 443" if _at(v, "spec.tls") else "80"),
        AGE,
    ),
    "ingressclasses.networking.k8s.io": _columns(
        NAME, text("Controller", "spec.controller"), made("Parameters", lambda v: NONE), AGE
    ),
    "networkpolicies.networking.k8s.io": _columns(
        NAME,
        made(
            "Pod-Selector",
            lambda v: (
                ",".join(f"{k}={i}" for k, i in sorted((_at(v, "spec.podSelector.matchLabels") or {}).items())) or NONE
            ),
        ),
        AGE,
    ),
    "configmaps": _columns(
        NAME, Column("Data", lambda v, n: len(v.get("data") or ()) + len(v.get("binaryData") or ())), AGE
    ),
    "secrets": _columns(NAME, text("Type", "type"), count("Data", "data"), AGE),
    "serviceaccounts": _columns(NAME, count("Secrets", "secrets"), AGE),
    "namespaces": _columns(NAME, text("Status", "status.phase"), AGE),
    "nodes": _columns(
        NAME,
        made("Status", _node_status),
        made("Roles", _node_roles),
        AGE,
        text("Version", "status.nodeInfo.kubeletVersion", empty=""),
        made("Internal-IP", _node_address("InternalIP"), 1),
        made("External-IP", _node_address("ExternalIP"), 1),
        text("OS-Image", "status.nodeInfo.osImage", 1, "<unknown>"),
        text("Kernel-Version", "status.nodeInfo.kernelVersion", 1, "<unknown>"),
        text("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", 1, "<unknown>"),
    ),
    "persistentvolumes": _columns(
        NAME,
        text("Capacity", "spec.capacity.storage", empty=""),
        made("Access Modes", _modes("spec.accessModes")),
        text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy", empty=""),
        text("Status", "status.phase", empty=""),
        made("Claim", _claim),
        text("StorageClass", "spec.storageClassName", empty=""),
        text("VolumeAttributesClass", "spec.volumeAttributesClassName", empty="<unset>"),
        text("Reason", "status.reason", empty=""),
        AGE,
        text("VolumeMode", "spec.volumeMode", 1, "<unset>"),
    ),
    "persistentvolumeclaims": _columns(
        NAME,
        text("Status", "status.phase", empty=""),
        text("Volume", "spec.volumeName", empty=""),
        text("Capacity", "status.capacity.storage", empty=""),
        made("Access Modes", _modes("status.accessModes")),
        text("StorageClass", "spec.storageClassName", empty=""),
        text("VolumeAttributesClass", "spec.volumeAttributesClassName", empty="<unset>"),
        AGE,
        text("VolumeMode", "spec.volumeMode", 1, "<unset>"),
    ),
    "storageclasses.storage.k8s.io": _columns(
        _default("storageclass.kubernetes.io/is-default-class"),
        text("Provisioner", "provisioner"),
        text("ReclaimPolicy", "reclaimPolicy"),
        text("VolumeBindingMode", "volumeBindingMode"),
        Column("AllowVolumeExpansion", lambda v, n: bool(v.get("allowVolumeExpansion")), "string"),
        AGE,
    ),
    "horizontalpodautoscalers.autoscaling": _columns(
        NAME,
        made("Reference", _scale_target),
        made("Targets", _metrics),
        text("MinPods", "spec.minReplicas", empty="<unset>"),
        number("MaxPods", "spec.maxReplicas"),
        number("Replicas", "status.currentReplicas"),
        AGE,
    ),
    "poddisruptionbudgets.policy": _columns(
        NAME,
        text("Min Available", "spec.minAvailable", empty="N/A"),
        text("Max Unavailable", "spec.maxUnavailable", empty="N/A"),
        number("Allowed Disruptions", "status.disruptionsAllowed"),
        AGE,
    ),
    "events": _columns(
        Column("Last Seen", _event_seen),
        text("Type", "type", empty=""),
        text("Reason", "reason", empty=""),
        made("Object", _event_object),
        made("Message", lambda v: (v.get("message") or v.get("note") or "").strip()),
        Column("Name", lambda v, n: v["metadata"]["name"], priority=1, format="name"),
    ),
    "leases.coordination.k8s.io": _columns(NAME, text("Holder", "spec.holderIdentity", empty=""), AGE),
    "roles.rbac.authorization.k8s.io": _columns(NAME, age(name="Created At")),
    "rolebindings.rbac.authorization.k8s.io": _columns(NAME, made("Role", _role_ref), AGE, SUBJECTS),
    "clusterrolebindings.rbac.authorization.k8s.io": _columns(NAME, made("Role", _role_ref), AGE, SUBJECTS),
    "priorityclasses.scheduling.k8s.io": _columns(
        NAME,
        number("Value", "value"),
        Column("Global-Default", lambda v, n: bool(v.get("globalDefault")), "boolean"),
        AGE,
        text("PreemptionPolicy", "preemptionPolicy"),
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _columns(
        NAME, count("Webhooks", "webhooks", "integer"), AGE
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _columns(
        NAME, count("Webhooks", "webhooks", "integer"), AGE
    ),
    "runtimeclasses.node.k8s.io": _columns(NAME, text("Handler", "handler"), AGE),
    "resourcequotas": _columns(
        NAME,
        made(
            "Request",
            lambda v: ", ".join(
                f"{k}: {(_at(v, 'status.used') or {}).get(k, '0')}/{i}"
                for k, i in sorted((_at(v, "status.hard") or {}).items())
            ),
        ),
        made("Limit", lambda v: ""),
        AGE,
    ),
    "controllerrevisions.apps": _columns(
        NAME,
        made(
            "Controller",
            lambda v: next(
                (
                    f"{o['kind'].lower()}.apps/{o['name']}"
                    for o in v["metadata"].get("ownerReferences") or ()
                    if o.get("controller")
                ),
                NONE,
            ),
        ),
        number("Revision", "revision"),
        AGE,
    ),
}
KINDS["roles.rbac.authorization.k8s.io"] = _columns(
    NAME, Column("Created At", lambda v, n: v["metadata"].get("creationTimestamp"), "date")
)
