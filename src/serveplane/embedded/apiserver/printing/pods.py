"""The cells of a pod: readiness, restarts and the one word that says how it is."""

import datetime

from serveplane.embedded.apiserver.durations import since
from serveplane.embedded.apiserver.printing.column import NONE, field
from serveplane.objects import Json


def status(value: Json) -> str:
    """The most telling word about a pod: why it waits or failed, else its phase."""
    status, spec = value.get("status") or {}, value.get("spec") or {}
    reason = status.get("reason") or status.get("phase") or ""
    reason, initializing = _init_reason(status, spec, reason)
    if not initializing:
        reason = _container_reason(status, reason)
    if value["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _init_reason(status: Json, spec: Json, reason: str) -> tuple[str, bool]:
    listed = status.get("initContainerStatuses") or []
    for index, one in enumerate(listed):
        state = one.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        sidecar = _is_sidecar(spec, one.get("name"))
        if (ended and ended.get("exitCode") == 0) or (sidecar and one.get("started")):
            continue
        if ended:
            return f"Init:{ended.get('reason') or _ended(ended)}", True
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}", True
        return f"Init:{index}/{len(spec.get('initContainers') or [])}", True
    return reason, False


def _is_sidecar(spec: Json, name: str | None) -> bool:
    return any(one["name"] == name and one.get("restartPolicy") == "Always" for one in spec.get("initContainers") or ())


def _ended(state: Json) -> str:
    return f"Signal:{state['signal']}" if state.get("signal") else f"ExitCode:{state.get('exitCode', 0)}"


def _container_reason(status: Json, reason: str) -> str:
    running = False
    for one in reversed(status.get("containerStatuses") or []):
        state = one.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended:
            reason = ended.get("reason") or _ended(ended)
        elif one.get("ready") and state.get("running") is not None:
            running = True
    if reason == "Completed" and running:
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
        return "Running" if ready else "NotReady"
    return reason


def ready(value: Json) -> str:
    status, spec = value.get("status") or {}, value.get("spec") or {}
    sidecars = [one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    ready = sum(bool(one.get("ready")) for one in status.get("containerStatuses") or ())
    ready += sum(bool(one.get("ready")) for one in status.get("initContainerStatuses") or () if one["name"] in sidecars)
    return f"{ready}/{len(spec.get('containers') or ()) + len(sidecars)}"


def restarts(value: Json, now: datetime.datetime) -> str:
    listed = (value.get("status") or {}).get("containerStatuses") or []
    total = sum(one.get("restartCount", 0) for one in listed)
    ends = [found for one in listed if (found := field(one, "lastState.terminated.finishedAt"))]
    return f"{total} ({since(max(ends), now)} ago)" if total and ends else str(total)


def readiness_gates(value: Json) -> str:
    gates = (value.get("spec") or {}).get("readinessGates") or ()
    if not gates:
        return NONE
    true = {one["type"] for one in (value.get("status") or {}).get("conditions") or () if one["status"] == "True"}
    return f"{sum(gate['conditionType'] in true for gate in gates)}/{len(gates)}"
