"""Each failure has its own reason and one sentence with the pod, the container and the cause."""

import datetime
from typing import Any

import pytest

from serveplane.status.blockers import first_blocker, probe_deadline

NOW = datetime.datetime(2026, 1, 1, 12, 0, 0, tzinfo=datetime.UTC)
Json = dict[str, Any]


def pod(
    name: str = "iris-predictor-1",
    *,
    containers: list[Json] | None = None,
    init: list[Json] | None = None,
    created: str = "",
    conditions: list[Json] | None = None,
    phase: str = "Pending",
    probe: Json | None = None,
    **status: Any,
) -> Json:
    spec = {"containers": [{"name": "kserve-container", **({"readinessProbe": probe} if probe else {})}]}
    return {
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": spec,
        "status": {
            "phase": phase,
            "containerStatuses": containers or [],
            "initContainerStatuses": init or [],
            "conditions": conditions or [],
            **status,
        },
    }


def waiting(reason: str, message: str = "", **more: Any) -> Json:
    return {
        "name": "kserve-container",
        "image": "acme/x:1",
        "state": {"waiting": {"reason": reason, "message": message}},
        **more,
    }


def ended(code: int, reason: str = "Error", message: str = "", name: str = "kserve-container", **more: Any) -> Json:
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason, "message": message}}, **more}


def looping(code: int, reason: str = "Error", message: str = "", name: str = "kserve-container") -> Json:
    last = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return {"name": name, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": last, "restartCount": 4}


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
RUNNING = {"name": "kserve-container", "ready": False, "state": {"running": {"startedAt": "2026-01-01T11:59:00Z"}}}
PROBE = {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 10, "failureThreshold": 3}


@pytest.mark.parametrize(
    ("seen", "reason", "words"),
    [
        (
            pod(containers=[waiting("ImagePullBackOff", "not found")]),
            "ImagePullFailed",
            ["iris-predictor-1", "kserve-container", "acme/x:1", "not found"],
        ),
        (pod(containers=[waiting("ErrImagePull", "denied")]), "ImagePullFailed", ["denied"]),
        (
            pod(containers=[waiting("CreateContainerConfigError", 'secret "s" not found')]),
            "ContainerNotCreated",
            ['secret "s" not found'],
        ),
        (
            pod(conditions=[{**UNSCHEDULABLE, "message": "0/3 nodes are available: 3 Insufficient cpu."}]),
            "Unschedulable",
            ["0/3 nodes are available"],
        ),
        (
            pod(conditions=[{**UNSCHEDULABLE, "message": 'persistentvolumeclaim "models" not found'}]),
            "VolumeClaimPending",
            ['"models" not found'],
        ),
        (
            pod(conditions=[{**UNSCHEDULABLE, "message": "pod has unbound immediate PersistentVolumeClaims"}]),
            "VolumeClaimPending",
            ["unbound"],
        ),
        (
            pod(init=[ended(1, message="403 from bucket", name="storage-initializer")]),
            "ModelDownloadFailed",
            ["exit code 1", "403 from bucket"],
        ),
        (
            pod(init=[looping(1, message="no such key", name="storage-initializer")]),
            "ModelDownloadFailed",
            ["no such key", "4 restarts"],
        ),
        (pod(containers=[ended(137, "OOMKilled")]), "OutOfMemory", ["137", "memory"]),
        (pod(init=[ended(137, "OOMKilled", name="storage-initializer")]), "OutOfMemory", ["storage-initializer"]),
        (
            pod(containers=[looping(3, message="ValueError: bad model")]),
            "CrashLoop",
            ["exit code 3", "ValueError: bad model"],
        ),
        (pod(containers=[RUNNING], probe=PROBE, phase="Running"), "ProbeFailing", ["HTTP GET /ready on port 8080"]),
        (
            pod(phase="Failed", reason="Evicted", message="The node was low on resource: memory."),
            "PodFailed",
            ["low on resource"],
        ),
    ],
)
def test_reasons(seen: Json, reason: str, words: list[str]) -> None:
    found = first_blocker([seen], NOW)
    assert found is not None
    assert found.reason == reason
    assert all(word in found.message for word in words), found.message
    assert "\n" not in found.message


@pytest.mark.parametrize(
    "seen",
    [
        pod(),
        pod(containers=[waiting("ContainerCreating")]),
        pod(init=[ended(0, "Completed", name="storage-initializer")]),
        pod(containers=[{**RUNNING, "ready": True}], probe=PROBE),
        pod(containers=[{**RUNNING, "state": {"running": {"startedAt": "2026-01-01T11:59:50Z"}}}], probe=PROBE),
    ],
)
def test_what_is_no_trouble_yet(seen: Json) -> None:
    assert first_blocker([seen], NOW) is None


def test_a_pod_that_leaves_has_no_say() -> None:
    leaving = pod(containers=[looping(1)])
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    assert first_blocker([leaving], NOW) is None


def test_long_last_words_are_cut_at_the_front() -> None:
    found = first_blocker([pod(containers=[looping(1, message="x" * 5000 + "\nthe cause")])], NOW)
    assert found is not None
    assert found.message.endswith("the cause")
    assert len(found.message) < 600


def test_the_probe_is_waited_for_and_no_longer() -> None:
    young = pod(containers=[{**RUNNING, "state": {"running": {"startedAt": "2026-01-01T11:59:50Z"}}}], probe=PROBE)
    assert probe_deadline([young], NOW) == 20.0
    assert probe_deadline([pod(containers=[RUNNING], probe=PROBE)], NOW) is None


def test_statuses_without_their_usual_fields_do_no_harm() -> None:
    odd = {
        "metadata": {"name": "p"},
        "spec": {},
        "status": {"containerStatuses": [{}, {"state": None}], "conditions": None},
    }
    assert first_blocker([odd], NOW) is None
