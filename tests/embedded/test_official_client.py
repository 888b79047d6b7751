"""The official Python client, unmodified, where it is installed."""

import threading
from typing import Any

import pytest

from tests.embedded.servers import Embedded

kubernetes = pytest.importorskip(
    "kubernetes", reason="the official Python client is not installed (pip install kubernetes)"
)


@pytest.fixture
def core(embedded: Embedded) -> Any:
    return kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(embedded.kubeconfig))


def test_create_read_patch_list_delete(core: Any) -> None:
    body = kubernetes.client.V1ConfigMap(
        metadata=kubernetes.client.V1ObjectMeta(name="official", labels={"by": "official"}), data={"a": "1"}
    )
    assert core.create_namespaced_config_map("default", body).metadata.uid
    assert core.patch_namespaced_config_map("official", "default", {"data": {"b": "2"}}).data == {"a": "1", "b": "2"}
    live = core.read_namespaced_config_map("official", "default")
    live.data = {"c": "3"}
    assert core.replace_namespaced_config_map("official", "default", live).data == {"c": "3"}
    assert [
        one.metadata.name for one in core.list_namespaced_config_map("default", label_selector="by=official").items
    ] == ["official"]
    assert core.delete_namespaced_config_map("official", "default").status == "Success"
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.read_namespaced_config_map("official", "default")
    assert refused.value.status == 404


def test_watch(core: Any) -> None:
    seen: list[tuple[str, str]] = []
    started = core.list_namespaced_secret("default").metadata.resource_version

    def listen() -> None:
        for event in kubernetes.watch.Watch().stream(
            core.list_namespaced_secret, "default", resource_version=started, timeout_seconds=20
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                return

    listener = threading.Thread(target=listen)
    listener.start()
    core.create_namespaced_secret("default", {"metadata": {"name": "watched"}, "stringData": {"a": "b"}})
    core.delete_namespaced_secret("watched", "default")
    listener.join(25)
    assert seen == [("ADDED", "watched"), ("DELETED", "watched")]


def test_dynamic_client_on_a_workload(embedded: Embedded) -> None:
    from kubernetes import dynamic

    client = dynamic.DynamicClient(kubernetes.config.new_client_from_config(embedded.kubeconfig))
    deployments = client.resources.get(api_version="apps/v1", kind="Deployment")
    pod = {"metadata": {"labels": {"app": "dyn"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    value = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "dyn"},
        "spec": {"selector": {"matchLabels": {"app": "dyn"}}, "template": pod},
    }
    assert (
        client.server_side_apply(
            deployments, body=value, name="dyn", namespace="default", field_manager="official"
        ).spec.replicas
        == 1
    )
    deployments.delete(name="dyn", namespace="default")
