"""The pure parts of the apply engine: differences, ownership, normal form."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serveplane.kube.diff import differences
from serveplane.kube.normal import applicable
from serveplane.kube.ownership import owned_fields, owners_of, owns, planned_fields, same_fields, taken_over
from serveplane.objects.equality import says_the_same
from serveplane.objects.schema import named_type

Json = dict[str, Any]
POD, DEPLOYMENT = named_type("core.v1.PodSpec"), named_type("apps.v1.Deployment")
scalars = st.sampled_from(["1", "1000m", "2", "x", "", 1, 0, True, None])
env = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("ABC"), "value": st.sampled_from("xy")}),
    max_size=3,
    unique_by=lambda e: e["name"],
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("ab")},
        optional={
            "env": env,
            "image": st.sampled_from("ij"),
            "args": st.lists(st.sampled_from("pq"), max_size=2),
            "resources": st.fixed_dictionaries(
                {"limits": st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "1000m", "2"]))}
            ),
        },
    ),
    max_size=2,
    unique_by=lambda c: c["name"],
)
pods = st.fixed_dictionaries(
    {},
    optional={
        "containers": containers,
        "nodeSelector": st.dictionaries(st.sampled_from("kl"), st.sampled_from("mn"), max_size=2),
        "tolerations": st.lists(
            st.fixed_dictionaries({"key": st.sampled_from("gh")}, optional={"effect": st.just("NoSchedule")}),
            max_size=2,
        ),
        "hostNetwork": st.booleans(),
        "priority": st.integers(0, 2),
    },
)


@settings(max_examples=300, deadline=None)
@given(pods, pods)
def test_differences_and_equality_give_the_same_answer(desired: Json, live: Json) -> None:
    assert says_the_same(desired, live, POD) == (not list(differences(desired, live, POD)))


@given(pods)
@settings(max_examples=100, deadline=None)
def test_nothing_differs_from_itself(pod: Json) -> None:
    assert list(differences(pod, pod, POD)) == []


def test_differences_are_readable() -> None:
    desired = {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}
    live = {"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}]}]}
    assert [str(d) for d in differences(desired, live, POD)] == [
        ".containers[name=\"a\"].env[name=\"X\"].value: '2' should be '1'"
    ]


def managed(manager: str, fields: Json, operation: str = "Update", **more: str) -> Json:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def test_taking_over_leaves_status_and_scale() -> None:
    live = {
        "metadata": {
            "managedFields": [
                managed("serveplane", {"f:spec": {"f:replicas": {}}}, "Apply"),
                managed("manager", {"f:spec": {"f:paused": {}}, "f:status": {"f:x": {}}}),
                managed("manager", {"f:status": {"f:replicas": {}}}, subresource="status"),
                managed("hpa", {"f:spec": {"f:replicas": {}}}, subresource="scale"),
            ]
        }
    }
    entries = taken_over(live, "serveplane", frozenset({"manager"}), {})
    assert entries is not None
    assert [(e["manager"], e["operation"], e.get("subresource")) for e in entries] == [
        ("serveplane", "Apply", None),
        ("manager", "Update", "status"),
        ("hpa", "Update", "scale"),
    ]
    assert entries[0]["fieldsV1"] == {"f:spec": {"f:replicas": {}, "f:paused": {}}}
    assert taken_over({"metadata": {"managedFields": entries}}, "serveplane", frozenset({"manager"}), {}) is None


def test_taking_over_leaves_the_servers_defaults_to_nobody() -> None:
    """What KServe sent as an empty map is full of defaults when it is found; owning them, our apply would remove them."""
    filled = {"f:behavior": {"f:scaleUp": {"f:selectPolicy": {}}}, "f:metrics": {}, "f:template": {"f:spec": {"f:dnsPolicy": {}}}}
    planned = {"f:spec": {"f:behavior": {}, "f:metrics": {}, "f:template": {"f:spec": {}}}}
    live = {"metadata": {"managedFields": [managed("manager", {"f:spec": filled})]}}
    entries = taken_over(live, "serveplane", frozenset({"manager"}), planned)
    assert entries is not None
    assert entries[0]["fieldsV1"] == {"f:spec": {**filled, "f:behavior": {}}}


def test_plans_do_not_own_identity() -> None:
    obj = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "n", "labels": {"l": "1"}},
        "spec": {"replicas": 1},
    }
    fields = planned_fields(obj, DEPLOYMENT)
    assert fields == {"f:metadata": {"f:labels": {"f:l": {}}}, "f:spec": {"f:replicas": {}}}
    assert owns(fields, "spec", "replicas")
    assert not owns(fields, "spec", "paused")
    live = {
        "metadata": {
            "managedFields": [
                managed("serveplane", fields, "Apply"),
                managed("kubectl", {"f:spec": {"f:replicas": {}}}),
            ]
        }
    }
    assert same_fields(owned_fields(live, "serveplane"), fields)
    assert dict(owners_of(live, fields, "serveplane")) == {"kubectl": [".spec.replicas"]}


def test_duplicates_keep_the_first_place_and_the_last_content() -> None:
    warned: list[str] = []
    pod = {
        "containers": [
            {
                "name": "a",
                "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}, {"name": "X", "value": "3"}],
            }
        ]
    }
    result = applicable(pod, POD, warned.append)
    assert result["containers"][0]["env"] == [{"name": "X", "value": "3"}, {"name": "Y", "value": "2"}]
    assert warned == ['.containers[name="a"].env[name="X"] is given twice; the last one is used']
    assert pod["containers"][0]["env"][0]["value"] == "1", "the plan itself is left as it is"


@pytest.mark.parametrize("pod", [{"containers": [{"image": "no name"}, {"image": "either"}]}, {"containers": []}, {}])
def test_what_has_no_keys_is_left_for_the_server_to_judge(pod: Json) -> None:
    assert applicable(pod, POD, lambda text: None) == pod


def test_twins_go_together() -> None:
    assert applicable({"serviceAccountName": "x"}, POD, lambda text: None) == {
        "serviceAccountName": "x",
        "serviceAccount": "x",
    }
