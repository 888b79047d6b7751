"""Strategic merge and server-side apply, by the rules of the API server."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serveplane.objects.equality import same, says_the_same
from serveplane.objects.fieldset import difference, fields_of, intersection, paths, readable, union
from serveplane.objects.jsonpatch import json_patch, json_patched, merge_patched
from serveplane.objects.schema import builtin, named_type, structural
from serveplane.objects.serverside import OwnershipConflict, applied, compared, merged, updated
from serveplane.objects.strategic import BadPatch, strategic_merged

CONTAINER = named_type("core.v1.Container")
POD = named_type("core.v1.PodSpec")
DEPLOYMENT = builtin("apps/v1", "Deployment")


def env(*names: str) -> dict[str, Any]:
    return {"env": [{"name": name, "value": name.lower()} for name in names]}


def names(container: dict[str, Any]) -> list[str]:
    return [variable["name"] for variable in container["env"]]


@pytest.mark.parametrize(
    ("original", "patch", "order"),
    [("AB", "X", "XAB"), ("AB", "BX", "ABX"), ("ABC", "CA", "BCA"), ("AB", "", "AB"), ("", "XY", "XY"), ("ABCD", "XCY", "XABCYD")],
)
def test_order_of_merged_lists(original: str, patch: str, order: str) -> None:
    assert "".join(names(strategic_merged(env(*original), env(*patch), CONTAINER))) == order


def test_lists_without_merge_key_are_replaced() -> None:
    assert strategic_merged({"args": ["a"], "command": ["x"]}, {"args": ["b"]}, CONTAINER) == {"args": ["b"], "command": ["x"]}


def test_members_are_merged_field_by_field() -> None:
    original = {"containers": [{"name": "a", "image": "old", "ports": [{"containerPort": 1}]}]}
    patch = {"containers": [{"name": "a", "image": "new", "ports": [{"containerPort": 2}]}]}
    ports = strategic_merged(original, patch, POD)["containers"][0]["ports"]
    assert sorted(port["containerPort"] for port in ports) == [1, 2]


@pytest.mark.parametrize(
    ("patch", "left"),
    [
        ({"containers": [{"name": "a", "$patch": "delete"}]}, ["b"]),
        ({"containers": [{"$patch": "replace"}, {"name": "c"}]}, ["c"]),
        ({"containers": None}, []),
        ({"$patch": "replace", "containers": [{"name": "z"}]}, ["z"]),
        ({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b", "image": "x"}]}, ["b", "a"]),
    ],
)
def test_directives(patch: dict[str, Any], left: list[str]) -> None:
    out = strategic_merged({"containers": [{"name": "a"}, {"name": "b"}]}, patch, POD)
    assert [container["name"] for container in out.get("containers", [])] == left


def test_retain_keys_drops_the_other_union_member() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
    patch = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    assert strategic_merged({"strategy": strategy}, patch, named_type("apps.v1.DeploymentSpec")) == {"strategy": {"type": "Recreate"}}


def test_deleting_from_a_list_of_plain_values() -> None:
    metadata = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert DEPLOYMENT is not None
    assert strategic_merged(metadata, patch, DEPLOYMENT) == {"metadata": {"finalizers": ["b"]}}


# --- server-side apply ------------------------------------------------------------------------------------------------


def test_field_sets_are_written_as_the_api_server_writes_them() -> None:
    config = {"labels": {"app": "x"}, "finalizers": ["f"]}
    assert fields_of(config, named_type("meta.v1.ObjectMeta")) == {"f:labels": {"f:app": {}}, "f:finalizers": {'v:"f"': {}}}
    spec = {"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 80}]}]}
    assert fields_of(spec, POD) == {"f:containers": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:image": {}, "f:ports": {
        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}}}}  # fmt: skip


def test_what_a_manager_no_longer_names_goes() -> None:
    live, owners = applied({}, {"containers": [{"name": "a", **env("A", "B")}]}, {}, "us", POD, force=True)
    live, owners = applied(live, {"containers": [{"name": "a", **env("B")}]}, owners, "us", POD, force=True)
    assert names(live["containers"][0]) == ["B"]
    live, owners = applied(live, {"nodeName": "n"}, owners, "us", POD, force=True)
    assert live == {"nodeName": "n"}
    assert owners == {"us": {"f:nodeName": {}}}


def test_what_somebody_else_owns_too_stays() -> None:
    config = {"containers": [{"name": "a", "image": "x"}]}
    live, owners = applied({}, config, {}, "us", POD, force=True)
    live, owners = applied(live, config, owners, "them", POD, force=False)
    live, owners = applied(live, {"nodeName": "n"}, owners, "us", POD, force=True)
    assert live == {**config, "nodeName": "n"}


def test_unowned_parts_of_a_kept_member_stay() -> None:
    live, owners = applied({}, {"containers": [{"name": "a", "image": "x", "tty": True}]}, {}, "us", POD, force=True)
    live["containers"][0]["imagePullPolicy"] = "Always"
    live, owners = applied(live, {"containers": [{"name": "a", "image": "x"}]}, owners, "us", POD, force=True)
    assert live == {"containers": [{"name": "a", "image": "x", "imagePullPolicy": "Always"}]}


def test_a_conflict_names_owner_and_field_and_force_takes_over() -> None:
    live, owners = applied({}, {"nodeName": "a"}, {}, "them", POD, force=False)
    with pytest.raises(OwnershipConflict) as trouble:
        applied(live, {"nodeName": "b"}, owners, "us", POD, force=False)
    assert trouble.value.conflicts == {"them": [".nodeName"]}
    assert applied(live, {"nodeName": "b"}, owners, "us", POD, force=True) == ({"nodeName": "b"}, {"us": {"f:nodeName": {}}})


def test_same_value_is_shared_without_conflict() -> None:
    live, owners = applied({}, {"nodeName": "a"}, {}, "them", POD, force=False)
    _, owners = applied(live, {"nodeName": "a"}, owners, "us", POD, force=False)
    assert set(owners) == {"us", "them"}


def test_an_update_owns_what_it_changed_with_the_way_to_it() -> None:
    owners = updated({}, {"labels": {"app": "x"}}, {}, "us", named_type("meta.v1.ObjectMeta"))
    assert owners == {"us": {"f:labels": {".": {}, "f:app": {}}}}


def test_an_update_takes_what_it_changes_from_the_applier() -> None:
    live, owners = applied({}, {"nodeName": "a", "hostname": "h"}, {}, "us", POD, force=True)
    assert updated(live, {"nodeName": "b"}, owners, "them", POD) == {"them": {"f:nodeName": {}}}


@pytest.mark.parametrize(
    ("live", "config", "order"),
    [("ABC", "CA", "BCA"), ("AB", "X", "ABX"), ("AB", "XA", "XAB"), ("ABCD", "DB", "ACDB"), ("", "AB", "AB")],
)
def test_order_of_applied_lists(live: str, config: str, order: str) -> None:
    """As kube-apiserver 1.34 stores them."""
    assert "".join(names(merged(env(*live), env(*config), CONTAINER))) == order


def test_unknown_fields_of_a_custom_resource_are_owned_one_by_one() -> None:
    shape = structural({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}})
    assert fields_of({"spec": {"a": {"b": [1]}}}, shape) == {"f:spec": {"f:a": {".": {}, "f:b": {}}}}


# --- laws ---------------------------------------------------------------------------------------------------------------

trees = st.recursive(
    st.integers(0, 3), lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3), max_leaves=8
).filter(lambda value: isinstance(value, dict))


@given(trees, trees)
def test_sets_obey_the_laws_of_sets(one: dict[str, Any], other: dict[str, Any]) -> None:
    shape = structural({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    a, b = fields_of(one, shape), fields_of(other, shape)
    left, right = set(paths(a)), set(paths(b))
    assert set(paths(union(a, b))) == left | right
    assert set(paths(difference(a, b))) == left - right
    assert set(paths(intersection(a, b))) == left & right


@given(trees, trees)
def test_patches_lead_from_one_document_to_the_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert json_patched(one, json_patch(one, other)) == other


@given(trees, trees)
def test_a_comparison_is_empty_only_for_equal_values(one: dict[str, Any], other: dict[str, Any]) -> None:
    shape = structural({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    assert bool(compared(one, other, shape)) == (one != other)


def test_merge_patch_example_of_the_rfc() -> None:
    assert merge_patched({"a": "b", "c": {"d": "e", "f": "g"}}, {"a": "z", "c": {"f": None}}) == {"a": "z", "c": {"d": "e"}}


# --- equality -----------------------------------------------------------------------------------------------------------


def test_equal_by_meaning() -> None:
    assert same({"resources": {"limits": {"cpu": "0.5"}}, "env": []}, {"resources": {"limits": {"cpu": "500m"}}}, CONTAINER)
    assert not same({"args": ["a", "b"]}, {"args": ["b", "a"]}, CONTAINER)
    assert not same({"tty": True}, {"tty": 1}, CONTAINER)


def test_live_may_say_more_but_not_otherwise() -> None:
    live = {"containers": [{"name": "s"}, {"name": "a", "image": "x", "imagePullPolicy": "Always", **env("A", "B")}]}
    assert says_the_same({"containers": [{"name": "a", "image": "x", **env("A", "B")}]}, live, POD)
    assert not says_the_same({"containers": [{"name": "a", **env("B", "A")}]}, live, POD)
    assert not says_the_same({"containers": [{"name": "a", "image": "y"}]}, live, POD)


def test_paths_are_told_as_in_conflicts() -> None:
    fields = {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:name": {}}}}}
    assert [readable(path) for path in paths(fields)] == ['.spec.ports[port=80,protocol="TCP"].name']


def test_what_has_one_owner_must_not_say_more() -> None:
    """Field sets do not tell of the inside of an atomic list or map, so a field removed there shows in the values alone."""
    full = {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]}
    assert says_the_same(full, full, POD)
    assert not says_the_same({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, full, POD)
    path = {"fieldPath": "metadata.name"}
    assert says_the_same(_field_ref(path), _field_ref({"apiVersion": "v1", **path}), POD)


def _field_ref(reference: dict[str, str]) -> dict[str, object]:
    return {"containers": [{"name": "a", "env": [{"name": "N", "valueFrom": {"fieldRef": reference}}]}]}


@pytest.mark.parametrize("patch", [
    {"containers": [{"name": {}}]}, {"containers": [{"name": ["a"], "$patch": "delete"}]}, {"containers": [None]},
    {"containers": ["x", {}]}, {"$setElementOrder/containers": [[1]]}, {"$setElementOrder/containers": [{"name": {}}]}])
def test_lists_that_cannot_be_merged(patch: dict[str, Any]) -> None:
    with pytest.raises(BadPatch):
        strategic_merged({"containers": [{"name": "a"}]}, patch, POD)
