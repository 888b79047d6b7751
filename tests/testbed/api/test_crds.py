"""The definitions on a real API server: established, structural, explained and printed as users expect."""

import subprocess
from pathlib import Path

import pytest

from tests.kit.api import Api, Refused, documents, install
from tests.kit.testbed import Testbed
from tests.kit.waiting import eventually

pytestmark = pytest.mark.testbed
CONFIG = Path(__file__).resolve().parents[3] / "config/crd"
IRIS = {
    "apiVersion": "serving.kserve.io/v1beta1",
    "kind": "InferenceService",
    "metadata": {"name": "iris"},
    "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://models/iris"}}},
}


def kubectl(testbed: Testbed, *words: str) -> str:
    command = [str(testbed.program("kubectl")), "--kubeconfig", str(testbed.kubeconfig), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def files(folder: Path) -> list[Path]:
    return sorted([*folder.glob("serving.kserve.io_*.yaml"), *folder.glob("llmisvc/serving.kserve.io_*.yaml")])


@pytest.mark.parametrize("folder", [CONFIG / "minimal", CONFIG], ids=["minimal", "full"])
async def test_definitions_are_established_and_structural(testbed: Testbed, api: Api, folder: Path) -> None:
    await install(api, [document for file in files(folder) for document in documents(file)])
    stored = await api.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    ours = [crd for crd in stored if crd["spec"]["group"] == "serving.kserve.io"]
    assert len(ours) == len(files(folder))
    for crd in ours:
        states = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
        assert states.get("Established") == "True", crd["metadata"]["name"]
        assert "NonStructuralSchema" not in states, crd["status"]["conditions"]


async def test_minimal_definitions_go_through_client_side_apply(testbed: Testbed) -> None:
    for file in files(CONFIG / "minimal"):
        kubectl(testbed, "apply", "-f", str(file))


async def test_explain_and_get_speak_of_models(testbed: Testbed, api: Api, namespace: str) -> None:
    await install(api, [document for file in files(CONFIG) for document in documents(file)])

    async def explained() -> bool:
        return "modelFormat" in kubectl(testbed, "explain", "inferenceservice.spec.predictor.model")

    await eventually(explained)
    await api.create(IRIS, namespace)
    table = kubectl(testbed, "get", "isvc", "-n", namespace).splitlines()
    assert table[0].split() == [
        "NAME", "URL", "READY", "PREV", "LATEST", "PREVROLLEDOUTREVISION", "LATESTREADYREVISION", "AGE",
    ]  # fmt: skip


async def test_server_side_apply_merges_containers_and_env_by_name(testbed: Testbed, api: Api, namespace: str) -> None:
    def service(env: str) -> dict:
        container = {"name": "kserve-container", "image": "a", "env": [{"name": env, "value": "1"}]}
        return IRIS | {"metadata": {"name": "mine"}, "spec": {"predictor": {"containers": [container]}}}

    await install(api, documents(CONFIG / "serving.kserve.io_inferenceservices.yaml"))
    await api.apply(service("A"), namespace, manager="one")
    stored = await api.apply(service("B"), namespace, manager="two")
    assert sorted(item["name"] for item in stored["spec"]["predictor"]["containers"][0]["env"]) == ["A", "B"]


async def test_an_object_with_a_name_twice_stays_readable_and_changeable(
    testbed: Testbed, api: Api, namespace: str
) -> None:
    """KServe's own definitions let such objects in; ours merge those lists by name."""
    kind = "serving.kserve.io_inferenceservices.yaml"
    twin = {"name": "side", "image": "a", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}
    obj = IRIS | {
        "metadata": {"name": "twins"},
        "spec": {"predictor": IRIS["spec"]["predictor"] | {"containers": [twin, twin]}},
    }
    await install(api, documents(CONFIG / "minimal" / kind))

    async def is_let_in() -> bool:
        try:
            await api.create(obj, namespace)
        except Refused:  # by the definition as it was: the server takes up another a moment later
            return False
        return True

    await eventually(is_let_in)
    await install(api, documents(CONFIG / kind))

    async def is_full() -> bool:
        stored = await api.get(
            "apiextensions.k8s.io/v1", "CustomResourceDefinition", "inferenceservices.serving.kserve.io"
        )
        assert stored is not None
        schema = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return "containers" in schema["properties"]["spec"]["properties"]["predictor"]["properties"]

    await eventually(is_full)
    found = await api.get("serving.kserve.io/v1beta1", "InferenceService", "twins", namespace)
    assert found is not None
    assert len(found["spec"]["predictor"]["containers"]) == 2
    await api.patch(obj, {"metadata": {"labels": {"a": "b"}}, "spec": {"predictor": {"minReplicas": 2}}}, namespace)
    changed = await api.patch(obj, {"status": {"url": "http://a"}}, namespace, subresource="status")
    assert changed["status"]["url"] == "http://a"
    assert len(changed["spec"]["predictor"]["containers"]) == 2
