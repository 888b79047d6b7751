"""What the server accepts, but warns of."""

import ipaddress
from collections.abc import Callable, Iterator

from serveplane.embedded.apiserver.kinds import pod_warnings
from serveplane.embedded.apiserver.kinds.metadata import LABEL
from serveplane.objects import Json, names, quantity

_DEPRECATED_SOURCES = ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd")
_STORAGE_CLASS, _MOUNT_OPTIONS = "volume.beta.kubernetes.io/storage-class", "volume.beta.kubernetes.io/mount-options"
_INGRESS_CLASS, _MOUNTABLE = "kubernetes.io/ingress.class", "kubernetes.io/enforce-mountable-secrets"
_TEMPLATES = {
    "deployments.apps": "spec.template", "replicasets.apps": "spec.template", "daemonsets.apps": "spec.template",
    "statefulsets.apps": "spec.template", "replicationcontrollers": "spec.template", "jobs.batch": "spec.template",
    "cronjobs.batch": "spec.jobTemplate.spec.template", "podtemplates": "template",
}  # fmt: skip
_NAMES_IN_PODS = frozenset({"deployments.apps", "replicasets.apps", "replicationcontrollers", "jobs.batch", "cronjobs.batch"})
_SURPRISE = "which can result in surprising behavior; a DNS label is recommended"


def of(bucket: str, value: Json, live: Json) -> Iterator[str]:
    """Of a new object, or of one that is being changed."""
    if not live:
        yield from _name(bucket, value["metadata"]["name"])
    if bucket in _TEMPLATES and (not live or value["metadata"].get("generation") != live["metadata"].get("generation")):
        yield from pod_warnings.warnings(_at(value, f"{_TEMPLATES[bucket]}.spec"), f"{_TEMPLATES[bucket]}.spec")
    find = _KINDS.get(bucket)
    if find is not None:
        yield from find(value, live)


def _at(value: Json, path: str) -> Json:
    for name in path.split("."):
        value = value.get(name) or {}
    return value


def _name(bucket: str, name: str) -> Iterator[str]:
    used = "Pod names and hostnames" if bucket in _NAMES_IN_PODS else "the Pod's hostname" if bucket == "pods" else ""
    if used and not names.is_dns_label(name):
        wrong = ([LABEL] if not names.is_dns_label(name[:63].strip("-")) else []) + (
            ["must be no more than 63 characters"] if len(name) > 63 else []
        )
        yield f"metadata.name: this is used in {used}, {_SURPRISE}: [{' '.join(wrong or [LABEL])}]"


def _pod(value: Json, live: Json) -> Iterator[str]:
    if not live:
        yield from pod_warnings.warnings(value.get("spec") or {}, "spec")


def _stateful_set(value: Json, live: Json) -> Iterator[str]:
    spec = value.get("spec") or {}
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        yield from _fractions(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}]{'.Spec' if live else ''}")
    if (spec.get("revisionHistoryLimit") or 0) < 0:
        yield "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"


def _cron_job(value: Json, live: Json) -> Iterator[str]:
    if live and "TZ" in ((value.get("spec") or {}).get("schedule") or ""):
        page = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"
        yield f"cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see {page} for more details"


# --- storage


def _volume(value: Json, live: Json) -> Iterator[str]:
    spec, annotations = value.get("spec") or {}, value["metadata"].get("annotations") or {}
    yield from _storage_class(annotations)
    if _MOUNT_OPTIONS in annotations:
        yield f'metadata.annotations[{_MOUNT_OPTIONS}]: deprecated since v1.31; use "mountOptions" attribute instead'
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        advice = "Instead, the recommended approach is to use dynamic provisioning."
        yield f"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. {advice}"
    for source in _DEPRECATED_SOURCES:
        if spec.get(source) is not None:
            yield f"spec.{'storageOS' if source == 'storageos' else source}: {pod_warnings.DEPRECATED_VOLUMES[source]}"


def _claim(value: Json, live: Json) -> Iterator[str]:
    yield from _storage_class(value["metadata"].get("annotations") or {})
    yield from _fractions(value.get("spec") or {}, "spec")


def _storage_class(annotations: Json) -> Iterator[str]:
    if _STORAGE_CLASS in annotations:
        yield f'metadata.annotations[{_STORAGE_CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead'


def _fractions(spec: Json, path: str) -> Iterator[str]:
    for side in ("requests", "limits"):
        size = ((spec.get("resources") or {}).get(side) or {}).get("storage", "0")
        if (quantity.parse(size) * 1000).__ceil__() % 1000:
            yield f'{path}.resources.{side}[storage]: fractional byte value "{size}" is invalid, must be an integer'


# --- network


def _service(value: Json, live: Json) -> Iterator[str]:
    spec = value.get("spec") or {}
    kind = spec.get("type")
    if kind == "ClusterIP" and spec.get("clusterIP") == "None":
        for field in ("loadBalancerIP", "externalIPs"):
            if spec.get(field):
                yield f"spec.{field} is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    if kind == "ExternalName" and spec.get("externalIPs"):
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if kind != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'


def _ingress(value: Json, live: Json) -> Iterator[str]:
    unset = (value.get("spec") or {}).get("ingressClassName") is None
    if not live and unset and _INGRESS_CLASS in (value["metadata"].get("annotations") or {}):
        yield f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"


def _slice(value: Json, live: Json) -> Iterator[str]:
    if value.get("addressType") == "FQDN" and not live:
        yield "spec.addressType: FQDN endpoints are deprecated"


def _policy(value: Json, live: Json) -> Iterator[str]:
    spec = value.get("spec") or {}
    for side, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(side) or ()):
            for number, peer in enumerate(rule.get(peers) or ()):
                block, here = peer.get("ipBlock") or {}, f"spec.{side}[{index}].{peers}[{number}].ipBlock"
                yield from _network(block.get("cidr") or "", f"{here}.cidr")
                for place, text in enumerate(block.get("except") or ()):
                    yield from _network(text, f"{here}.except[{place}]")


def _network(text: str, path: str) -> Iterator[str]:
    try:
        found = ipaddress.ip_interface(text)
    except ValueError:
        return
    if found.ip != found.network.network_address:
        one = f"{found.ip}/{found.network.max_prefixlen}"
        yield f'{path}: CIDR value "{text}" is ambiguous in this context (should be "{found.network}" or "{one}"?)'
    elif found.version == 6 and str(found.network) != text:
        yield f'{path}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{found.network}")'


def _account(value: Json, live: Json) -> Iterator[str]:
    had, has = (_MOUNTABLE in ((one.get("metadata") or {}).get("annotations") or {}) for one in (live, value))
    if has and not had:
        yield f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"


_KINDS: dict[str, Callable[[Json, Json], Iterator[str]]] = {
    "pods": _pod,
    "statefulsets.apps": _stateful_set,
    "cronjobs.batch": _cron_job,
    "persistentvolumes": _volume,
    "persistentvolumeclaims": _claim,
    "services": _service,
    "ingresses.networking.k8s.io": _ingress,
    "endpointslices.discovery.k8s.io": _slice,
    "networkpolicies.networking.k8s.io": _policy,
    "serviceaccounts": _account,
}
