"""Is the judge to be trusted? Recorded observations must agree with themselves, and every change to them must be noticed."""
import copy
from typing import Any

import pytest

from tests.conformance.compare import ABSENT, Difference, differences
from tests.conformance.deviations import comparable, is_meant
from tests.conformance.normal import normal_object, normal_pod, normal_status
from tests.conformance.recorded import GOLDEN, PARTS, Case, Observation, cases

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no recorded cases in {GOLDEN} (set SERVEPLANE_GOLDEN)")
CASES = cases()
Json = dict[str, Any]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_recorded_case_agrees_with_itself(case: Case) -> None:
    for step in case.steps:
        again = normalised(step.expected)
        assert differences(step.expected, again) == []
        assert differences(*comparable(step.expected, again)) == []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_lost_field_is_noticed(case: Case) -> None:
    """But for those that the comparison leaves out on purpose, which are few."""
    expected = case.steps[-1].expected
    for part in PARTS:
        for obj in expected.get(part, []):
            for path in leaves(obj)[::7]:
                changed = copy.deepcopy(obj)
                remove(changed, path)
                if path not in (("kind",), ("apiVersion",)) and path[:2] != ("metadata", "name"):
                    assert differences({part: [obj]}, {part: [changed]}), path


def test_differences_name_object_path_and_values() -> None:
    one: Observation = {"children": [{"kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}]}
    other: Observation = {"children": [{"kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 81}]}},
                                       {"kind": "Secret", "metadata": {"name": "b"}}]}
    assert [str(difference) for difference in differences(one, other)] == [
        "children: Secret/b is too many", "children: Service/a: spec.ports[0].port: expected 80, found 81"]
    assert [str(difference) for difference in differences(other, {})] == ["children: Secret/b is missing", "children: Service/a is missing"]


def test_deviations_are_narrow() -> None:
    update = next(case for case in CASES if case.name == "update-autoscaler-class")
    orphan = Difference("children", "HorizontalPodAutoscaler/x (autoscaling/v2)", "", {}, ABSENT)
    assert is_meant(update, orphan)
    assert not is_meant(next(case for case in CASES if case.name == "scale-minmax"), orphan)
    assert not is_meant(update, orphan._replace(where="Deployment/x (apps/v1)"))
    assert not is_meant(update, orphan._replace(found={}, expected=ABSENT))


def service_status(message: str, **conditions: Json) -> Observation:
    status = {"conditions": [{"type": kind, **said} for kind, said in conditions.items()],
              "modelStatus": {"lastFailureInfo": {"reason": "NoSupportingRuntime", "message": message}}}
    return {"status": [{"kind": "InferenceService", "metadata": {"name": "a"}, "status": status}]}


@pytest.mark.parametrize(("said", "is_accepted"), [
    ({"status": "False", "reason": "NoSupportingRuntime", "message": "No runtime: because"}, True),
    ({"status": "False", "reason": "NoSupportingRuntime", "message": "Because"}, False),
    ({"status": "False", "reason": "Other", "message": "No runtime: because"}, False),
    ({"status": "True", "reason": "NoSupportingRuntime", "message": "No runtime: because"}, False),
])
def test_a_failure_may_be_told_better_but_not_otherwise(said: Json, is_accepted: bool) -> None:
    unknown = {"status": "Unknown"}
    recorded = service_status("No runtime", PredictorReady=unknown, Ready=unknown)
    ours = service_status("No runtime: because", PredictorReady=said, Ready=said)
    assert (differences(*comparable(recorded, ours)) == []) is is_accepted


def normalised(observation: Observation) -> Observation:
    again = {part: [normal_object(obj, "status" in obj) for obj in observation.get(part, [])] for part in ("children", "object")}
    again["pods"] = [normal_pod({**pod, "metadata": {**pod["metadata"], "name": pod["metadata"]["name"].removesuffix("-<random>")}})
                     for pod in observation.get("pods", [])]
    again["status"] = [{**obj, "status": normal_status(obj["status"])} for obj in observation.get("status", [])]
    again["gone"] = observation.get("gone", [])
    return again


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [leaf for key, child in inner for leaf in leaves(child, (*path, key))]
    return found or [path]


def remove(value: Any, path: tuple[Any, ...]) -> None:
    for key in path[:-1]:
        value = value[key]
    del value[path[-1]]
