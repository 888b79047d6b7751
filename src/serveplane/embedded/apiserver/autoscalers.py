"""Autoscalers between their two versions: in the first, one number for the CPU, and all else in annotations."""

from typing import Any

import msgspec

from serveplane.objects import Json

PREFIX = "autoscaling.alpha.kubernetes.io/"


def older(value: Json) -> Json:
    """The second version as the first has it."""
    spec, status, metadata = dict(value.get("spec") or {}), dict(value.get("status") or {}), dict(value["metadata"])
    annotations = dict(metadata.get("annotations") or {})
    percent, metrics = _split(spec.pop("metrics", None) or [], "target")
    used, current = _split(status.pop("currentMetrics", None) or [], "current")
    behavior, conditions = spec.pop("behavior", None), status.pop("conditions", None)
    kept = {"metrics": metrics, "current-metrics": current, "behavior": behavior, "conditions": conditions}
    annotations.update({PREFIX + name: msgspec.json.encode(item).decode() for name, item in kept.items() if item})
    if percent is not None:
        spec["targetCPUUtilizationPercentage"] = percent
    if used is not None:
        status["currentCPUUtilizationPercentage"] = used
    if annotations:
        metadata["annotations"] = annotations
    status.setdefault("currentReplicas", 0)
    status.setdefault("desiredReplicas", 0)
    return {"kind": value["kind"], "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def _split(metrics: list[Json], side: str) -> tuple[int | None, list[Json]]:
    """The share of the CPU that pods use or should, and all other metrics."""
    for place, metric in enumerate(metrics):
        found = metric.get("resource") or {}
        percent = (found.get(side) or {}).get("averageUtilization")
        if metric.get("type") == "Resource" and found.get("name") == "cpu" and percent is not None:
            return percent, [*metrics[:place], *metrics[place + 1 :]]
    return None, metrics


def newer(value: Json) -> Json:
    """The first version as the second has it; parts of one, too, as configurations are."""
    spec, metadata = dict(value.get("spec") or {}), dict(value.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    told = {name: _read(annotations.pop(PREFIX + name, "")) for name in ("metrics", "current-metrics", "behavior", "conditions")}
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = list(told["metrics"] or [])
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    if metrics:
        spec["metrics"] = metrics
    if told["behavior"]:
        spec["behavior"] = told["behavior"]
    if "annotations" in metadata:
        metadata["annotations"] = annotations
    return {**value, "apiVersion": "autoscaling/v2", "metadata": metadata, "spec": spec, **_newer_status(value, told)}


def _newer_status(value: Json, told: Json) -> Json:
    if "status" not in value:
        return {}
    status = dict(value["status"] or {})
    used, metrics = status.pop("currentCPUUtilizationPercentage", None), list(told["current-metrics"] or [])
    if used is not None:
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": used}}})
    more = {"currentMetrics": metrics or None, "conditions": told["conditions"]}
    return {"status": {**status, **{name: item for name, item in more.items() if item}}}


def _read(text: str) -> Any:
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return None
