import datetime
from typing import Any

import pytest

from serveplane.status.deployments import judged
from serveplane.status.models import model_status

NOW = datetime.datetime(2026, 1, 1, 12, 0, 0, tzinfo=datetime.UTC)
Json = dict[str, Any]
AVAILABLE = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}
DONE = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "done"}


def deployment(
    *conditions: Json, generation: int = 1, observed: int = 1, replicas: int = 1, updated: int = 1, total: int = 1
) -> Json:
    return {
        "metadata": {"name": "iris-predictor", "generation": generation},
        "spec": {"replicas": replicas},
        "status": {
            "observedGeneration": observed,
            "replicas": total,
            "updatedReplicas": updated,
            "conditions": list(conditions),
        },
    }


def test_one_that_is_done_serves() -> None:
    verdict = judged([deployment(AVAILABLE, DONE)], [], NOW)
    assert (verdict.status, verdict.reason, verdict.rolling) == ("True", "NewReplicaSetAvailable", "")


@pytest.mark.parametrize(
    "seen",
    [None, deployment(), deployment({"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"})],
)
def test_one_that_is_not_available_does_not(seen: Json | None) -> None:
    assert judged([seen], [], NOW).status == "False"


def test_a_roll_keeps_serving_and_is_told() -> None:
    verdict = judged([deployment(AVAILABLE, generation=2, observed=1)], [], NOW)
    assert verdict.serves
    assert "about to be rolled out" in verdict.rolling
    assert "1 of 3 replicas" in judged([deployment(AVAILABLE, replicas=3, updated=1, total=4)], [], NOW).rolling


def test_quota_speaks_with_the_servers_words() -> None:
    refused = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": 'pods "x" is forbidden: exceeded quota: small',
    }
    verdict = judged([deployment(refused)], [], NOW)
    assert (verdict.reason, "exceeded quota: small" in verdict.message) == ("QuotaExceeded", True)


def test_a_deadline_that_passed() -> None:
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "has timed out"}
    missing = {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"}
    assert judged([deployment(late, missing)], [], NOW).reason == "ProgressDeadlineExceeded"


def test_a_group_serves_only_as_a_whole() -> None:
    assert not judged([deployment(AVAILABLE, DONE), deployment()], [], NOW).serves
    assert judged([deployment(AVAILABLE, DONE), deployment(AVAILABLE, DONE)], [], NOW).serves


def test_the_same_failure_keeps_its_time() -> None:
    crash = {"name": "kserve-container", "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "bad"}}}
    pod = {"metadata": {"name": "p"}, "spec": {}, "status": {"containerStatuses": [crash]}}
    first = model_status([pod], False, False, {}, NOW)
    later = model_status([pod], False, False, first, NOW + datetime.timedelta(hours=1))
    assert later == first
    assert first["lastFailureInfo"]["reason"] == "ModelLoadFailed"
    assert first["copies"] == {"failedCopies": 1}
    assert "lastFailureInfo" not in model_status([pod], True, False, first, NOW)
