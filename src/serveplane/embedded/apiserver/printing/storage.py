"""The cells of volumes, claims and drivers."""

from collections.abc import Callable

from serveplane.embedded.apiserver.printing.column import NONE, field
from serveplane.objects import Json

MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def modes(listed: list[str] | None) -> str:
    """In a fixed order, each once."""
    return ",".join(short for mode, short in MODES.items() if mode in (listed or ()))


def phase(value: Json) -> str:
    return "Terminating" if value["metadata"].get("deletionTimestamp") else field(value, "status.phase") or ""


def volume_modes(value: Json) -> str:
    return modes(field(value, "spec.accessModes"))


def claim(value: Json) -> str:
    reference = field(value, "spec.claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def class_name(value: Json) -> str:
    annotations = value["metadata"].get("annotations") or {}
    return annotations[CLASS_ANNOTATION] if CLASS_ANNOTATION in annotations else field(value, "spec.storageClassName") or ""


def of_bound(cell: Callable[[Json], str]) -> Callable[[Json], str]:
    """What a claim got is shown once it names its volume."""
    return lambda value: cell(value) if field(value, "spec.volumeName") else ""


claim_capacity = of_bound(lambda value: str((field(value, "status.capacity") or {}).get("storage", "0")))
claim_modes = of_bound(lambda value: modes(field(value, "status.accessModes")))


def audiences(value: Json) -> str:
    requests = field(value, "spec.tokenRequests")
    return "<unset>" if requests is None else ",".join(one.get("audience", "") for one in requests)


def lifecycles(value: Json) -> str:
    return ",".join(field(value, "spec.volumeLifecycleModes") or ()) or NONE
