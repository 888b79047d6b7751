"""What the official Python client does in its tests; run by the python of an environment that has it: `FILE KUBECONFIG NAME`."""

import sys
import threading

import kubernetes
from kubernetes import dynamic

SPACE = "default"


def records(config: kubernetes.client.ApiClient) -> None:
    """Create, patch, replace, list, delete; and the exception for what is gone."""
    core, meta = kubernetes.client.CoreV1Api(config), kubernetes.client.V1ObjectMeta
    labelled = meta(name="official", labels={"by": "official"})
    made = core.create_namespaced_config_map(
        SPACE, kubernetes.client.V1ConfigMap(metadata=labelled, data={"a": "1"})
    )
    assert made.metadata.uid
    patched = core.patch_namespaced_config_map("official", SPACE, {"data": {"b": "2"}})
    assert patched.data == {"a": "1", "b": "2"}
    live = core.read_namespaced_config_map("official", SPACE)
    live.data = {"c": "3"}
    assert core.replace_namespaced_config_map("official", SPACE, live).data == {"c": "3"}
    assert refused(lambda: core.replace_namespaced_config_map("official", SPACE, live)) == 409
    listed = core.list_namespaced_config_map(SPACE, label_selector="by=official").items
    assert [one.metadata.name for one in listed] == ["official"]
    assert core.delete_namespaced_config_map("official", SPACE).status == "Success"
    assert refused(lambda: core.read_namespaced_config_map("official", SPACE)) == 404


def pages(config: kubernetes.client.ApiClient) -> None:
    """A list in pages is the list."""
    core = kubernetes.client.CoreV1Api(config)
    for number in range(25):
        core.create_namespaced_secret(SPACE, {"metadata": {"name": f"page-{number:02}", "labels": {"paged": "yes"}}})
    names, token = [], None
    while token != "":
        page = core.list_namespaced_secret(SPACE, label_selector="paged=yes", limit=10, _continue=token)
        names += [one.metadata.name for one in page.items]
        token = page.metadata._continue or ""
    assert names == [f"page-{number:02}" for number in range(25)], names
    core.delete_collection_namespaced_secret(SPACE, label_selector="paged=yes")
    assert core.list_namespaced_secret(SPACE, label_selector="paged=yes").items == []


def watch(config: kubernetes.client.ApiClient) -> None:
    core, seen = kubernetes.client.CoreV1Api(config), []
    started = core.list_namespaced_secret(SPACE).metadata.resource_version

    def listen() -> None:
        events = kubernetes.watch.Watch().stream(
            core.list_namespaced_secret, SPACE, resource_version=started, timeout_seconds=60
        )
        for event in events:
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                return

    listener = threading.Thread(target=listen)
    listener.start()
    core.create_namespaced_secret(SPACE, {"metadata": {"name": "watched"}, "stringData": {"a": "b"}})
    core.patch_namespaced_secret("watched", SPACE, {"metadata": {"labels": {"a": "b"}}})
    core.delete_namespaced_secret("watched", SPACE)
    listener.join(90)
    assert seen == [("ADDED", "watched"), ("MODIFIED", "watched"), ("DELETED", "watched")], seen


def workload(config: kubernetes.client.ApiClient) -> None:
    """The dynamic client: discovery, server-side apply, status, scale."""
    client = dynamic.DynamicClient(config)
    deployments = client.resources.get(api_version="apps/v1", kind="Deployment")
    pod = {"metadata": {"labels": {"app": "dyn"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    value = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "dyn"},
        "spec": {"selector": {"matchLabels": {"app": "dyn"}}, "template": pod},
    }
    applied = client.server_side_apply(
        deployments, body=value, name="dyn", namespace=SPACE, field_manager="official"
    )
    assert applied.spec.replicas == 1
    apps = kubernetes.client.AppsV1Api(config)
    apps.patch_namespaced_deployment_scale("dyn", SPACE, {"spec": {"replicas": 4}})
    assert apps.read_namespaced_deployment("dyn", SPACE).spec.replicas == 4
    deployments.delete(name="dyn", namespace=SPACE)


def custom(config: kubernetes.client.ApiClient) -> None:
    """A definition, its objects, and what its schema refuses."""
    extensions, objects = kubernetes.client.ApiextensionsV1Api(config), kubernetes.client.CustomObjectsApi(config)
    spec = {"type": "object", "properties": {"size": {"type": "integer", "default": 7}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    extensions.create_custom_resource_definition(
        {
            "metadata": {"name": "tools.official.example.com"},
            "spec": {
                "group": "official.example.com",
                "scope": "Namespaced",
                "names": {"plural": "tools", "singular": "tool", "kind": "Tool"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
    )
    place = ("official.example.com", "v1", SPACE, "tools")
    events = kubernetes.watch.Watch().stream(extensions.list_custom_resource_definition, timeout_seconds=60)
    next(event for event in events if _established(event["object"]))
    body = {"apiVersion": "official.example.com/v1", "kind": "Tool", "metadata": {"name": "saw"}, "spec": {}}
    assert objects.create_namespaced_custom_object(*place, body)["spec"] == {"size": 7}
    wrong = {**body, "metadata": {"name": "axe"}, "spec": {"size": "large"}}
    assert refused(lambda: objects.create_namespaced_custom_object(*place, wrong)) == 422
    extensions.delete_custom_resource_definition("tools.official.example.com")


def _established(definition: kubernetes.client.V1CustomResourceDefinition) -> bool:
    conditions = (definition.status and definition.status.conditions) or []
    named = definition.metadata.name == "tools.official.example.com"
    return named and any(one.type == "Established" and one.status == "True" for one in conditions)


def refused(call: object) -> int:
    try:
        call()
    except kubernetes.client.ApiException as error:
        return error.status
    return 0


if __name__ == "__main__":
    globals()[sys.argv[2]](kubernetes.config.new_client_from_config(sys.argv[1]))
