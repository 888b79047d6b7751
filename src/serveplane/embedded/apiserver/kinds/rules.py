"""Rules on the values of Kubernetes' own structs, as a table: struct → small checks, each with the real server's message.

Types and unknown fields are the codec's business; what may not change is in `immutable`.
"""

import functools
import re
import zoneinfo
from collections.abc import Iterator, Set

import msgspec

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.kinds import event_rules, limit_rules, network_rules, pod_rules, storage_rules
from serveplane.embedded.apiserver.kinds.checking import (
    SELECTOR_OPERATORS,
    Rule,
    at,
    dns_label,
    enum,
    missing,
    not_negative,
    port,
    positive_or_percent,
    required,
    selector_values,
    unique,
    unsupported,
)
from serveplane.embedded.apiserver.kinds.metadata import check_labels, invalid
from serveplane.objects import Json, names, selectors

CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
    "regex used for validation is '[-._a-zA-Z0-9]+')"
)
HIGHEST_PRIORITY = 1_000_000_000
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")


def _config_keys(*fields: str) -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        for field in fields:
            for key in value.get(field) or ():
                if not _CONFIG_KEY.fullmatch(key) or len(key) > 253:
                    yield invalid(f"{field}[{key}]", key, CONFIG_KEY)

    return check


def workload(kind: str) -> Rule:
    """A selector that is there, not empty, and matches the pods it shall rule."""

    def check(value: Json, path: str) -> Iterator[Cause]:
        yield from _workload(kind, value, path)

    return check


