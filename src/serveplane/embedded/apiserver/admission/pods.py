"""What the real server's default admission does to new pods: an account with its token, tolerations, priority."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import errors
from serveplane.embedded.store import Key
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 3607  # the odd number marks tokens that were injected, not asked for
MIRROR = "kubernetes.io/config.mirror"
CLASSES = "priorityclasses.scheduling.k8s.io"
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def mutate(core: "Core", write: "Write") -> None:
    if write.resource.bucket != "pods" or write.live or write.subresource:
        return
    spec = write.value["spec"]
    if MIRROR not in (write.value["metadata"].get("annotations") or {}):
        _account(core, write, spec)
    _tolerations(spec)
    _priority(core, write, spec)


def _account(core: "Core", write: "Write", spec: Json) -> None:
    name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    namespace = write.value["metadata"]["namespace"]
    record = core.store.get("serviceaccounts", Key(namespace, name))
    if record is None:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise errors.forbidden("pods", "", write.value["metadata"].get("name", ""), why)
    account = record.value()
    wanted = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken"))
    if wanted is not False:
        _mount_token(core, spec)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(secret) for secret in account["imagePullSecrets"]]


def _mount_token(core: "Core", spec: Json) -> None:
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    without = [
        one for one in containers if all(mount["mountPath"] != TOKEN_PATH for mount in one.get("volumeMounts") or ())
    ]
    if not without:
        return
    name = f"kube-api-access-{core.clock.letters(5)}"
    for container in without:
        container["volumeMounts"] = [
            *(container.get("volumeMounts") or []),
            {"name": name, "readOnly": True, "mountPath": TOKEN_PATH},
        ]
    spec["volumes"] = [
        *(spec.get("volumes") or []),
        {"name": name, "projected": {"sources": _sources(), "defaultMode": 420}},
    ]


def _sources() -> list[Json]:
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [field]}},
    ]


def _tolerations(spec: Json) -> None:
    """A node may be gone for five minutes before its pods are."""
    present = spec.get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(
            one.get("key") in (key, None, "") and one.get("effect") in ("NoExecute", None, "") for one in present
        ):
            present = [*present, {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]
    spec["tolerations"] = present


def _priority(core: "Core", write: "Write", spec: Json) -> None:
    name, value, policy = spec.get("priorityClassName") or "", 0, "PreemptLowerPriority"
    if name in SYSTEM_PRIORITIES:
        value = SYSTEM_PRIORITIES[name]
    elif name:
        record = core.store.get(CLASSES, Key("", name))
        if record is None:
            raise errors.forbidden(
                "pods", "", write.value["metadata"].get("name", ""), f"no PriorityClass with name {name} was found"
            )
        found = record.value()
        value, policy = found["value"], found.get("preemptionPolicy", policy)
    else:
        for record in core.store.records(CLASSES):
            found = record.value()
            if found.get("globalDefault"):
                spec["priorityClassName"], value, policy = (
                    record.key.name,
                    found["value"],
                    found.get("preemptionPolicy", policy),
                )
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)
