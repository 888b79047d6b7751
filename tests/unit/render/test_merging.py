"""Runtime and model become one container: the order of lists is what keeps pods from being replaced."""

from typing import Any

import pytest

from serveplane.render.merging import given, merged_container, merged_pod_spec, tagged_image, without_duplicates


def env(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "value": name.lower()} for name in names]


@pytest.mark.parametrize(
    ("runtime", "own", "order"),
    [
        (("A", "B"), ("X",), ["X", "A", "B"]),
        (("A", "B"), ("B", "X"), ["A", "B", "X"]),
        (("A",), (), ["A"]),
        ((), ("X",), ["X"]),
    ],
)
def test_env_order(runtime: tuple[str, ...], own: tuple[str, ...], order: list[str]) -> None:
    merged = merged_container({"name": "kserve-container", "env": env(*runtime)}, {"env": env(*own)})
    assert [item["name"] for item in merged.get("env", [])] == order


def test_arguments_add_up_and_commands_are_replaced() -> None:
    merged = merged_container(
        {"name": "c", "args": ["a"], "command": ["x"]}, {"args": ["b"], "command": ["y"], "name": ""}
    )
    assert (merged["args"], merged["command"], merged["name"]) == (["a", "b"], ["y"], "c")


def test_resources_are_merged_key_by_key() -> None:
    merged = merged_container(
        {"name": "c", "resources": {"limits": {"cpu": "1", "memory": "2Gi"}}}, {"resources": {"limits": {"cpu": "4"}}}
    )
    assert merged["resources"]["limits"] == {"cpu": "4", "memory": "2Gi"}


def test_an_empty_list_far_inside_erases_nothing_and_an_empty_object_is_a_choice() -> None:
    theirs = {"name": "c", "securityContext": {"capabilities": {"drop": ["ALL"]}}}
    merged = merged_container(theirs, {"securityContext": {"capabilities": {"drop": [], "add": ["NET_ADMIN"]}}})
    assert merged["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert given({"volumes": [{"name": "v", "emptyDir": {}}]}) == {"volumes": [{"name": "v", "emptyDir": {}}]}


def test_the_runtimes_half_of_a_resource_gives_way_to_the_users() -> None:
    theirs = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}}
    merged = merged_container(theirs, {"resources": {"requests": {"cpu": "3"}, "limits": {"memory": "512Mi"}}})
    assert merged["resources"] == {"requests": {"cpu": "3", "memory": "512Mi"}, "limits": {"cpu": "3", "memory": "512Mi"}}
    both = merged_container(theirs, {"resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "2"}}})
    assert both["resources"]["requests"]["cpu"] == "3", "what the user contradicts is for the API server to refuse"


def test_a_reference_replaces_a_value_and_a_value_a_reference() -> None:
    secret = {"secretKeyRef": {"name": "s", "key": "k"}}
    merged = merged_container(
        {"name": "c", "env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "valueFrom": secret}]}
    )
    assert merged["env"] == [{"name": "A", "valueFrom": secret}]
    merged = merged_container(
        {"name": "c", "env": [{"name": "A", "valueFrom": secret}]}, {"env": [{"name": "A", "value": "1"}]}
    )
    assert merged["env"] == [{"name": "A", "value": "1"}]


def test_tolerations_replace_and_volumes_merge() -> None:
    merged = merged_pod_spec(
        {"tolerations": [{"key": "a"}], "volumes": [{"name": "v", "emptyDir": {}}], "hostIPC": True},
        {"tolerations": [{"key": "b"}], "volumes": [{"name": "w", "emptyDir": {}}]},
    )
    assert merged["tolerations"] == [{"key": "b"}]
    assert [volume["name"] for volume in merged["volumes"]] == ["w", "v"]
    assert "hostIPC" not in merged


GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}


@pytest.mark.parametrize(
    ("image", "version", "kind", "more", "result"),
    [
        ("a/b:1", "v2", "", {}, "a/b:v2"),
        ("a/b", "v2", "", {}, "a/b:v2"),
        ("a/b@sha256:00", "v2", "", {}, "a/b@sha256:00"),
        ("r:5000/b", "v2", "", {}, "r:5000/b:v2"),
        ("a/b:1", "", "torchserve", GPU, "a/b:1-gpu"),
        ("a/b:1-gpu", "", "torchserve", GPU, "a/b:1-gpu"),
        ("a/b:1", "", "vllmserver", {}, "a/b-cpu:1"),
        ("a/b:1", "", "vllmserver", GPU, "a/b:1"),
        ("a/b-cpu:1", "", "vllmserver", {}, "a/b-cpu:1"),
        ("a/b:1", "", "sklearnserver", GPU, "a/b:1"),
    ],
)
def test_image_tags(image: str, version: str, kind: str, more: dict[str, Any], result: str) -> None:
    assert tagged_image({"image": image, **more}, version, kind) == result


def test_duplicates_are_resolved_and_told() -> None:
    twice = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    spec, told = without_duplicates(
        {"containers": [{"name": "c", "env": twice}], "volumes": [{"name": "v"}, {"name": "v"}]}
    )
    assert [item["value"] for item in spec["containers"][0]["env"]] == ["2", "3"]
    assert len(spec["volumes"]) == 1
    assert len(told) == 2
