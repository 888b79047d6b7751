"""The columns of Kubernetes' own kinds."""

from serveplane.embedded.apiserver.durations import since
from serveplane.embedded.apiserver.printing import cells, pods
from serveplane.embedded.apiserver.printing.column import (
    AGE,
    NAME,
    NONE,
    Column,
    age,
    columns,
    count,
    field,
    made,
    number,
    text,
)

SUBJECTS = tuple(
    made(name, cells.subjects(kind), 1)
    for name, kind in (("Users", "User"), ("Groups", "Group"), ("ServiceAccounts", "ServiceAccount"))
)
KINDS: dict[str, tuple[Column, ...]] = {
    "pods": columns(
        NAME,
        made("Ready", pods.ready),
        made("Status", pods.status),
        Column("Restarts", pods.restarts),
        AGE,
        text("IP", "status.podIP", 1),
        text("Node", "spec.nodeName", 1),
        text("Nominated Node", "status.nominatedNodeName", 1),
        made("Readiness Gates", pods.readiness_gates, 1),
    ),
    "deployments.apps": columns(
        NAME,
        cells.ready_of("spec.replicas"),
        number("Up-to-date", "status.updatedReplicas", "string"),
        number("Available", "status.availableReplicas", "string"),
        AGE,
        cells.WIDE,
    ),
    "replicasets.apps": columns(
        NAME,
        number("Desired", "spec.replicas"),
        number("Current", "status.replicas"),
        number("Ready", "status.readyReplicas"),
        AGE,
        cells.WIDE,
    ),
    "statefulsets.apps": columns(NAME, cells.ready_of("spec.replicas"), AGE, cells.WIDE[:2]),
    "daemonsets.apps": columns(
        NAME,
        number("Desired", "status.desiredNumberScheduled"),
        number("Current", "status.currentNumberScheduled"),
        number("Ready", "status.numberReady"),
        number("Up-to-date", "status.updatedNumberScheduled"),
        number("Available", "status.numberAvailable"),
        made(
            "Node Selector",
            lambda v: (
                ",".join(f"{k}={i}" for k, i in sorted((field(v, "spec.template.spec.nodeSelector") or {}).items()))
                or NONE
            ),
        ),
        AGE,
        cells.WIDE,
    ),
    "replicationcontrollers": columns(
        NAME,
        number("Desired", "spec.replicas"),
        number("Current", "status.replicas"),
        number("Ready", "status.readyReplicas"),
        AGE,
        cells.WIDE,
    ),
    "jobs.batch": columns(
        NAME,
        made("Status", cells.job_state),
        made("Completions", cells.job_completions),
        Column("Duration", cells.job_duration),
        AGE,
        cells.WIDE,
    ),
    "cronjobs.batch": columns(
        NAME,
        text("Schedule", "spec.schedule"),
        text("Timezone", "spec.timeZone"),
        Column("Suspend", lambda v, n: bool(field(v, "spec.suspend")), "boolean"),
        count("Active", "status.active", "integer"),
        Column(
            "Last Schedule",
            lambda v, n: since(field(v, "status.lastScheduleTime"), n) if field(v, "status.lastScheduleTime") else NONE,
        ),
        AGE,
    ),
    "services": columns(
        NAME,
        text("Type", "spec.type"),
        text("Cluster-IP", "spec.clusterIP"),
        made("External-IP", cells.external_address),
        made("Port(s)", cells.service_ports),
        AGE,
        made("Selector", cells.selector, 1),
    ),
    "endpoints": columns(NAME, made("Endpoints", cells.endpoints), AGE),
    "endpointslices.discovery.k8s.io": columns(
        NAME,
        text("AddressType", "addressType"),
        made("Ports", cells.slice_ports),
        made("Endpoints", cells.slice_endpoints),
        AGE,
    ),
    "ingresses.networking.k8s.io": columns(
        NAME,
        text("Class", "spec.ingressClassName"),
        made("Hosts", cells.hosts),
        made("Address", cells.ingress_address),
        made("Ports", lambda v: "80, 443" if field(v, "spec.tls") else "80"),
        AGE,
    ),
    "ingressclasses.networking.k8s.io": columns(
        NAME, text("Controller", "spec.controller"), made("Parameters", lambda v: NONE), AGE
    ),
    "networkpolicies.networking.k8s.io": columns(
        NAME,
        made(
            "Pod-Selector",
            lambda v: (
                ",".join(f"{k}={i}" for k, i in sorted((field(v, "spec.podSelector.matchLabels") or {}).items()))
                or NONE
            ),
        ),
        AGE,
    ),
    "configmaps": columns(
        NAME, Column("Data", lambda v, n: len(v.get("data") or ()) + len(v.get("binaryData") or ())), AGE
    ),
    "secrets": columns(NAME, text("Type", "type"), count("Data", "data"), AGE),
    "serviceaccounts": columns(NAME, count("Secrets", "secrets"), AGE),
    "namespaces": columns(NAME, text("Status", "status.phase"), AGE),
    "nodes": columns(
        NAME,
        made("Status", cells.node_status),
        made("Roles", cells.node_roles),
        AGE,
        text("Version", "status.nodeInfo.kubeletVersion", empty=""),
        made("Internal-IP", cells.node_address("InternalIP"), 1),
        made("External-IP", cells.node_address("ExternalIP"), 1),
        text("OS-Image", "status.nodeInfo.osImage", 1, "<unknown>"),
        text("Kernel-Version", "status.nodeInfo.kernelVersion", 1, "<unknown>"),
        text("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", 1, "<unknown>"),
    ),
    "persistentvolumes": columns(
        NAME,
        text("Capacity", "spec.capacity.storage", empty=""),
        made("Access Modes", cells.modes("spec.accessModes")),
        text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy", empty=""),
        text("Status", "status.phase", empty=""),
        made("Claim", cells.claim),
        text("StorageClass", "spec.storageClassName", empty=""),
        text("VolumeAttributesClass", "spec.volumeAttributesClassName", empty="<unset>"),
        text("Reason", "status.reason", empty=""),
        AGE,
        text("VolumeMode", "spec.volumeMode", 1, "<unset>"),
    ),
    "persistentvolumeclaims": columns(
        NAME,
        text("Status", "status.phase", empty=""),
        text("Volume", "spec.volumeName", empty=""),
        text("Capacity", "status.capacity.storage", empty=""),
        made("Access Modes", cells.modes("status.accessModes")),
        text("StorageClass", "spec.storageClassName", empty=""),
        text("VolumeAttributesClass", "spec.volumeAttributesClassName", empty="<unset>"),
        AGE,
        text("VolumeMode", "spec.volumeMode", 1, "<unset>"),
    ),
    "storageclasses.storage.k8s.io": columns(
        cells.default("storageclass.kubernetes.io/is-default-class"),
        text("Provisioner", "provisioner"),
        text("ReclaimPolicy", "reclaimPolicy"),
        text("VolumeBindingMode", "volumeBindingMode"),
        Column("AllowVolumeExpansion", lambda v, n: bool(v.get("allowVolumeExpansion")), "string"),
        AGE,
    ),
    "horizontalpodautoscalers.autoscaling": columns(
        NAME,
        made("Reference", cells.scale_target),
        made("Targets", cells.metrics),
        text("MinPods", "spec.minReplicas", empty="<unset>"),
        number("MaxPods", "spec.maxReplicas", "string"),
        number("Replicas", "status.currentReplicas", "string"),
        AGE,
    ),
    "poddisruptionbudgets.policy": columns(
        NAME,
        text("Min Available", "spec.minAvailable", empty="N/A"),
        text("Max Unavailable", "spec.maxUnavailable", empty="N/A"),
        number("Allowed Disruptions", "status.disruptionsAllowed"),
        AGE,
    ),
    "events": columns(
        Column("Last Seen", cells.event_seen),
        text("Type", "type", empty=""),
        text("Reason", "reason", empty=""),
        made("Object", cells.event_object),
        made("Message", lambda v: (v.get("message") or v.get("note") or "").strip()),
        Column("Name", lambda v, n: v["metadata"]["name"], priority=1, format="name"),
    ),
    "leases.coordination.k8s.io": columns(NAME, text("Holder", "spec.holderIdentity", empty=""), AGE),
    "roles.rbac.authorization.k8s.io": columns(NAME, age(name="Created At")),
    "rolebindings.rbac.authorization.k8s.io": columns(NAME, made("Role", cells.role_ref), AGE, SUBJECTS),
    "clusterrolebindings.rbac.authorization.k8s.io": columns(NAME, made("Role", cells.role_ref), AGE, SUBJECTS),
    "priorityclasses.scheduling.k8s.io": columns(
        NAME,
        number("Value", "value"),
        Column("Global-Default", lambda v, n: bool(v.get("globalDefault")), "boolean"),
        AGE,
        text("PreemptionPolicy", "preemptionPolicy"),
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": columns(
        NAME, count("Webhooks", "webhooks", "integer"), AGE
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": columns(
        NAME, count("Webhooks", "webhooks", "integer"), AGE
    ),
    "runtimeclasses.node.k8s.io": columns(NAME, text("Handler", "handler"), AGE),
    "resourcequotas": columns(
        NAME,
        made(
            "Request",
            lambda v: ", ".join(
                f"{k}: {(field(v, 'status.used') or {}).get(k, '0')}/{i}"
                for k, i in sorted((field(v, "status.hard") or {}).items())
            ),
        ),
        made("Limit", lambda v: ""),
        AGE,
    ),
    "controllerrevisions.apps": columns(
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
KINDS["roles.rbac.authorization.k8s.io"] = columns(
    NAME, Column("Created At", lambda v, n: v["metadata"].get("creationTimestamp"), "date")
)
