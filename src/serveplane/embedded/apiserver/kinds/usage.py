"""What one object counts for in the quotas of its namespace."""

import datetime
from collections.abc import Iterable

from serveplane.clock import parse_timestamp
from serveplane.embedded.apiserver.kinds.limit_rules import COMPUTE
from serveplane.embedded.apiserver.resources import EVENT_BUCKET, Resource
from serveplane.objects import Json, quantity, selectors
from serveplane.objects.amounts import Amounts, with_overhead
from serveplane.objects.qos import quality

PODS, CLAIMS, SERVICES = "pods", "persistentvolumeclaims", "services"
ALIASES = frozenset({"configmaps", "resourcequotas", "replicationcontrollers", "secrets"})
"""Kinds that are counted by their plain names, too."""
POD_NAMES = frozenset({"pods", "count/pods", *COMPUTE, *(f"{side}.{name}" for side in ("requests", "limits") for name in COMPUTE)})
SERVICE_NAMES = frozenset({"services", "count/services", "services.nodeports", "services.loadbalancers"})
CLAIM_NAMES = ("persistentvolumeclaims", "requests.storage")
STORAGE_CLASS = ".storageclass.storage.k8s.io/"
STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def counts(resource: Resource, value: Json, live: Json, subresource: str) -> bool:
    """Whether a write may change what is used. Most kinds only count, and are counted when they are made."""
    if not resource.namespaced or resource.bucket == EVENT_BUCKET:
        return False
    match resource.bucket, subresource:
        case "pods", "":
            return not live or _ends(value) != _ends(live)
        case "pods", "resize":
            return True
        case "persistentvolumeclaims", "" | "status":
            return True
        case "services", "":
            return True
        case _:
            return not live and not subresource


def counted(resource: Resource, names: Iterable[str]) -> list[str]:
    """Those of the names that objects of this resource count for."""
    match resource.bucket:
        case "pods":
            return [name for name in names if name in POD_NAMES or _is_extended(name) or "hugepages-" in name]
        case "services":
            return [name for name in names if name in SERVICE_NAMES]
        case "persistentvolumeclaims":
            return [name for name in names if name == "count/persistentvolumeclaims" or name.rpartition(STORAGE_CLASS)[2] in CLAIM_NAMES]
        case bucket:
            own = {f"count/{resource.full_name}", *([bucket] if bucket in ALIASES else [])}
            return [name for name in names if name in own]


def _is_extended(name: str) -> bool:
    return name.startswith("requests.") and "/" in name and "kubernetes.io/" not in name


def of(resource: Resource, value: Json, now: datetime.datetime) -> Amounts:
    match resource.bucket:
        case "pods":
            return _pod(value, now)
        case "services":
            return _service(value.get("spec") or {})
        case "persistentvolumeclaims":
            return _claim(value)
        case bucket:
            return {f"count/{resource.full_name}": "1", **({bucket: "1"} if bucket in ALIASES else {})}


# --- pods


def _pod(value: Json, now: datetime.datetime) -> Amounts:
    """A pod that has ended, or should have long since, is still an object but uses nothing."""
    if _is_over(value, now):
        return {"count/pods": "1"}
    spec = value.get("spec") or {}
    return {"count/pods": "1", "pods": "1", **compute({side: with_overhead(spec, side) for side in ("requests", "limits")})}


def _is_over(value: Json, now: datetime.datetime) -> bool:
    metadata = value["metadata"]
    if (value.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return True
    if "deletionTimestamp" not in metadata or metadata.get("deletionGracePeriodSeconds") is None:
        return False
    return now > parse_timestamp(metadata["deletionTimestamp"]) + datetime.timedelta(seconds=metadata["deletionGracePeriodSeconds"])


def compute(resources: Json) -> Amounts:
    """Requests and limits under the names that quotas have for them.

    >>> compute({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})
    {'cpu': '1', 'requests.cpu': '1', 'limits.cpu': '2'}
    """
    found = Amounts()
    for name, amount in (resources.get("requests") or {}).items():
        if name in COMPUTE or name.startswith("hugepages-"):
            found[name] = amount
        found[f"requests.{name}"] = amount
    found.update({f"limits.{name}": amount for name, amount in (resources.get("limits") or {}).items() if name in COMPUTE})
    return found


def has_pod_level(spec: Json) -> bool:
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _ends(value: Json) -> bool:
    """Whether a pod has a deadline, which quotas call terminating."""
    deadline = (value.get("spec") or {}).get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


# --- services and claims


def _service(spec: Json) -> Amounts:
    kind, ports = spec.get("type"), spec.get("ports") or []
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    return {
        "services": "1",
        "count/services": "1",
        "services.nodeports": str(len(ports) if kind in ("NodePort", "LoadBalancer") else 0),
        "services.loadbalancers": str(int(kind == "LoadBalancer")),
    }


def _claim(value: Json) -> Amounts:
    spec, annotations = value.get("spec") or {}, value["metadata"].get("annotations") or {}
    found: Amounts = {"persistentvolumeclaims": "1", "count/persistentvolumeclaims": "1"}
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if size is not None:
        given = ((value.get("status") or {}).get("allocatedResources") or {}).get("storage")
        found["requests.storage"] = _whole(given if given and quantity.parse(given) > quantity.parse(size) else size)
    name = annotations.get(STORAGE_CLASS_ANNOTATION) or spec.get("storageClassName")
    if name:
        found.update({f"{name}{STORAGE_CLASS}{field}": found[field] for field in CLAIM_NAMES if field in found})
    return found


def _whole(size: str) -> str:
    number = quantity.parse(size)
    return size if number.denominator == 1 else str(number.__ceil__())


# --- scopes


def in_scope(quota: Json, resource: Resource, value: Json) -> bool:
    """Whether the quota is about objects like this one; all of its scopes must agree."""
    spec = quota.get("spec") or {}
    listed = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    listed += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return all(_has_scope(scope, resource, value) for scope in listed)


def _has_scope(scope: Json, resource: Resource, value: Json) -> bool:
    spec, name = value.get("spec") or {}, scope.get("scopeName")
    match resource.bucket, name:
        case "pods", "Terminating":
            return _ends(value)
        case "pods", "NotTerminating":
            return not _ends(value)
        case "pods", "BestEffort":
            return quality(spec) == "BestEffort"
        case "pods", "NotBestEffort":
            return quality(spec) != "BestEffort"
        case "pods", "PriorityClass":
            return _chosen(scope, [spec.get("priorityClassName") or ""])
        case "pods", "CrossNamespacePodAffinity":
            return _looks_abroad(spec)
        case "persistentvolumeclaims", "VolumeAttributesClass":
            return _chosen(scope, [spec.get("volumeAttributesClassName") or ""])
        case _:
            return False


def _chosen(scope: Json, names: list[str]) -> bool:
    key, given = str(scope["scopeName"]), [name for name in names if name]
    expression = {"key": key, "operator": scope.get("operator"), "values": scope.get("values") or []}
    selector = selectors.from_selector({"matchExpressions": [expression]})
    return any(selector.matches({key: name}) for name in given) if given else selector.matches({})


def _looks_abroad(spec: Json) -> bool:
    affinity = spec.get("affinity") or {}
    for side in (affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}):
        terms = list(side.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        terms += [one.get("podAffinityTerm") or {} for one in side.get("preferredDuringSchedulingIgnoredDuringExecution") or ()]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
