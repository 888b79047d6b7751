"""Rules on the values of Kubernetes' own structs, as a table: struct → small checks, each with the real server's message.

Types and unknown fields are the codec's business; what may not change is in `immutable`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.kinds.metadata import LABEL, check_labels, invalid
from serveplane.objects import Json, names

Rule = Callable[[Json, str], Iterator[Cause]]
CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
    "regex used for validation is '[-._a-zA-Z0-9]+')"
)
ENV_NAME = "a valid environment variable name must consist only of printable ASCII characters other than '='"
PORT_NAME = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
PORT_RANGE = "must be between 1 and 65535, inclusive"
NOT_NEGATIVE = "must be greater than or equal to 0"


def at(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def missing(path: str, why: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", path)


def unsupported(path: str, value: Any, known: Iterable[str]) -> Cause:
    listed = ", ".join(f'"{one}"' for one in known)
    return Cause("FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}', path)


def duplicate(path: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f'Duplicate value: "{value}"', path)


# --- small checks to build the table from


def required(*fields: str, why: str = "") -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        for field in fields:
            if value.get(field) in (None, "", [], 0):
                yield missing(at(path, field), why)

    return check


def enum(field: str, *known: str) -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        found = value.get(field)
        if found not in (None, "") and found not in known:
            yield unsupported(at(path, field), found, known)

    return check


def not_negative(*fields: str) -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        for field in fields:
            if isinstance(value.get(field), int) and value[field] < 0:
                yield invalid(at(path, field), value[field], NOT_NEGATIVE)

    return check


def port(field: str, needed: bool = True) -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        found = value.get(field)
        if found in (None, 0):
            if needed:
                yield missing(at(path, field))
        elif isinstance(found, int) and not 0 < found < 65536:
            yield invalid(at(path, field), found, PORT_RANGE)

    return check


def dns_label(field: str) -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        found = value.get(field)
        if found and not names.is_dns_label(found):
            yield invalid(at(path, field), found, "must be no more than 63 characters" if len(found) > 63 else LABEL)

    return check


def unique(field: str, key: str) -> Rule:
    """Members of a list have different names."""

    def check(value: Json, path: str) -> Iterator[Cause]:
        seen: set[Any] = set()
        for index, member in enumerate(value.get(field) or ()):
            found = member.get(key)
            if found in seen:
                yield duplicate(f"{at(path, field)}[{index}].{key}", found)
            seen.add(found)

    return check


# --- checks of their own


def _pod_spec(value: Json, path: str) -> Iterator[Cause]:
    if not value.get("containers"):
        yield missing(at(path, "containers"))
    volumes = {one.get("name") for one in value.get("volumes") or ()}
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(value.get(field) or ()):
            here = f"{at(path, field)}[{index}]"
            if container.get("name") in seen:
                yield duplicate(f"{here}.name", container.get("name"))
            seen.add(container.get("name", ""))
            yield from _mounts(container, here, volumes)


def _mounts(container: Json, path: str, volumes: set[Any]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        here = f"{path}.volumeMounts[{index}]"
        if mount.get("name") and mount["name"] not in volumes:
            yield Cause("FieldValueNotFound", f'Not found: "{mount["name"]}"', f"{here}.name")
        if mount.get("mountPath") in seen:
            yield invalid(f"{here}.mountPath", mount["mountPath"], "must be unique")
        seen.add(mount.get("mountPath", ""))


def _probe(value: Json, path: str) -> Iterator[Cause]:
    handlers = [field for field in ("exec", "httpGet", "tcpSocket", "grpc") if value.get(field) is not None]
    if not handlers:
        yield missing(path, "must specify a handler type")
    for field in handlers[1:]:
        yield Cause("FieldValueForbidden", "Forbidden: may not specify more than 1 handler type", at(path, field))


def _env(value: Json, path: str) -> Iterator[Cause]:
    if not value.get("name"):
        yield missing(at(path, "name"))
    elif not all(" " <= letter <= "~" and letter != "=" for letter in value["name"]):
        yield invalid(at(path, "name"), value["name"], ENV_NAME)
    if value.get("value") and value.get("valueFrom"):
        yield invalid(at(path, "valueFrom"), "", "may not be specified when `value` is not empty")


def _service(value: Json, path: str) -> Iterator[Cause]:
    ports = value.get("ports") or []
    if not ports and value.get("clusterIP") != "None" and value.get("type") != "ExternalName":
        yield missing(at(path, "ports"))
    seen: set[Any] = set()
    for index, one in enumerate(ports):
        here = f"{at(path, 'ports')}[{index}]"
        if not one.get("name") and len(ports) > 1:
            yield missing(f"{here}.name")
        pair = (one.get("protocol"), one.get("port"))
        if pair in seen:
            shown = f'"Protocol":"{pair[0]}","AppProtocol":null,"Port":{pair[1]},"TargetPort":0,"NodePort":0'
            yield Cause("FieldValueDuplicate", f'Duplicate value: {{"Name":"",{shown}}}', here)
        seen.add(pair)
    yield from unique("ports", "name")({"ports": [one for one in ports if one.get("name")]}, path)
    if value.get("type") == "ExternalName" and not value.get("externalName"):
        yield missing(at(path, "externalName"))


def _config_keys(*fields: str) -> Rule:
    def check(value: Json, path: str) -> Iterator[Cause]:
        for field in fields:
            for key in value.get(field) or ():
                if not _CONFIG_KEY.fullmatch(key) or len(key) > 253:
                    yield invalid(f"{field}[{key}]", key, CONFIG_KEY)

    return check


def workload(value: Json, path: str) -> Iterator[Cause]:
    """A selector that is there, not empty, and matches the pods it shall rule."""
    from serveplane.objects import selectors

    selector = value.get("selector")
    labels = ((value.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if not selector:
        yield missing(at(path, "selector"))
        if selector is None:
            yield _unmatched(labels, path)
        return
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid(at(path, "selector"), "{}", "empty selector is invalid for deployment")
    if not selectors.from_selector(selector).matches(labels):
        yield _unmatched(labels, path)


def _unmatched(labels: Json, path: str) -> Cause:
    import msgspec

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
    if most < least:
        yield invalid(at(path, "maxReplicas"), most, "must be greater than or equal to `minReplicas`")
    target = value.get("scaleTargetRef") or {}
    if not target.get("apiVersion") and target.get("kind") != "ReplicationController":
        yield invalid(at(path, "scaleTargetRef.apiVersion"), "", "apiVersion must specify API group")


def _budget(value: Json, path: str) -> Iterator[Cause]:
    if value.get("minAvailable") is not None and value.get("maxUnavailable") is not None:
        yield Cause("FieldValueInvalid", "Invalid value: {}: minAvailable and maxUnavailable cannot be both set", path)


def _template_labels(value: Json, path: str) -> Iterator[Cause]:
    yield from check_labels((value.get("metadata") or {}).get("labels") or {}, at(path, "metadata.labels"))


def _policy_rule(value: Json, path: str) -> Iterator[Cause]:
    if not value.get("verbs"):
        yield missing(at(path, "verbs"), "verbs must contain at least one value")
    if value.get("nonResourceURLs"):
        return
    if not value.get("apiGroups"):
        yield missing(at(path, "apiGroups"), "resource rules must supply at least one api group")
    if not value.get("resources"):
        yield missing(at(path, "resources"), "resource rules must supply at least one resource")


def _ingress_path(value: Json, path: str) -> Iterator[Cause]:
    if not value.get("pathType"):
        yield missing(at(path, "pathType"), "pathType must be specified")
    elif value["pathType"] not in ("Exact", "Prefix", "ImplementationSpecific"):
        yield unsupported(at(path, "pathType"), value["pathType"], ("Exact", "ImplementationSpecific", "Prefix"))
    if value.get("pathType") in ("Exact", "Prefix") and not (value.get("path") or "").startswith("/"):
        yield invalid(at(path, "path"), value.get("path", ""), "must be an absolute path")


_REPLICAS = not_negative("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
_CONTAINER: tuple[Rule, ...] = (
    required("name", "image"),
    dns_label("name"),
    enum("imagePullPolicy", "Always", "IfNotPresent", "Never"),
)
RULES: dict[str, tuple[Rule, ...]] = {
    "core.v1.PodSpec": (
        _pod_spec,
        enum("restartPolicy", "Always", "OnFailure", "Never"),
        unique("volumes", "name"),
        enum("dnsPolicy", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        not_negative("terminationGracePeriodSeconds"),
    ),
    "core.v1.Container": _CONTAINER,
    "core.v1.ContainerPort": (
        port("containerPort"),
        port("hostPort", needed=False),
        enum("protocol", "SCTP", "TCP", "UDP"),
    ),
    "core.v1.EnvVar": (_env,),
    "core.v1.Volume": (required("name"), dns_label("name")),
    "core.v1.VolumeMount": (required("name", "mountPath"),),
    "core.v1.Probe": (
        _probe,
        not_negative("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
    ),
    "core.v1.PodTemplateSpec": (_template_labels,),
    "core.v1.ServiceSpec": (
        _service,
        enum("type", "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
        enum("sessionAffinity", "ClientIP", "None"),
    ),
    "core.v1.ServicePort": (port("port"), enum("protocol", "SCTP", "TCP", "UDP"), dns_label("name")),
    "core.v1.ConfigMap": (_config_keys("data", "binaryData"),),
    "core.v1.Secret": (_config_keys("data"),),
    "core.v1.PersistentVolumeClaimSpec": (required("accessModes", why="at least 1 access mode is required"),),
    "apps.v1.DeploymentSpec": (_REPLICAS, workload, _template_restarts("Always")),
    "apps.v1.ReplicaSetSpec": (_REPLICAS, workload, _template_restarts("Always")),
    "apps.v1.StatefulSetSpec": (_REPLICAS, workload, _template_restarts("Always")),
    "apps.v1.DaemonSetSpec": (_REPLICAS, workload, _template_restarts("Always")),
    "apps.v1.DeploymentStrategy": (enum("type", "Recreate", "RollingUpdate"),),
    "batch.v1.JobSpec": (
        _template_restarts("OnFailure", "Never"),
        not_negative("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"),
    ),
    "batch.v1.CronJobSpec": (required("schedule"), enum("concurrencyPolicy", "Allow", "Forbid", "Replace")),
    "autoscaling.v2.HorizontalPodAutoscalerSpec": (_autoscaler,),
    "policy.v1.PodDisruptionBudgetSpec": (_budget,),
    "networking.v1.HTTPIngressPath": (_ingress_path,),
    "rbac.v1.PolicyRule": (_policy_rule,),
    "rbac.v1.RoleRef": (required("kind", "name"),),
    "storage.v1.StorageClass": (required("provisioner"),),
    "apps.v1.ControllerRevision": (required("data", why="data is mandatory"),),
    "discovery.v1.EndpointSlice": (required("addressType"), enum("addressType", "FQDN", "IPv4", "IPv6")),
    "coordination.v1.LeaseSpec": (not_negative("leaseTransitions"),),
}
