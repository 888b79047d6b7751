"""The cells of a pod: readiness, restarts and the one word that says how it is."""

import datetime
from dataclasses import dataclass
from dataclasses import field as attribute

from serveplane.embedded.apiserver.durations import since
from serveplane.embedded.apiserver.printing.column import NONE, field
from serveplane.objects import Json

CONDITIONS = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


@dataclass
class Restarts:
    count: int = 0
    latest: str = ""

    def add(self, container: Json) -> None:
        self.count += container.get("restartCount", 0)
        self.latest = max(self.latest, field(container, "lastState.terminated.finishedAt") or "")


@dataclass
class Shown:
    """What one look at a pod's status gives."""

    reason: str
    ready: int = 0
    restarts: Restarts = attribute(default_factory=Restarts)


def shown(value: Json) -> Shown:
    status, spec = value.get("status") or {}, value.get("spec") or {}
    found = Shown(status.get("reason") or status.get("phase") or "")
    sidecars = Restarts()
    starting = _start(status, spec, found, sidecars)
    if not starting or _is_true(status, "Initialized"):
        found.restarts = sidecars
        _containers(status, found)
    if value["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            found.reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            found.reason = "Terminating"
    return found


def _start(status: Json, spec: Json, found: Shown, sidecars: Restarts) -> bool:
    """The init containers, up to the one that the start waits for; whether there is one."""
    for index, one in enumerate(status.get("initContainerStatuses") or ()):
        state = one.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        sidecar = _is_sidecar(spec, one.get("name"))
        found.restarts.add(one)
        if sidecar:
            sidecars.add(one)
        if ended and not ended.get("exitCode"):
            continue
        if sidecar and one.get("started"):
            found.ready += bool(one.get("ready"))
            continue
        if ended:
            found.reason = f"Init:{ended.get('reason') or _ended(ended)}"
        elif waiting.get("reason") and waiting["reason"] != "PodInitializing":
            found.reason = f"Init:{waiting['reason']}"
        else:
            found.reason = f"Init:{index}/{len(spec.get('initContainers') or [])}"
        return True
    return False


def _containers(status: Json, found: Shown) -> None:
    running = False
    for one in reversed(status.get("containerStatuses") or []):
        state = one.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        found.restarts.add(one)
        if waiting.get("reason"):
            found.reason = waiting["reason"]
        elif ended is not None:
            found.reason = ended.get("reason") or _ended(ended)
        elif one.get("ready") and state.get("running") is not None:
            running = True
            found.ready += 1
    if found.reason == "Completed" and running:
        found.reason = "Running" if _is_true(status, "Ready") else "NotReady"


def _is_sidecar(spec: Json, name: str | None) -> bool:
    return any(one["name"] == name and one.get("restartPolicy") == "Always" for one in spec.get("initContainers") or ())


def _is_true(status: Json, condition: str) -> bool:
    return any(one["type"] == condition and one["status"] == "True" for one in status.get("conditions") or ())


def _ended(state: Json) -> str:
    return f"Signal:{state['signal']}" if state.get("signal") else f"ExitCode:{state.get('exitCode', 0)}"


def status(value: Json) -> str:
    """The most telling word about a pod: why it waits or failed, else its phase."""
    return shown(value).reason


def ready(value: Json) -> str:
    spec = value.get("spec") or {}
    sidecars = sum(one.get("restartPolicy") == "Always" for one in spec.get("initContainers") or ())
    return f"{shown(value).ready}/{len(spec.get('containers') or ()) + sidecars}"


def restarts(value: Json, now: datetime.datetime) -> str:
    found = shown(value).restarts
    return f"{found.count} ({since(found.latest, now)} ago)" if found.count and found.latest else str(found.count)


def readiness_gates(value: Json) -> str:
    gates = (value.get("spec") or {}).get("readinessGates") or ()
    if not gates:
        return NONE
    status = value.get("status") or {}
    return f"{sum(_is_true(status, gate['conditionType']) for gate in gates)}/{len(gates)}"


def conditions(value: Json) -> list[Json]:
    """What a table says of the row itself: a pod that is over need not be looked at."""
    phase = field(value, "status.phase")
    if phase not in CONDITIONS:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": CONDITIONS[phase]}]
