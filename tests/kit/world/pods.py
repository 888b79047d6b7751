"""The status that a kubelet would report for a pod, by outcome. Pure: a pod, a rule and the time go in.

Pods get no address: they are on no node, and the endpoint controllers would try for ever to publish one.
"""
from typing import Any

from tests.kit.world.rules import Outcome, Rule

Json = dict[str, Any]
RESTARTS = 4      # of a container that keeps failing
NO_NODE = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available: 1 No victims found."
NO_VOLUME = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: not eligible."


def pod_status(pod: Json, rule: Rule, now: str) -> Json | None:
    """None if this pod is to be left as it is."""
    match rule.outcome:
        case Outcome.NOTHING | Outcome.REFUSED:
            return None
        case Outcome.UNSCHEDULABLE | Outcome.UNBOUND_CLAIM:
            text = rule.message or (NO_VOLUME if rule.outcome is Outcome.UNBOUND_CLAIM else NO_NODE)
            return {"phase": "Pending", "conditions": [_condition("PodScheduled", False, now, "Unschedulable", text)]}
        case Outcome.INIT_RUNNING | Outcome.INIT_ERROR:
            return _held_by_init_container(pod, rule, now)
        case Outcome.READY | Outcome.FAILED if is_of_job(pod):
            return _ended(pod, rule, now)
        case Outcome.FAILED:
            return _ended(pod, rule, now)
        case _:
            return _started(pod, rule, now)


def is_of_job(pod: Json) -> bool:
    owners = pod["metadata"].get("ownerReferences") or []
    return any(owner["kind"] == "Job" for owner in owners) or "job-name" in (pod["metadata"].get("labels") or {})


def _started(pod: Json, rule: Rule, now: str) -> Json:
    """Init containers are done; the containers run, but for the one that the rule says does not."""
    names = [container["name"] for container in pod["spec"]["containers"]]
    victim = rule.container if rule.container in names else names[0]
    healthy = rule.outcome is Outcome.READY
    states = [_running(container, now) if healthy or container["name"] != victim else _failing(container, rule, now)
              for container in pod["spec"]["containers"]]
    waits = rule.outcome in (Outcome.IMAGE_PULL, Outcome.CONFIG_ERROR)
    unready = "" if healthy else f"containers with unready status: [{victim}]"
    return {
        "phase": "Pending" if waits else "Running", "startTime": now,
        "conditions": _conditions(now, unready=unready), "containerStatuses": states,
        **_init_statuses([_initialised(container, now) for container in pod["spec"].get("initContainers") or []]),
    }


def _ended(pod: Json, rule: Rule, now: str) -> Json:
    failed = rule.outcome is Outcome.FAILED
    end = _termination(rule, now) if failed else _completion(now)
    states = [_status(container, False, {"terminated": end}) for container in pod["spec"]["containers"]]
    reason = "PodFailed" if failed else "PodCompleted"
    conditions = [_condition("Initialized", True, now), _condition("PodScheduled", True, now),
                  _condition("Ready", False, now, reason), _condition("ContainersReady", False, now, reason)]
    return {"phase": "Failed" if failed else "Succeeded", "startTime": now, "conditions": conditions,
            "containerStatuses": states,
            **_init_statuses([_initialised(container, now) for container in pod["spec"].get("initContainers") or []])}


def _held_by_init_container(pod: Json, rule: Rule, now: str) -> Json:
    """One init container does not end; those before it have, those after it and all containers wait."""
    inits = pod["spec"].get("initContainers") or []
    if not inits:
        return _started(pod, Rule(Outcome.READY), now)
    names = [container["name"] for container in inits]
    at = names.index(rule.container) if rule.container in names else 0
    held = _running(inits[at], now, ready=False) if rule.outcome is Outcome.INIT_RUNNING else _failing(inits[at], rule, now)
    waiting = {"waiting": {"reason": "PodInitializing"}}
    states = [*(_initialised(container, now) for container in inits[:at]), held, *(_status(c, False, waiting) for c in inits[at + 1:])]
    conditions = [_condition("PodScheduled", True, now),
                  _condition("Initialized", False, now, "ContainersNotInitialized", f"containers with incomplete status: [{names[at]}]"),
                  _condition("Ready", False, now, "ContainersNotReady"), _condition("ContainersReady", False, now, "ContainersNotReady")]
    return {"phase": "Pending", "startTime": now, "conditions": conditions, "initContainerStatuses": states,
            "containerStatuses": [_status(container, False, waiting) for container in pod["spec"]["containers"]]}


def _failing(container: Json, rule: Rule, now: str) -> Json:
    match rule.outcome:
        case Outcome.IMAGE_PULL:
            text = rule.message or f'Back-off pulling image "{container.get("image", "")}": ErrImagePull: not found'
            return _status(container, False, {"waiting": {"reason": "ImagePullBackOff", "message": text}})
        case Outcome.CONFIG_ERROR:
            text = rule.message or 'secret "missing" not found'
            return _status(container, False, {"waiting": {"reason": "CreateContainerConfigError", "message": text}})
        case Outcome.PROBE_FAILING:
            return _running(container, now, ready=False)
        case _:
            back_off = f"back-off 1m20s restarting failed container={container['name']}"
            return _status(container, False, {"waiting": {"reason": "CrashLoopBackOff", "message": back_off}},
                           {"terminated": _termination(rule, now)})


def _termination(rule: Rule, now: str) -> Json:
    killed = rule.outcome is Outcome.OUT_OF_MEMORY
    code, reason = (137, "OOMKilled") if killed else (rule.exit_code, "Error")
    message = {"message": rule.message} if rule.message else {}
    return {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now, **message}


def _completion(now: str) -> Json:
    return {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}


def _initialised(container: Json, now: str) -> Json:
    if container.get("restartPolicy") == "Always":      # a sidecar: it has started and goes on running
        return _running(container, now)
    return _status(container, True, {"terminated": _completion(now)})


def _running(container: Json, now: str, ready: bool = True) -> Json:
    return _status(container, ready, {"running": {"startedAt": now}}) | {"started": True}


def _status(container: Json, ready: bool, state: Json, last: Json | None = None) -> Json:
    return {"name": container["name"], "image": container.get("image", ""), "imageID": "", "ready": ready, "started": False,
            "restartCount": RESTARTS if last else 0, "state": state, **({"lastState": last} if last else {})}


def _init_statuses(statuses: list[Json]) -> Json:
    return {"initContainerStatuses": statuses} if statuses else {}


def _conditions(now: str, unready: str) -> list[Json]:
    ready = not unready
    reason = "" if ready else "ContainersNotReady"
    return [_condition("Initialized", True, now), _condition("PodScheduled", True, now),
            _condition("Ready", ready, now, reason, unready), _condition("ContainersReady", ready, now, reason, unready)]


def _condition(kind: str, true: bool, now: str, reason: str = "", message: str = "") -> Json:
    told = {key: text for key, text in (("reason", reason), ("message", message)) if text}
    return {"type": kind, "status": "True" if true else "False", "lastTransitionTime": now, "lastProbeTime": None, **told}
