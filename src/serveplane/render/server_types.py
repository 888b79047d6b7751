"""What well-known model servers need to be told, beyond what their runtime says."""
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from serveplane.api import keys
from serveplane.api.inferenceservice.types import ModelSpec
from serveplane.api.servingruntime import ServingRuntime
from serveplane.objects import Json
from serveplane.render.names import MODEL_MOUNT

BY_RUNTIME_NAME = {
    "kserve-mlserver": "mlserver", "kserve-torchserve": "torchserve", "kserve-tritonserver": "tritonserver",
    "kserve-tensorflow-serving": "tensorflow-serving", "kserve-huggingfaceserver": "huggingfaceserver",
    "kserve-vllmserver": "vllmserver",
}
MLSERVER_CLASSES = {
    "sklearn": "mlserver_sklearn.SKLearnModel", "xgboost": "mlserver_xgboost.XGBoostModel",
    "lightgbm": "mlserver_lightgbm.LightGBMModel", "mlflow": "mlserver_mlflow.MLflowRuntime",
}


@dataclass(frozen=True)
class Told:
    """What is added to the model's own container and to the service's labels."""
    container: Json
    labels: dict[str, str]


def server_type(runtime: ServingRuntime) -> str:
    return runtime.annotations.get(keys.SERVER_TYPE) or BY_RUNTIME_NAME.get(runtime.name, "")


def told(kind: str, service: str, model: ModelSpec, protocol: str) -> Told:
    """The container of the model as the server wants it, and labels that placeholders of its runtime refer to."""
    rule = _RULES.get(kind)
    return rule(service, model, protocol) if rule else Told(model.container, {})


def _mlserver(service: str, model: ModelSpec, protocol: str) -> Told:
    env = list(model.container.get("env") or [])
    given = {item.get("name") for item in env}
    env.extend({"name": name, "value": value} for name, value in _mlserver_env(service, model) if name not in given)
    name = model.model_format.name
    return Told({**model.container, "env": env}, {"modelClass": MLSERVER_CLASSES.get(name, MLSERVER_CLASSES["sklearn"])})


def _mlserver_env(service: str, model: ModelSpec) -> Iterator[tuple[str, str]]:
    if not _has_storage(model):
        yield "MLSERVER_LOAD_MODELS_AT_STARTUP", "false"
        return
    yield "MLSERVER_MODEL_NAME", service
    yield "MLSERVER_MODEL_URI", MODEL_MOUNT


def _triton(service: str, model: ModelSpec, protocol: str) -> Told:
    if _has_storage(model):
        return Told(model.container, {})
    return Told({**model.container, "args": [*(model.container.get("args") or []), "--model-control-mode=explicit"]}, {})


def _torchserve(service: str, model: ModelSpec, protocol: str) -> Told:
    protocol = protocol or "v1"
    env = [*(model.container.get("env") or []), {"name": "PROTOCOL_VERSION", "value": protocol}]
    envelope = "kservev2" if protocol in ("v2", "grpc-v2") else "kserve"
    return Told({**model.container, "env": env}, {"serviceEnvelope": envelope})


def _has_storage(model: ModelSpec) -> bool:
    return bool(model.storage_uri or model.storage)


_RULES: dict[str, Callable[[str, ModelSpec, str], Told]] = {"mlserver": _mlserver, "tritonserver": _triton, "torchserve": _torchserve}
