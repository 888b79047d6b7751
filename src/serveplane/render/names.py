"""The names that children of an InferenceService have, side by side; users and scripts rely on every one of them."""
from serveplane.api.inferenceservice.components import ComponentKind

DEFAULT_PORT = 8080
AGENT_PORT = 9081
MODEL_MOUNT = "/mnt/models"
STORAGE_INITIALIZER = "storage-initializer"

COMPONENT_LABEL = "component"
APP_LABEL = "app"
GENERATION_LABEL = "isvc.generation"
ROLE_LABEL = "multinode/role"
CLUSTER_LOCAL = "cluster-local"

SCHEME_PLACEHOLDER = "<scheme-placeholder>"
"""Stands for a scheme that is only known once the storage secret is read, when the pod is admitted."""


def component_name(service: str, kind: ComponentKind, variant: str = "") -> str:
    """One rule for all children, so three components are one code path.

    >>> component_name("iris", ComponentKind.PREDICTOR), component_name("iris", ComponentKind.PREDICTOR, "v2")
    ('iris-predictor', 'iris-v2-predictor')
    """
    return "-".join(part for part in (service, variant, kind) if part)


def app_label(name: str) -> str:
    return f"isvc.{name}"


def worker_name(predictor: str) -> str:
    return f"{predictor}-worker"


def head_service_name(predictor: str, generation: int) -> str:
    return f"{predictor.removesuffix('-predictor')}-head-{generation}"


def workers_service_name(predictor: str, generation: int) -> str:
    return f"{predictor.removesuffix('-predictor')}-workers-{generation}"


def model_config_name(service: str) -> str:
    """The ConfigMap with the models of a multi-model service; only shard 0 exists."""
    return f"modelconfig-{service}-0"
