"""What an update may not change, kind by kind."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import msgspec

from serveplane.embedded.apiserver.errors import Cause
from serveplane.embedded.apiserver.kinds.storage_rules import SOURCES
from serveplane.objects import Json, quantity

IMMUTABLE = "field is immutable"
PATHS: dict[str, tuple[str, ...]] = {
    "deployments.apps": ("spec.selector",),
    "replicasets.apps": ("spec.selector",),
    "daemonsets.apps": ("spec.selector",),
    "jobs.batch": (
        "spec.selector", "spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex", "spec.managedBy",
        "spec.successPolicy",
    ),
    "secrets": ("type",),
    "runtimeclasses.node.k8s.io": ("handler",),
    "endpointslices.discovery.k8s.io": ("addressType",),
    "ingressclasses.networking.k8s.io": ("spec.controller",),
    "priorityclasses.scheduling.k8s.io": ("preemptionPolicy",),
}
STATEFUL_SET = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
STATEFUL_SET_CHANGES = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
POD = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
VOLUME_SOURCE = "spec.persistentvolumesource is immutable after creation"
CLAIM = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def problems(bucket: str, value: Json, live: Json) -> Iterator[Cause]:
    for path in PATHS.get(bucket, ()):
        new, old = _at(value, path), _at(live, path)
        if new != old:
            yield _changed(path, new)
    special = _SPECIAL.get(bucket)
    if special is not None:
        yield from special(value, live)


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _changed(path: str, value: Any) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {msgspec.json.encode(value).decode()}: {IMMUTABLE}", path)


def _forbidden(path: str, why: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {why}", path)


def _data(value: Json, live: Json) -> Iterator[Cause]:
    if not live.get("immutable"):
        return
    if not value.get("immutable"):
        yield _forbidden("immutable", "field is immutable when `immutable` is set")
    for field in ("data", "binaryData"):
        if value.get(field) != live.get(field):
            yield _forbidden(field, "field is immutable when `immutable` is set")


def _stateful_set(value: Json, live: Json) -> Iterator[Cause]:
    def fixed(spec: Json) -> Json:
        return {key: item for key, item in spec.items() if key not in STATEFUL_SET_CHANGES}

    if fixed(value["spec"]) != fixed(live["spec"]):
        yield _forbidden("spec", STATEFUL_SET)


def _job(value: Json, live: Json) -> Iterator[Cause]:
    """The pods of a Job are settled, except while it is suspended and nothing has started."""
    suspended = live["spec"].get("suspend") and not (live.get("status") or {}).get("startTime")
    if value["spec"].get("template") != live["spec"].get("template") and not suspended:
        yield _changed("spec.template", value["spec"].get("template"))
    wanted, before = value["spec"].get("completions"), live["spec"].get("completions")
    if wanted != before and value["spec"].get("completionMode") != "Indexed":
        yield _changed("spec.completions", wanted)
    elif wanted not in (None, before, value["spec"].get("parallelism")):
        why = "can only be modified in tandem with spec.parallelism"
        yield Cause("FieldValueInvalid", f"Invalid value: {wanted}: {why}", "spec.completions")


def _service(value: Json, live: Json) -> Iterator[Cause]:
    old, new = live["spec"].get("clusterIP"), value["spec"].get("clusterIP")
    kinds = {value["spec"].get("type"), live["spec"].get("type")}
    if old and "ExternalName" not in kinds and new != old:
        yield Cause("FieldValueInvalid", f'Invalid value: ["{new}"]: may not change once set', "spec.clusterIPs[0]")


def _binding(value: Json, live: Json) -> Iterator[Cause]:
    if value.get("roleRef") != live.get("roleRef"):
        role = value["roleRef"]
        named = {"APIGroup": role.get("apiGroup", ""), "Kind": role.get("kind", ""), "Name": role.get("name", "")}
        shown = msgspec.json.encode(named).decode()
        yield Cause("FieldValueInvalid", f"Invalid value: {shown}: cannot change roleRef", "roleRef")


def _storage_class(value: Json, live: Json) -> Iterator[Cause]:
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        if value.get(field) != live.get(field):
            yield _forbidden(field, f"updates to {field} are forbidden.")
    if value.get("volumeBindingMode") != live.get("volumeBindingMode"):
        yield _changed("volumeBindingMode", value.get("volumeBindingMode"))


def _priority(value: Json, live: Json) -> Iterator[Cause]:
    if value.get("value") != live.get("value"):
        yield _forbidden("value", "may not be changed in an update.")


def _claim(value: Json, live: Json) -> Iterator[Cause]:
    new, old = value["spec"], live["spec"]
    bound = (live.get("status") or {}).get("phase") == "Bound"
    if _settled(new, old, bound) != _settled(old, old, bound):
        yield _forbidden("spec", CLAIM)
    size, before, given = _storage(new.get("resources")), _storage(old.get("resources")), (live.get("status") or {}).get("capacity") or {}
    if size < before and size <= quantity.parse(given.get("storage", "0")):
        yield _forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    if new.get("volumeMode") != old.get("volumeMode"):
        yield _changed("volumeMode", new.get("volumeMode"))


def _settled(spec: Json, old: Json, bound: bool) -> Json:
    """What may not change: not what is set only once, nor, once bound, the size."""
    kept = dict(spec)
    if not old.get("volumeName"):
        kept.pop("volumeName", None)
    if old.get("storageClassName") is None and spec.get("storageClassName") is not None:
        kept.pop("storageClassName")
    if bound:
        kept.pop("volumeAttributesClassName", None)
        resources = kept.get("resources") or {}
        requests = {name: amount for name, amount in (resources.get("requests") or {}).items() if name != "storage"}
        kept["resources"] = {**resources, "requests": requests}
    return kept


def _storage(resources: Json | None) -> Fraction:
    return quantity.parse(((resources or {}).get("requests") or {}).get("storage", "0"))


def _volume(value: Json, live: Json) -> Iterator[Cause]:
    new, old = value["spec"], live["spec"]
    if any(new.get(source) != old.get(source) for source in SOURCES):
        yield _forbidden("spec.persistentvolumesource", VOLUME_SOURCE)
    if new.get("volumeMode") != old.get("volumeMode"):
        yield _changed("volumeMode", new.get("volumeMode"))
    if old.get("nodeAffinity") is not None and new.get("nodeAffinity") != old["nodeAffinity"]:
        yield _changed("nodeAffinity", new.get("nodeAffinity"))
    if old.get("volumeAttributesClassName") is not None and new.get("volumeAttributesClassName") is None:
        yield _forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")


def _quota(value: Json, live: Json) -> Iterator[Cause]:
    new, old = value["spec"].get("scopes") or [], live["spec"].get("scopes") or []
    if set(new) != set(old):
        yield _changed("spec.scopes", new or None)


def _pod(value: Json, live: Json) -> Iterator[Cause]:
    for field in ("containers", "initContainers"):
        if len(value["spec"].get(field) or ()) != len(live["spec"].get(field) or ()):
            yield _forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    if _fixed_pod(value["spec"]) != _fixed_pod(live["spec"]):
        yield _forbidden("spec", POD)


def _fixed_pod(spec: Json) -> Json:
    kept = {
        key: item
        for key, item in spec.items()
        if key
        not in (
            "activeDeadlineSeconds",
            "tolerations",
            "terminationGracePeriodSeconds",
            "ephemeralContainers",
            "schedulingGates",
            "nodeSelector" if spec.get("schedulingGates") else "",
        )
    }
    for field in ("containers", "initContainers"):
        kept[field] = [{key: item for key, item in one.items() if key != "image"} for one in spec.get(field) or ()]
    return kept


_SPECIAL = {
    "configmaps": _data,
    "secrets": _data,
    "statefulsets.apps": _stateful_set,
    "jobs.batch": _job,
    "services": _service,
    "pods": _pod,
    "rolebindings.rbac.authorization.k8s.io": _binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _binding,
    "storageclasses.storage.k8s.io": _storage_class,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "resourcequotas": _quota,
    "priorityclasses.scheduling.k8s.io": _priority,
}