def _workload(kind: str, value: Json, path: str) -> Iterator[Cause]:
    selector = value.get("selector")
    labels = ((value.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if selector is None:
        if kind != "daemonset":
            yield missing(at(path, "selector"))
        yield _unmatched(labels, path)
        return
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield Cause("FieldValueInvalid", f"Invalid value: {{}}: empty selector is invalid for {kind}", at(path, "selector"))
    if not selectors.from_selector(selector).matches(labels):
        yield _unmatched(labels, path)


def _unmatched(labels: Json, path: str) -> Cause:
    shown = msgspec.json.encode(labels or None, order="sorted").decode()
    return Cause(
        "FieldValueInvalid",
        f"Invalid value: {shown}: `selector` does not match template `labels`",
        at(path, "template.metadata.labels"),
    )


def _template_restarts(*known: str) -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        found = ((value.get("template") or {}).get("spec") or {}).get("restartPolicy")
        if found == "Always" and "Always" not in known:  # the default, so nobody chose it
            listed = ", ".join(f'"{one}"' for one in known)
            yield missing(at(path, "template.spec.restartPolicy"), f"valid values: {listed}")
        elif found not in known:
            yield unsupported(at(path, "template.spec.restartPolicy"), found, known)

    return check


def _autoscaler(value: Json, path: str) -> Iterator[Cause]:
    least, most = value.get("minReplicas", 1), value.get("maxReplicas") or 0
    if most < 1:
        yield invalid(at(path, "maxReplicas"), most, "must be greater than 0")
    if least < 1:
        yield invalid(at(path, "minReplicas"), least, "must be greater than or equal to 1")
        if not any(metric.get("type") in ("Object", "External") for metric in value.get("metrics") or ()):
            why = "must specify at least one Object or External metric to support scaling to zero replicas"
            yield Cause("FieldValueForbidden", f"Forbidden: {why}", at(path, "metrics"))
    if most < least:
        yield invalid(at(path, "maxReplicas"), most, "must be greater than or equal to `minReplicas`")
    target = value.get("scaleTargetRef") or {}
    if not target.get("apiVersion") and target.get("kind") != "ReplicationController":
        yield invalid(at(path, "scaleTargetRef.apiVersion"), "", "apiVersion must specify API group")


def _budget(value: Json, path: str) -> Iterator[Cause]:
    if value.get("minAvailable") is not None and value.get("maxUnavailable") is not None:
        shown = {
            "MinAvailable": value["minAvailable"],
            "Selector": value.get("selector"),
            "MaxUnavailable": value["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": value.get("unhealthyPodEvictionPolicy"),
        }
        text = msgspec.json.encode(shown).decode()
        yield Cause("FieldValueInvalid", f"Invalid value: {text}: minAvailable and maxUnavailable cannot be both set", path)


def _metric(value: Json, path: str) -> Iterator[Cause]:
    field = {"Object": "object", "Pods": "pods", "Resource": "resource", "External": "external"}.get(value.get("type", ""))
    if field and value.get(field) is None:
        yield missing(at(path, field), "must populate information for the given metric source")


def _expression(value: Json, path: str) -> Iterator[Cause]:
    operator, given = value.get("operator"), value.get("values") or []
    if operator in SELECTOR_OPERATORS:
        yield from selector_values(operator, given, path)
    else:
        yield invalid(at(path, "operator"), operator, "not a valid selector operator")


def _secret(value: Json, path: str) -> Iterator[Cause]:
    kind, data = value.get("type"), value.get("data") or {}
    needed = {"kubernetes.io/tls": ("tls.crt", "tls.key"), "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
              "kubernetes.io/dockercfg": (".dockercfg",), "kubernetes.io/ssh-auth": ("ssh-privatekey",)}  # fmt: skip
    for key in needed.get(kind or "", ()):
        if key not in data:
            yield missing(f"data[{key}]")


def _both_bags(value: Json, path: str) -> Iterator[Cause]:
    for key in value.get("data") or ():
        if key in (value.get("binaryData") or ()):
            yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")


def _lease(value: Json, path: str) -> Iterator[Cause]:
    seconds = value.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid(at(path, "leaseDurationSeconds"), seconds, "must be greater than 0")


def _priority(value: Json, path: str) -> Iterator[Cause]:
    name, number = value["metadata"].get("name") or "", value.get("value") or 0
    if not name.startswith("system-") and number > HIGHEST_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}"
        yield Cause("FieldValueForbidden", f"Forbidden: {why}", "value")


def _provisioner(value: Json, path: str) -> Iterator[Cause]:
    name = (value.get("provisioner") or "").lower()
    if name and not names.is_qualified_name(name):
        yield invalid("provisioner", name, names.QUALIFIED_NAME_RULE)
    for key in value.get("parameters") or ():
        if not key:
            yield invalid("parameters", key, "field can not be empty.")


def _deployment(value: Json, path: str) -> Iterator[Cause]:
    deadline = value.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (value.get("minReadySeconds") or 0):
        yield invalid(at(path, "progressDeadlineSeconds"), deadline, "must be greater than minReadySeconds")


def _strategy(value: Json, path: str) -> Iterator[Cause]:
    rolling = value.get("rollingUpdate")
    if value.get("type") == "Recreate" and rolling is not None:
        why = "may not be specified when strategy `type` is 'Recreate'"
        yield Cause("FieldValueForbidden", f"Forbidden: {why}", at(path, "rollingUpdate"))
    elif rolling is not None and all(rolling.get(field) in (0, "0%") for field in ("maxSurge", "maxUnavailable")):
        yield invalid(at(path, "rollingUpdate.maxUnavailable"), rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0")


def _daemon_strategy(value: Json, path: str) -> Iterator[Cause]:
    surge, gone = (value.get(field) not in (None, 0, "0%") for field in ("maxSurge", "maxUnavailable"))
    if surge and gone:
        yield invalid(at(path, "maxSurge"), value["maxSurge"], "may not be set when maxUnavailable is non-zero")
    elif not surge and not gone:
        yield missing(at(path, "maxUnavailable"), "cannot be 0 when maxSurge is 0")


def _time_zone(value: Json, path: str) -> Iterator[Cause]:
    name = value.get("timeZone")
    if name is not None and name not in _time_zones():
        yield invalid(at(path, "timeZone"), name, f"unknown time zone {name}")


@functools.cache
def _time_zones() -> Set[str]:
    """Looked up once: it means walking over files."""
    return zoneinfo.available_timezones()


def _pod_management(value: Json, path: str) -> Iterator[Cause]:
    found = value.get("podManagementPolicy")
    if found not in ("OrderedReady", "Parallel"):
        yield invalid(at(path, "podManagementPolicy"), found, "must be 'OrderedReady' or 'Parallel'")


def _job(value: Json, path: str) -> Iterator[Cause]:
    if value.get("completionMode") == "Indexed" and value.get("completions") is None:
        yield missing(at(path, "completions"), "when completion mode is Indexed")


def _template_labels(value: Json, path: str) -> Iterator[Cause]:
    yield from check_labels((value.get("metadata") or {}).get("labels") or {}, at(path, "metadata.labels"))


def _policy_rule(value: Json, path: str) -> Iterator[Cause]:
    if not value.get("verbs"):
        yield missing(at(path, "verbs"), "verbs must contain at least one value")
    urls = value.get("nonResourceURLs")
    if urls:
        if value.get("apiGroups") or value.get("resources") or value.get("resourceNames"):
            shown, why = msgspec.json.encode(urls).decode(), "rules cannot apply to both regular resources and non-resource URLs"
            yield Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", at(path, "nonResourceURLs"))
        return
    if not value.get("apiGroups"):
        yield missing(at(path, "apiGroups"), "resource rules must supply at least one api group")
    if not value.get("resources"):
        yield missing(at(path, "resources"), "resource rules must supply at least one resource")


def _role(value: Json, path: str) -> Iterator[Cause]:
    """In a namespace there are no URLs."""
    for index, rule in enumerate(value.get("rules") or ()):
        if rule.get("nonResourceURLs"):
            shown, why = msgspec.json.encode(rule["nonResourceURLs"]).decode(), "namespaced rules cannot apply to non-resource URLs"
            yield Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", f"rules[{index}].nonResourceURLs")


_REPLICAS = not_negative("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
_CONTAINER: tuple[Rule, ...] = (
    required("name", "image"),
    dns_label("name"),
    pod_rules.ports,
    enum("imagePullPolicy", "Always", "IfNotPresent", "Never"),
)
RULES: dict[str, tuple[Rule, ...]] = {
    "core.v1.PodSpec": (
        pod_rules.pod_spec,
        pod_rules.node_selector,
        enum("restartPolicy", "Always", "OnFailure", "Never"),
        unique("volumes", "name"),
        enum("dnsPolicy", "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    ),
    "core.v1.Container": _CONTAINER,
    "core.v1.ContainerPort": (
        port("containerPort"),
        port("hostPort", needed=False),
        enum("protocol", "SCTP", "TCP", "UDP"),
    ),
    "core.v1.EnvVar": (pod_rules.env,),
    "core.v1.LifecycleHandler": (pod_rules.lifecycle_handler,),
    "core.v1.HTTPGetAction": (pod_rules.http_get,),
    "core.v1.SecurityContext": (pod_rules.security,),
    "core.v1.PodSecurityContext": (pod_rules.security,),
    "core.v1.ResourceRequirements": (pod_rules.requirements,),
    "core.v1.Toleration": (pod_rules.toleration,),
    "core.v1.TopologySpreadConstraint": (pod_rules.spread,),
    "core.v1.ConfigMapVolumeSource": (required("name"), pod_rules.file_mode),
    "core.v1.SecretVolumeSource": (pod_rules.file_mode,),
    "core.v1.Volume": (required("name"), dns_label("name"), pod_rules.volume),
    "core.v1.EndpointSubset": (network_rules.subset,),
    "core.v1.EndpointAddress": (network_rules.endpoint_address,),
    "core.v1.Event": (event_rules.event,),
    "events.v1.Event": (event_rules.modern_event,),
    "core.v1.PersistentVolumeSpec": (storage_rules.volume,),
    "core.v1.HostPathVolumeSource": (storage_rules.host_path,),
    "core.v1.NFSVolumeSource": (storage_rules.nfs,),
    "core.v1.LocalVolumeSource": (storage_rules.local,),
    "core.v1.CSIPersistentVolumeSource": (storage_rules.csi_volume,),
    "core.v1.VolumeNodeAffinity": (storage_rules.node_affinity,),
    "core.v1.NodeSelector": (storage_rules.node_selector,),
    "core.v1.NodeSelectorRequirement": (storage_rules.node_requirement,),
    "core.v1.ResourceQuotaSpec": (limit_rules.quota,),
    "core.v1.LimitRangeSpec": (limit_rules.limits,),
    "apps.v1.RollingUpdateDaemonSet": (_daemon_strategy,),
    "apps.v1.RollingUpdateDeployment": (positive_or_percent("maxUnavailable", "maxSurge"),),
    "core.v1.VolumeMount": (required("name", "mountPath"),),
    "core.v1.Probe": (
        pod_rules.probe,
        not_negative("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
    ),
    "core.v1.PodTemplateSpec": (_template_labels,),
    "core.v1.ServiceSpec": (
        network_rules.service,
        enum("type", "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
        enum("sessionAffinity", "ClientIP", "None"),
    ),
    "core.v1.ServicePort": (network_rules.service_port, enum("protocol", "SCTP", "TCP", "UDP"), dns_label("name")),
    "core.v1.ConfigMap": (_config_keys("data", "binaryData"), _both_bags),
    "core.v1.Secret": (_config_keys("data"), _secret),
    "core.v1.PersistentVolumeClaimSpec": (storage_rules.claim,),
    "apps.v1.DeploymentSpec": (_REPLICAS, workload("deployment"), _template_restarts("Always"), _deployment),
    "apps.v1.ReplicaSetSpec": (_REPLICAS, workload("deployment"), _template_restarts("Always")),
    "apps.v1.StatefulSetSpec": (_REPLICAS, _pod_management, workload("statefulset"), _template_restarts("Always")),
    "apps.v1.DaemonSetSpec": (_REPLICAS, workload("daemonset"), _template_restarts("Always")),
    "apps.v1.DeploymentStrategy": (enum("type", "Recreate", "RollingUpdate"), _strategy),
    "batch.v1.JobSpec": (
        _template_restarts("OnFailure", "Never"),
        not_negative("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds"),
        _job,
    ),
    "batch.v1.CronJobSpec": (
        required("schedule"),
        enum("concurrencyPolicy", "Allow", "Forbid", "Replace"),
        not_negative("startingDeadlineSeconds"),
        _time_zone,
    ),
    "autoscaling.v2.HorizontalPodAutoscalerSpec": (_autoscaler,),
    "autoscaling.v2.CrossVersionObjectReference": (required("kind", "name"),),
    "autoscaling.v2.MetricSpec": (_metric,),
    "autoscaling.v2.HPAScalingRules": (enum("selectPolicy", "Disabled", "Max", "Min"),),
    "policy.v1.PodDisruptionBudgetSpec": (
        _budget,
        positive_or_percent("minAvailable", "maxUnavailable"),
        enum("unhealthyPodEvictionPolicy", "AlwaysAllow", "IfHealthyBudget"),
    ),
    "networking.v1.IngressSpec": (network_rules.ingress,),
    "networking.v1.HTTPIngressPath": (network_rules.ingress_path,),
    "networking.v1.NetworkPolicySpec": (network_rules.policy,),
    "networking.v1.NetworkPolicyPort": (network_rules.policy_port,),
    "networking.v1.NetworkPolicyPeer": (network_rules.policy_peer,),
    "networking.v1.IPBlock": (network_rules.network,),
    "meta.v1.LabelSelectorRequirement": (_expression,),
    "rbac.v1.PolicyRule": (_policy_rule,),
    "rbac.v1.Role": (_role,),
    "rbac.v1.AggregationRule": (
        required("clusterRoleSelectors", why="at least one clusterRoleSelector required if aggregationRule is non-nil"),
    ),
    "rbac.v1.RoleRef": (enum("kind", "Role", "ClusterRole", needed=True), required("name")),
    "rbac.v1.Subject": (required("name"), enum("kind", "ServiceAccount", "User", "Group", needed=True)),
    "scheduling.v1.PriorityClass": (_priority, enum("preemptionPolicy", "PreemptLowerPriority", "Never")),
    "storage.v1.StorageClass": (
        required("provisioner"),
        _provisioner,
        enum("reclaimPolicy", "Delete", "Retain"),
        enum("volumeBindingMode", "Immediate", "WaitForFirstConsumer"),
    ),
    "apps.v1.ControllerRevision": (required("data", why="data is mandatory"),),
    "discovery.v1.EndpointSlice": (required("addressType"), enum("addressType", "FQDN", "IPv4", "IPv6"), network_rules.endpoint_slice),
    "coordination.v1.LeaseSpec": (_lease, not_negative("leaseTransitions")),
}
