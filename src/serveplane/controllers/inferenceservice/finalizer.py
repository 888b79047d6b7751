"""KServe's finalizer: a service takes its TrainedModels with it."""
from serveplane.objects import Json

FINALIZER = "inferenceservice.finalizers"


def has_finalizer(obj: Json) -> bool:
    return FINALIZER in (obj["metadata"].get("finalizers") or [])


def with_finalizer(obj: Json) -> Json:
    """The object holding our finalizer; the same object if it does already."""
    if has_finalizer(obj):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "finalizers": [*(obj["metadata"].get("finalizers") or []), FINALIZER]}}


def without_finalizer(obj: Json) -> list[str]:
    """The finalizers that are left when ours is gone."""
    return [name for name in obj["metadata"].get("finalizers") or [] if name != FINALIZER]
