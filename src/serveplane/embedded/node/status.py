"""A pod's status from the state of its containers. Pure: what a kubelet would write, given the same facts."""
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from serveplane.embedded.node.containers import Status
from serveplane.objects import Json
from serveplane.objects.conditions import condition, is_true, with_condition
from serveplane.objects.qos import quality


@dataclass(frozen=True)
class Facts:
    """All that a pod's status is made of."""
    pod: Json
    init: Mapping[str, Status]
    main: Mapping[str, Status]
    host: str
    address: str
    started: str
    now: str
    failure: tuple[str, str] | None = None   # reason and message of a pod that was ended as a whole


def pod_status(facts: Facts) -> Json:
    spec = facts.pod["spec"]
    initialized = _is_initialized(spec, facts.init)
    phase = _phase(facts)
    status: Json = {
        "phase": phase, "startTime": facts.started, "hostIP": facts.host, "hostIPs": [{"ip": facts.host}],
        "qosClass": quality(spec), "conditions": _conditions(facts, initialized, phase),
        "containerStatuses": _statuses(spec.get("containers") or (), facts.main),
    }
    if facts.address:
        status |= {"podIP": facts.address, "podIPs": [{"ip": facts.address}]}
    if spec.get("initContainers"):
        status["initContainerStatuses"] = _statuses(spec["initContainers"], facts.init)
    if facts.failure:
        status["reason"], status["message"] = facts.failure
    return status


def is_sidecar(container: Json) -> bool:
    """An init container that keeps running beside the others."""
    return container.get("restartPolicy") == "Always"


def _is_initialized(spec: Json, states: Mapping[str, Status]) -> bool:
    return all(states[container["name"]].started if is_sidecar(container)
               else states[container["name"]].exit_code == 0 for container in spec.get("initContainers") or ())


def _phase(facts: Facts) -> str:
    if facts.failure:
        return "Failed"
    policy = facts.pod["spec"].get("restartPolicy", "Always")
    codes = [status.exit_code for status in facts.main.values()]
    ordinary = [facts.init[c["name"]] for c in facts.pod["spec"].get("initContainers") or () if not is_sidecar(c)]
    if policy == "Never" and any(status.exit_code not in (None, 0) for status in ordinary):
        return "Failed"
    if policy != "Always" and None not in codes:
        if all(code == 0 for code in codes):
            return "Succeeded"
        if policy == "Never":
            return "Failed"
    if all("waiting" in status.state and not status.last for status in facts.main.values()):
        return "Pending"
    return "Running"


def _conditions(facts: Facts, initialized: bool, phase: str) -> list[Json]:
    before: list[Json] = (facts.pod.get("status") or {}).get("conditions") or []
    unready = [name for name, status in facts.main.items() if not status.ready]
    over = phase == "Succeeded"
    reason = "PodCompleted" if over else "PodFailed" if phase == "Failed" else "ContainersNotReady"
    told = f"containers with unready status: [{' '.join(unready)}]"
    containers_ready = _condition("ContainersReady", not unready, reason, "" if over else told)
    gates = [gate["conditionType"] for gate in facts.pod["spec"].get("readinessGates") or ()]
    closed = [gate for gate in gates if not is_true(before, gate)]
    ready = containers_ready | {"type": "Ready"}
    if not unready and closed:
        ready = _condition("Ready", False, "ReadinessGatesNotReady",
                           f'the status of pod readiness gate "{closed[0]}" is not "True"')
    incomplete = [name for name, status in facts.init.items() if status.exit_code != 0 and not status.started]
    fresh = [
        _condition("PodReadyToStartContainers", bool(facts.address), "", ""),
        _condition("Initialized", initialized, "ContainersNotInitialized",
                   f"containers with incomplete status: [{' '.join(incomplete)}]"),
        ready, containers_ready,
    ]
    kept = [entry for entry in before if entry.get("type") == "PodScheduled"]
    for entry in fresh:
        previous = condition(before, entry["type"])
        kept = with_condition([*kept, previous] if previous else kept, entry, facts.now)
    return kept


def _condition(kind: str, good: bool, reason: str, message: str) -> Json:
    entry: Json = {"type": kind, "status": "True" if good else "False"}
    if reason == "PodCompleted":
        entry["reason"] = reason
    elif not good and reason:
        entry |= {"reason": reason, "message": message}
    return entry


def _statuses(containers: Sequence[Json], states: Mapping[str, Status]) -> list[Json]:
    return [_container_status(container, states[container["name"]]) for container in containers]


def _container_status(container: Json, status: Status) -> Json:
    return {"name": container["name"], "image": container.get("image", ""), "imageID": "",
            "state": status.state, "lastState": status.last, "restartCount": status.restarts,
            "ready": status.ready, "started": status.started}
