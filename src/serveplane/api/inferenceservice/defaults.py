"""What the API fills in for an InferenceService.

`defaulted` is total: an object that its own schema refuses comes back as it is, and the answer to it is validation's.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from serveplane.api import keys
from serveplane.api.inferenceservice.components import components
from serveplane.api.inferenceservice.types import FRAMEWORKS, InferenceService
from serveplane.api.localmodel.matching import CachedModel, matching_cache
from serveplane.api.mode import FORMER_NAMES, Mode
from serveplane.api.model import read
from serveplane.api.policy import Policy
from serveplane.objects import Json
from serveplane.objects.quantity import is_quantity, parse

V2_WHEN_CONVERTED = ("triton", "onnx", "huggingface")
V2_WHEN_UNSET = ("triton", "vLLM")
LOCAL_MODEL_LABELS = (keys.LOCAL_MODEL, keys.LOCAL_MODEL_NAMESPACE)
LOCAL_MODEL_ANNOTATIONS = (keys.LOCAL_MODEL_SOURCE_URI, keys.LOCAL_MODEL_PVC)


def defaulted(obj: Json, policy: Policy, caches: Iterable[CachedModel] = ()) -> Json:
    """The object with its defaults, a new one; `obj` is left alone and must have the structure of its schema."""
    result: Json = msgspec.json.decode(msgspec.json.encode(obj))
    metadata, spec = result["metadata"], result.get("spec") or {}
    predictor = spec.get("predictor")
    submitted_mode = _annotations(metadata).get(keys.DEPLOYMENT_MODE)
    _default_mode(metadata, policy)
    if not isinstance(predictor, dict):
        return result
    if submitted_mode != Mode.MODEL_MESH:
        _convert_framework(predictor)
        _default_model(metadata, predictor)
    for kind in ("transformer", "explainer", "predictor"):
        if isinstance(spec.get(kind), dict):
            _default_component(kind, spec, policy, submitted_mode)
    for canary in spec.get("canary") or []:
        canary.setdefault("trafficPercent", 0)
    canaries = [canary["predictor"] for canary in spec.get("canary") or [] if canary.get("predictor")]
    for part in canaries:
        _convert_framework(part)
    for part in (predictor, *canaries):
        _spell_out(part)
    _label_local_model(metadata, read(InferenceService, result), caches if policy.local_models else ())
    return result


def _annotations(metadata: Json) -> Json:
    return metadata.get("annotations") or {}


def _default_mode(metadata: Json, policy: Policy) -> None:
    """Former names are rewritten; a missing mode is written down, unless it is Knative, which the absence stands for.
    """
    annotations = _annotations(metadata)
    given = annotations.get(keys.DEPLOYMENT_MODE)
    if given in FORMER_NAMES:
        annotations[keys.DEPLOYMENT_MODE] = FORMER_NAMES[given].value
    elif given is None and policy.default_mode is not Mode.KNATIVE:
        metadata["annotations"] = annotations | {keys.DEPLOYMENT_MODE: policy.default_mode.value}


def _convert_framework(predictor: Json) -> None:
    """A legacy framework block becomes `model`, and takes the place of one that is there: whoever applies the file with the block
    again, changed, finds the model in the stored object that the block became the last time. Several blocks are an error.
    """
    given = [name for name in FRAMEWORKS if isinstance(predictor.get(name), dict)]
    if len(given) != 1:
        return
    block = predictor.pop(given[0])
    if given[0] in V2_WHEN_CONVERTED and not block.get("protocolVersion"):
        block["protocolVersion"] = "v2"
    predictor["model"] = block | {"modelFormat": {"name": given[0]}}


def _default_model(metadata: Json, predictor: Json) -> None:
    model = predictor.get("model")
    if not isinstance(model, dict):
        return
    name = (model.get("modelFormat") or {}).get("name") or ""
    if not model.get("protocolVersion") and name in V2_WHEN_UNSET:
        model["protocolVersion"] = "v2"
    if name and keys.MODEL_FORMAT not in _annotations(metadata):
        metadata["annotations"] = _annotations(metadata) | {keys.MODEL_FORMAT: name}


def _spell_out(predictor: Json) -> None:
    """Writes what KServe's own types always write, so that comparing stored objects shows no difference after a switch.
    """
    for name in (*FRAMEWORKS, "model"):
        if isinstance(predictor.get(name), dict):
            predictor[name] = {"name": "", "resources": {}} | predictor[name]
    if isinstance(predictor.get("model"), dict):
        predictor["model"]["modelFormat"] = {"name": ""} | (predictor["model"].get("modelFormat") or {})
    for field in ("containers", "initContainers"):
        for container in predictor.get(field) or []:
            container.setdefault("resources", {})
            _spell_out_container(container)
    if isinstance(predictor.get("model"), dict):
        _spell_out_container(predictor["model"])
    for metric in (predictor.get("autoScaling") or {}).get("metrics") or []:
        _spell_out_target(metric)


def _spell_out_container(container: Json) -> None:
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(grpc := (container.get(probe) or {}).get("grpc"), dict):
            grpc.setdefault("service", "")
    for variable in container.get("env") or []:
        if isinstance(figure := (variable.get("valueFrom") or {}).get("resourceFieldRef"), dict):
            figure.setdefault("divisor", "0")


def _spell_out_target(metric: Json) -> None:
    """A quantity is stored as text, however it was written."""
    for source in ("resource", "external", "podmetric"):
        target = (metric.get(source) or {}).get("target") or {}
        for field in ("value", "averageValue"):
            if isinstance(target.get(field), int):
                target[field] = str(target[field])


def _default_component(kind: str, spec: Json, policy: Policy, mode: str | None) -> None:
    part = spec[kind]
    if kind != "predictor":
        _spell_out(part)
    if not policy.auto_mount_token and part.get("automountServiceAccountToken") is None:
        part["automountServiceAccountToken"] = False
    if kind == "predictor" and (mode == Mode.MODEL_MESH or _has_block(part)):
        return
    if kind == "explainer" and isinstance(part.get("art"), dict):
        art = part["art"]
        art["name"] = keys.KSERVE_CONTAINER
        if not art.get("runtimeVersion") and policy.art_version:
            art["runtimeVersion"] = policy.art_version
        default_resources(art, policy)
    elif part.get("containers"):
        containers = part["containers"]
        if kind != "predictor" or len(containers) == 1 or not containers[0].get("name"):
            containers[0]["name"] = keys.KSERVE_CONTAINER
        default_resources(containers[0], policy)


def _has_block(predictor: Json) -> bool:
    return any(isinstance(predictor.get(name), dict) for name in (*FRAMEWORKS, "model"))


def default_resources(container: Json, policy: Policy) -> None:
    """Fills in missing figures, so that a request never exceeds its limit: a pod like that would be refused."""
    resources = container.setdefault("resources", {}) or {}
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    for name, value in policy.limits.items():
        if limits.get(name) is None:
            limits[name] = max(value, requests.get(name) or value, key=_amount)
    for name, value in policy.requests.items():
        if requests.get(name) is None:
            requests[name] = min(value, limits.get(name) or value, key=_amount)
    given = {"limits": limits, "requests": requests}
    container["resources"] = resources | {name: figures for name, figures in given.items() if figures}


def _amount(value: Any) -> Any:
    """A quantity's number; a malformed one counts as nothing here and is validation's to refuse."""
    return parse(value) if is_quantity(value) else 0


def _label_local_model(metadata: Json, service: InferenceService, caches: Iterable[CachedModel]) -> None:
    """Names the cached copy that the pods will mount; without one the marks of an earlier one are removed."""
    found = components(service)
    uri = found[0].implementation.storage_uri if found and found[0].implementations else None
    excused = keys.DISABLE_LOCAL_MODEL in service.annotations
    match = None if excused or not uri else matching_cache(caches, uri, service.namespace, service.annotations)
    labels, annotations = dict(metadata.get("labels") or {}), dict(_annotations(metadata))
    for key in LOCAL_MODEL_LABELS:
        labels.pop(key, None)
    for key in LOCAL_MODEL_ANNOTATIONS:
        annotations.pop(key, None)
    if match is not None:
        labels |= match.labels
        annotations |= match.annotations
    _put(metadata, "labels", labels)
    _put(metadata, "annotations", annotations)


def _put(metadata: Json, field: str, value: Json) -> None:
    if value or field in metadata:
        metadata[field] = value
