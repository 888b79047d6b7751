"""The status of an InferenceService, from the judgements on its parts.

`Ready` speaks of serving: it depends on the predictor and on the route, stays true while a newer version is rolled out, and
names the root cause when it is false. `observedGeneration` says which generation is the one that serves.
"""
import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from serveplane.api.inferenceservice.components import ComponentKind
from serveplane.api.mode import Mode
from serveplane.clock import timestamp
from serveplane.objects import Json
from serveplane.objects.conditions import condition
from serveplane.render.runtimes import FailureReason
from serveplane.status.deployments import FALSE, TRUE, UNKNOWN, Judgement

READY, INGRESS_READY, STOPPED, ROLLING_OUT, CANARY_READY = "Ready", "IngressReady", "Stopped", "RollingOut", "CanaryPredictorReady"
NEIGHBOURS_READY, MODEL_DOWNLOADED = "NeighboursReady", "ModelDownloaded"
COMPONENT_READY = {kind: f"{kind.value.capitalize()}Ready" for kind in ComponentKind}
TERMINAL = (COMPONENT_READY[ComponentKind.PREDICTOR], INGRESS_READY)
"""What `Ready` depends on; the others are told with severity Info."""


UNDER_WAY = frozenset(("MinimumReplicasUnavailable", "ParentStatusNotAvailable", *(
    f"{kind.value.capitalize()} {words}" for kind in ComponentKind for words in ("Deployment NotReady", "HTTPRoute NotCreated")),
    "InferenceService HTTPRoute NotCreated"))
"""Reasons that only say that something is still on its way."""
MISSING_RUNTIME = frozenset((FailureReason.NO_SUPPORTING_RUNTIME.value, FailureReason.RUNTIME_NOT_RECOGNIZED.value))
STEP_SECONDS, RETOLD_SECONDS = 1.0, 10.0


@dataclass(frozen=True)
class Told:
    """A condition without its time."""
    type: str
    status: str
    reason: str = ""
    message: str = ""

    @property
    def fields(self) -> Json:
        parts: Json = {"type": self.type, "status": self.status, "reason": self.reason, "message": self.message}
        if self.type not in (*TERMINAL, READY):
            parts["severity"] = "Info"
        return {key: value for key, value in parts.items() if value}


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that goes into one status."""
    mode: Mode
    generation: int
    conditions: Sequence[Told]
    model_status: Json
    runtime: tuple[str, str] | None = None
    """Scope and name."""
    url: str = ""
    address: str = ""
    component_urls: Mapping[ComponentKind, str] = field(default_factory=dict)
    canaries: Sequence[Json] = ()
    generation_serves: bool = False


def status_of(report: Report, previous: Json, now: datetime.datetime) -> Json:
    """The whole status; times are kept where nothing changed, so that an equal status is equal."""
    told = [*report.conditions, _ready(report.conditions)]
    status: Json = {"conditions": _stamped(told, previous.get("conditions") or [], timestamp(now)),
                    "deploymentMode": report.mode.value, "modelStatus": report.model_status}
    if report.runtime:
        status["servingRuntimeName" if report.runtime[0] == "ServingRuntime" else "clusterServingRuntimeName"] = report.runtime[1]
    if report.component_urls:
        status["components"] = {kind.value: {"url": url} if url else {} for kind, url in report.component_urls.items()}
    if report.url:
        status["url"] = report.url
    if report.address:
        status["address"] = {"url": report.address}
    if report.canaries:
        status["canaryStatuses"] = list(report.canaries)
    seen = report.generation if report.generation_serves else previous.get("observedGeneration")
    return status if seen is None else {**status, "observedGeneration": seen}


def component_condition(kind: ComponentKind, judgement: Judgement) -> Told:
    return Told(COMPONENT_READY[kind], judgement.status, judgement.reason, judgement.message)


def is_ready(status: Json) -> bool:
    found = condition(status.get("conditions"), READY)
    return found is not None and found.get("status") == TRUE


def may_wait(before: Json, after: Json) -> float:
    """Seconds for which a new status may stay untold because the next one most often makes it old news.

    Readiness won or lost and failures are told at once. Steps on the way wait a second. So does a runtime that is missing: they
    are often installed together with the services. The words on the runtimes there are change with each new one, which waits longest.
    """
    if before == after or is_ready(before) or is_ready(after):
        return 0.0
    old, new = before.get("modelStatus") or {}, after.get("modelStatus") or {}
    missed_before, missed = _missing_runtime(old), _missing_runtime(new)
    if missed:
        return RETOLD_SECONDS if missed == missed_before else 0.0 if old.get("lastFailureInfo") else STEP_SECONDS
    if new.get("transitionStatus") != "InProgress" or not (missed_before or old.get("transitionStatus") in (None, "InProgress")):
        return 0.0
    known = _reasons(before) <= UNDER_WAY | {"", missed_before}
    return STEP_SECONDS if known and _reasons(after) <= UNDER_WAY else 0.0


def _missing_runtime(model: Json) -> str:
    reason = str((model.get("lastFailureInfo") or {}).get("reason") or "")
    return reason if reason in MISSING_RUNTIME else ""


def _reasons(status: Json) -> set[str]:
    return {found.get("reason") or "" for found in status.get("conditions") or [] if found["status"] == FALSE and found["type"] in TERMINAL}


def _ready(conditions: Iterable[Told]) -> Told:
    """The predictor's trouble before the route's: the second often follows from the first."""
    known = {told.type: told for told in conditions}
    terminal = [known.get(kind) or Told(kind, UNKNOWN) for kind in TERMINAL]
    for status in (FALSE, UNKNOWN):
        found = next((told for told in terminal if told.status == status), None)
        if found is not None:
            return Told(READY, status, found.reason, found.message)
    return Told(READY, TRUE)


def _stamped(told: Sequence[Told], before: Sequence[Json], now: str) -> list[Json]:
    """Sorted by type; a time moves when the status does."""
    result = []
    for item in sorted(told, key=lambda item: item.type):
        old = condition(before, item.type)
        time = old.get("lastTransitionTime") if old and old.get("status") == item.status else None
        result.append({**item.fields, "lastTransitionTime": time or now})
    return result
