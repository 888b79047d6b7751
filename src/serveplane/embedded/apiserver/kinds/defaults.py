"""The defaults the real server gives to fields nobody set, by Go struct.

They are code in Kubernetes and in no published schema, so they stand here as a table: a struct's name and what an absent field becomes.
Each was compared with a real API server by the two-server suite.
"""

import base64
import copy
from collections.abc import Callable
from typing import Any

from serveplane.objects import Json

Default = Callable[[Json], None]
FILE_MODE = 0o644
LARGEST_GRACE = 10800


def fields(**values: Any) -> Default:
    """A default for each of the fields; nested values are copied, so that no two objects share them."""
    plain = [(name, value) for name, value in values.items() if not isinstance(value, dict | list)]
    nested = [(name, value) for name, value in values.items() if isinstance(value, dict | list)]

    def default(value: Json) -> None:
        for name, standard in plain:
            if name not in value:
                value[name] = standard
        for name, standard in nested:
            if value.get(name) is None:
                value[name] = copy.deepcopy(standard)

    return default


def _both(*parts: Default) -> Default:
    def default(value: Json) -> None:
        for part in parts:
            part(value)

    return default


# --- pods


def _container(value: Json) -> None:
    if "imagePullPolicy" not in value:
        value["imagePullPolicy"] = "Always" if image_tag(value.get("image", "")) == "latest" else "IfNotPresent"


def image_tag(image: str) -> str:
    """
    >>> image_tag("host:5000/nginx"), image_tag("nginx:1"), image_tag("nginx@sha256:0")
    ('latest', '1', '')
    """
    if "@" in image:
        return ""
    _name, colon, tag = image.rpartition(":")
    return tag if colon and "/" not in tag else "latest"


def _pod_spec(value: Json) -> None:
    account = value.get("serviceAccountName") or value.get("serviceAccount")
    if account:
        value["serviceAccountName"] = value["serviceAccount"] = account


def _pod(value: Json) -> None:
    spec, status = value["spec"], value["status"]
    for one, many in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        if status.get(one) and not status.get(many):
            status[many] = [{"ip": status[one]}]
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):  # of pods only: templates are left as they are
        for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort"))
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        resources = container["resources"]
        for name, amount in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, amount)


VOLUME_SOURCES = frozenset(
    {
        "hostPath",
        "emptyDir",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "gitRepo",
        "secret",
        "nfs",
        "iscsi",
        "glusterfs",
        "persistentVolumeClaim",
        "rbd",
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "downwardAPI",
        "fc",
        "azureFile",
        "configMap",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
        "photonPersistentDisk",
        "projected",
        "portworxVolume",
        "scaleIO",
        "storageos",
        "csi",
        "ephemeral",
        "image",
    }
)


def _volume(value: Json) -> None:
    if not VOLUME_SOURCES & value.keys():
        value["emptyDir"] = {}


def _http_get(value: Json) -> None:
    value["scheme"] = value["scheme"].upper() if value.get("scheme") else "HTTP"


def _env_var(value: Json) -> None:
    reference = (value.get("valueFrom") or {}).get("fieldRef")
    if reference is not None:
        reference.setdefault("apiVersion", "v1")


# --- services


def _service_spec(value: Json) -> None:
    kind = value.setdefault("type", "ClusterIP")
    value.setdefault("sessionAffinity", "None")
    if value["sessionAffinity"] == "None":
        value.pop("sessionAffinityConfig", None)
    elif value["sessionAffinity"] == "ClientIP":
        config = value.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", LARGEST_GRACE)
    for port in value.get("ports") or ():
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if kind in ("NodePort", "LoadBalancer"):
        value.setdefault("externalTrafficPolicy", "Cluster")
    if kind != "ExternalName":
        value.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        value.setdefault("allocateLoadBalancerNodePorts", True)


# --- workloads


def _deployment_strategy(value: Json) -> None:
    if value.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = value.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _daemon_set_strategy(value: Json) -> None:
    if value.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = value.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def _stateful_set_strategy(value: Json) -> None:
    if value.setdefault("type", "RollingUpdate") == "RollingUpdate":
        value.setdefault("rollingUpdate", {}).setdefault("partition", 0)


