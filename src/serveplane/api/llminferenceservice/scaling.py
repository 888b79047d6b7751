"""Checks of the scaling of LLM workloads. The CRD says the simpler ones too; minimal definitions say none."""

import re
from collections.abc import Iterator

from serveplane.api.llminferenceservice.types import Keda, Scaling, Workload
from serveplane.api.problem import FieldError, FieldPath

COST = re.compile(r"\d+(\.\d+)?")


def problems(workload: Workload, at: FieldPath) -> Iterator[FieldError]:
    scaling = workload.scaling
    if scaling is None:
        return
    here = at / "scaling"
    if workload.replicas is not None:
        yield FieldError(here, "replicas and scaling exclude each other: scaling has minReplicas and maxReplicas")
    least = 1 if scaling.min_replicas is None else scaling.min_replicas
    if least > scaling.max_replicas:
        yield FieldError(here / "minReplicas", f"must not exceed maxReplicas ({scaling.max_replicas})")
    if (scaling.wva is None) == (scaling.keda is None):
        yield FieldError(here, "needs exactly one of wva and keda")
    if scaling.keda is not None:
        if not scaling.keda.triggers:
            yield FieldError(here / "keda" / "triggers", "needs at least one trigger")
        yield from _keda_problems(scaling.keda, scaling, here / "keda")
    yield from _wva_problems(scaling, here / "wva")


def _wva_problems(scaling: Scaling, at: FieldPath) -> Iterator[FieldError]:
    wva = scaling.wva
    if wva is None:
        return
    if (wva.hpa is None) == (wva.keda is None):
        yield FieldError(at, "needs exactly one of hpa and keda")
    if not COST.fullmatch(wva.variant_cost):
        yield FieldError(at / "variantCost", f"must be a number such as 10.0, not {wva.variant_cost!r}")
    if wva.keda is not None:
        yield from _keda_problems(wva.keda, scaling, at / "keda")
        if any(((wva.keda.advanced or {}).get("scalingModifiers") or {}).values()):
            yield FieldError(at / "keda" / "advanced" / "scalingModifiers", "must be empty: wva decides by itself")


def _keda_problems(keda: Keda, scaling: Scaling, at: FieldPath) -> Iterator[FieldError]:
    hpa = (keda.advanced or {}).get("horizontalPodAutoscalerConfig") or {}
    if hpa.get("name"):
        yield FieldError(at / "advanced" / "horizontalPodAutoscalerConfig" / "name", "must not be set: we name the HPA")
    idle = keda.idle_replica_count
    if idle is not None and scaling.min_replicas is None:
        yield FieldError(at / "idleReplicaCount", "needs minReplicas, to be below it")
    elif idle is not None and scaling.min_replicas is not None and idle >= scaling.min_replicas:
        yield FieldError(at / "idleReplicaCount", f"must be below minReplicas ({scaling.min_replicas}), not {idle}")


def pair_problems(decode: Scaling | None, prefill: Scaling | None, at: FieldPath) -> Iterator[FieldError]:
    """Decode and prefill must be scaled by the same means, or they drift apart."""
    if decode is None or prefill is None:
        return
    if (decode.keda is None) != (prefill.keda is None):
        yield FieldError(at, "decode and prefill must both use keda or both use wva")
    elif decode.wva is not None and prefill.wva is not None and (decode.wva.hpa is None) != (prefill.wva.hpa is None):
        yield FieldError(at / "wva", "decode and prefill must both use hpa or both use keda")
