"""Several who apply to one object."""

from typing import Any

from tests.embedded.samples import SELECTOR
from tests.embedded.scenarios.telling import Seen, config_map, config_maps, scenario
from tests.embedded.servers import APPLY, MERGE, Api


@scenario
def appliers(api: Api, space: str) -> Seen:
    """Two appliers and an updater over one object: shared, taken, given up, removed."""
    path = f"{config_maps(space)}/shared"
    one = {"a": "1", "b": "1"}
    return [
        api.call("PATCH", path, config_map("shared", one), APPLY, fieldManager="one"),
        api.call("PATCH", path, config_map("shared", {"b": "1", "c": "1"}), APPLY, fieldManager="two"),
        api.call("PATCH", path, config_map("shared", {"b": "2"}), APPLY, fieldManager="two"),
        api.call("PATCH", path, config_map("shared", {"b": "2"}), APPLY, fieldManager="two", force="true"),
        api.call("PATCH", path, config_map("shared", {"a": "1"}), APPLY, fieldManager="one"),
        api.call("PATCH", path, {"data": {"a": "9", "z": "1"}}, MERGE),
        api.call("PATCH", path, config_map("shared", {"a": "1"}), APPLY, fieldManager="one"),
        api.call("PATCH", path, config_map("shared", {"a": "9"}), APPLY, fieldManager="one"),
        api.call(
            "PATCH",
            path,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}},
            APPLY,
            fieldManager="two",
        ),
        api.call(
            "PATCH",
            path,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared", "managedFields": [{}]}},
            APPLY,
            fieldManager="two",
        ),
        api.call("PATCH", path, {"metadata": {"managedFields": []}}, MERGE),
        api.call("PATCH", path, config_map("shared", {"q": "1"}), APPLY, fieldManager="three"),
    ]



@scenario
def appliers_of_a_deployment(api: Api, space: str) -> Seen:
    path = f"/apis/apps/v1/namespaces/{space}/deployments/d"

    def config(**container: Any) -> dict[str, Any]:
        pod = {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "x:1", **container}]},
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"selector": SELECTOR, "template": pod},
        }

    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    ports = [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}]
    two = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "side", "image": "y"}]}}},
    }
    return [
        api.call("PATCH", path, config(env=env, ports=ports, args=["a"]), APPLY, fieldManager="one"),
        api.call("PATCH", path, config(env=env[1:], ports=ports[:1]), APPLY, fieldManager="one"),
        api.call("PATCH", path, two, APPLY, fieldManager="two"),
        api.call("PATCH", path, config(env=[*reversed(env)]), APPLY, fieldManager="one"),
        api.call("PATCH", path, {**two, "spec": {"replicas": 3}}, APPLY, fieldManager="two"),
        api.call("PATCH", path, config(image="x:2"), APPLY, fieldManager="three"),
        api.call(
            "PATCH",
            path,
            config(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
            APPLY,
            fieldManager="four",
            force="true",
        ).status,
    ]