def _stateful_set_spec(value: Json) -> None:
    retention = value.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    for claim in value.get("volumeClaimTemplates") or ():
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")


def _replication_controller(value: Json) -> None:
    labels = ((value["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        value["spec"].setdefault("selector", dict(labels))
        value["metadata"].setdefault("labels", dict(labels))


def _job(value: Json) -> None:
    spec = value["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    if "backoffLimit" not in spec:
        spec["backoffLimit"] = 2**31 - 1 if "backoffLimitPerIndex" in spec else 6
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            condition["status"] = condition.get("status") or "True"
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not value["metadata"].get("labels"):
        value["metadata"]["labels"] = dict(labels)


def _autoscaler(value: Json) -> None:
    spec = value["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is None:
        return
    up = behavior.setdefault("scaleUp", {})
    up.setdefault("stabilizationWindowSeconds", 0)
    up.setdefault("selectPolicy", "Max")
    up.setdefault(
        "policies",
        [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}],
    )
    down = behavior.setdefault("scaleDown", {})
    down.setdefault("selectPolicy", "Max")
    down.setdefault("policies", [{"type": "Percent", "value": 100, "periodSeconds": 15}])


# --- the rest


def _network_policy(value: Json) -> None:
    if not value.get("policyTypes"):
        value["policyTypes"] = ["Ingress", *(["Egress"] if value.get("egress") else [])]


def _secret(value: Json) -> None:
    """`stringData` is a convenience for writers: it ends up in `data`."""
    value.setdefault("type", "Opaque")
    extra = value.pop("stringData", None)
    if extra:
        plain = {key: base64.b64encode(text.encode()).decode() for key, text in extra.items()}
        value["data"] = {**(value.get("data") or {}), **plain}


def _node(value: Json) -> None:
    spec, status = value["spec"], value["status"]
    if spec.get("podCIDR") and not spec.get("podCIDRs"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _daemon_set(value: Json) -> None:
    """A leftover of the first version of the API that is still written."""
    value["metadata"].setdefault("annotations", {}).setdefault("deprecated.daemonset.template.generation", "1")


def _subject(value: Json) -> None:
    if not value.get("apiGroup") and value.get("kind") in ("User", "Group"):
        value["apiGroup"] = "rbac.authorization.k8s.io"


def _role_ref(value: Json) -> None:
    value["apiGroup"] = value.get("apiGroup") or "rbac.authorization.k8s.io"


def _names(value: Json) -> None:
    kind = value.get("kind", "")
    if kind and not value.get("singular"):
        value["singular"] = kind.lower()
    if kind and not value.get("listKind"):
        value["listKind"] = f"{kind}List"


def _definition(value: Json) -> None:
    if value["spec"].get("conversion") is None:
        value["spec"]["conversion"] = {"strategy": "None"}


def _limit(value: Json) -> None:
    """What containers get without asking follows from the bounds where it was not said."""
    if value.get("type") != "Container":
        return
    most = {**(value.get("max") or {}), **(value.get("default") or {})}
    requests = {**(value.get("min") or {}), **most, **(value.get("defaultRequest") or {})}
    value.update({field: amounts for field, amounts in (("default", most), ("defaultRequest", requests)) if amounts})


def _phase(value: Json) -> None:
    if not value["status"].get("phase"):
        value["status"]["phase"] = "Pending"


_WEBHOOK = fields(
    failurePolicy="Fail", matchPolicy="Equivalent", namespaceSelector={}, objectSelector={}, timeoutSeconds=10
)
_PROBE = fields(timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
_CONTAINER = _both(fields(terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File"), _container)
_MODE = fields(defaultMode=FILE_MODE)

DEFAULTS: dict[str, Default] = {
    "core.v1.Node": _node,
    "apps.v1.DaemonSet": _daemon_set,
    "core.v1.PodSpec": _both(
        fields(
            dnsPolicy="ClusterFirst",
            restartPolicy="Always",
            terminationGracePeriodSeconds=30,
            schedulerName="default-scheduler",
            securityContext={},
        ),
        _pod_spec,
    ),
    "core.v1.Pod": _pod,
    "core.v1.Container": _CONTAINER,
    "core.v1.EphemeralContainer": _CONTAINER,
    "core.v1.ContainerPort": fields(protocol="TCP"),
    "core.v1.Probe": _PROBE,
    "core.v1.HTTPGetAction": _both(fields(path="/"), _http_get),
    "core.v1.GRPCAction": fields(service=""),
    "core.v1.ObjectFieldSelector": fields(apiVersion="v1"),
    "core.v1.EnvVar": _env_var,
    "core.v1.Volume": _volume,
    "core.v1.SecretVolumeSource": _MODE,
    "core.v1.ConfigMapVolumeSource": _MODE,
    "core.v1.DownwardAPIVolumeSource": _MODE,
    "core.v1.ProjectedVolumeSource": _MODE,
    "core.v1.ServiceAccountTokenProjection": fields(expirationSeconds=3600),
    "core.v1.HostPathVolumeSource": fields(type=""),
    "core.v1.PersistentVolumeClaimSpec": fields(volumeMode="Filesystem"),
    "core.v1.PersistentVolumeClaim": _phase,
    "core.v1.PersistentVolumeSpec": fields(persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem"),
    "core.v1.PersistentVolume": _phase,
    "core.v1.LimitRangeItem": _limit,
    "core.v1.ServiceSpec": _service_spec,
    "core.v1.ServicePort": fields(protocol="TCP"),
    "core.v1.EndpointPort": fields(protocol="TCP"),
    "core.v1.Secret": _secret,
    "core.v1.ReplicationControllerSpec": fields(replicas=1),
    "core.v1.ReplicationController": _replication_controller,
    "apps.v1.DeploymentSpec": fields(replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600),
    "apps.v1.DeploymentStrategy": _deployment_strategy,
    "apps.v1.ReplicaSetSpec": fields(replicas=1),
    "apps.v1.DaemonSetSpec": fields(revisionHistoryLimit=10),
    "apps.v1.DaemonSetUpdateStrategy": _daemon_set_strategy,
    "apps.v1.StatefulSetSpec": _both(
        fields(replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady"), _stateful_set_spec
    ),
    "apps.v1.StatefulSetUpdateStrategy": _stateful_set_strategy,
    "batch.v1.Job": _job,
    "batch.v1.CronJobSpec": fields(
        concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1
    ),
    "autoscaling.v2.HorizontalPodAutoscaler": _autoscaler,
    "networking.v1.NetworkPolicySpec": _network_policy,
    "networking.v1.NetworkPolicyPort": fields(protocol="TCP"),
    "networking.v1.IngressClassParametersReference": fields(scope="Cluster"),
    "rbac.v1.Subject": _subject,
    "rbac.v1.RoleRef": _role_ref,
    "storage.v1.StorageClass": fields(reclaimPolicy="Delete", volumeBindingMode="Immediate"),
    "storage.v1.CSIDriverSpec": fields(
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        volumeLifecycleModes=["Persistent"],
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
        seLinuxMount=False,
    ),
    "admissionregistration.v1.ValidatingWebhook": _WEBHOOK,
    "admissionregistration.v1.MutatingWebhook": _both(_WEBHOOK, fields(reinvocationPolicy="Never")),
    "admissionregistration.v1.Rule": fields(scope="*"),
    "admissionregistration.v1.RuleWithOperations": fields(scope="*"),
    "admissionregistration.v1.NamedRuleWithOperations": fields(scope="*"),
    "admissionregistration.v1.ServiceReference": fields(port=443),
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": fields(failurePolicy="Fail"),
    "admissionregistration.v1.MatchResources": fields(
        matchPolicy="Equivalent", namespaceSelector={}, objectSelector={}
    ),
    "apiextensions.v1.CustomResourceDefinitionNames": _names,
    "apiextensions.v1.CustomResourceDefinition": _definition,
    "apiextensions.v1.ServiceReference": fields(port=443),
    "scheduling.v1.PriorityClass": fields(preemptionPolicy="PreemptLowerPriority"),
    "authentication.v1.TokenRequestSpec": fields(expirationSeconds=3600),
    "discovery.v1.EndpointPort": fields(name="", protocol="TCP"),
}
