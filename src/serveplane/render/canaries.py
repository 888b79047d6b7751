"""Named canaries: further predictors that get a share of the stable one's traffic."""
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from serveplane.api.inferenceservice.components import PREDICTOR_BLOCKS, ComponentKind, component
from serveplane.api.inferenceservice.types import InferenceService, Predictor
from serveplane.api.model import read
from serveplane.objects import Json
from serveplane.render.facts import Facts
from serveplane.render.runtimes import InvalidSpec
from serveplane.render.workloads import Canary, Workload, assistant_workload, predictor_workload, select_runtime

SCALING_FIELDS = ("maxReplicas", "scaleTarget", "scaleMetric", "scaleMetricType", "autoScaling", "workerSpec")


def canaries(raw: Json, service: InferenceService, facts: Facts) -> Iterator[Canary]:
    """One per entry of `spec.canary`: the stable predictor with the entry's own fields laid over it.

    Where the service has a transformer, each canary gets one of its own: the share of requests that is meant for the canary is then
    transformed like all others, and reaches the canary and nobody else. One that cannot be rendered does not hold up the service.
    """
    stable = raw["spec"]["predictor"]
    for entry in raw["spec"].get("canary") or []:
        try:
            yield _canary(stable, entry, service, facts)
        except InvalidSpec as failure:
            yield Canary(entry["predictor"].get("name") or "", int(entry.get("trafficPercent") or 0), (), failure)


def _canary(stable: Json, entry: Json, service: InferenceService, facts: Facts) -> Canary:
    predictor = read(Predictor, overlaid(stable, entry["predictor"]))
    percent = int(entry.get("trafficPercent") or 0)
    count = replicas(entry["predictor"].get("minReplicas"), stable.get("minReplicas"), percent)
    predictor = msgspec.structs.replace(predictor, min_replicas=count, max_replicas=0)
    part = component(ComponentKind.PREDICTOR, predictor)
    workload, extra = predictor_workload(service, part, select_runtime(part, facts), facts)
    return Canary(predictor.name, percent, (workload, *_transformers(service, workload, extra, facts)))


def _transformers(service: InferenceService, predictor: Workload, extra: Mapping[str, str], facts: Facts) -> tuple[Workload, ...]:
    if service.spec.transformer is None:
        return ()
    spec = msgspec.structs.replace(service.spec.transformer, min_replicas=predictor.spec.min_replicas, max_replicas=0)
    part = component(ComponentKind.TRANSFORMER, spec)
    variant = getattr(predictor.spec, "name", "")
    return (assistant_workload(service, part, {**service.labels, **extra}, predictor.name, facts, variant),)


def overlaid(stable: Json, canary: Json) -> Json:
    """The canary's fields over the stable ones. Another format needs another runtime, so a runtime is inherited only with its format."""
    base = {key: value for key, value in stable.items() if key not in SCALING_FIELDS}
    if any(canary.get(block) for block in PREDICTOR_BLOCKS) or canary.get("containers"):
        base = {key: value for key, value in base.items() if key not in PREDICTOR_BLOCKS or canary.get(key)}
    if _format(canary) and _format(canary) != _format(stable):
        base["model"] = {key: value for key, value in base.get("model", {}).items() if key not in ("runtime", "protocolVersion")}
    merged: Json = _deep(base, canary)
    return merged


def replicas(own: int | None, stable: int | None, percent: int) -> int:
    """As many as the canary says, else its share of the stable ones, rounded up.

    >>> replicas(None, 3, 10), replicas(2, 3, 5), replicas(None, None, 20)
    (1, 2, 1)
    """
    return own if own else math.ceil((1 if stable is None else stable) * percent / 100)


def reduced_minimum(stable: int | None, ready: int) -> int | None:
    """The stable predictor gives up the replicas that ready canaries have taken over, down to one."""
    return stable if stable is None or not ready else max(1, stable - ready)


def _format(predictor: Json) -> Mapping[str, Any]:
    found: Json = (predictor.get("model") or {}).get("modelFormat") or {}
    return found


def _deep(base: Any, over: Any) -> Any:
    """Objects are merged, everything else is replaced; what is empty replaces nothing."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return base if over in (None, "", [], {}) else over
    merged = dict(base)
    for key, value in over.items():
        if value not in (None, "", [], {}):
            merged[key] = _deep(base.get(key), value)
    return merged
