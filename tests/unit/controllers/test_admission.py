"""Reviews that hang on what was written a moment ago, which the caches do not know yet."""
import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from serveplane.controllers.inferenceservice.admission import Admission
from serveplane.kube.admission import AdmissionRequest
from serveplane.kube.errors import ConnectionFailed, KubeError, NoSuchKind
from serveplane.kube.kind import Kind
from serveplane.settings import parse

Json = dict[str, Any]
SETTINGS = parse({"deploy": '{"defaultDeploymentMode": "Standard"}', "localModel": '{"enabled": true}'})


class Server:
    """The API server, and caches that have seen nothing of it."""

    def __init__(self, *objects: Json, refuses: KubeError | None = None, trouble: KubeError | None = None) -> None:
        self.objects, self.refuses, self.trouble, self.asked = objects, refuses, trouble, 0
        self.clock = None

    async def list(self, kind: Kind, namespace: str | None = None) -> list[Json]:
        self.asked += 1
        if self.refuses:
            raise self.refuses
        return [obj for obj in self.objects if obj["kind"] == kind.kind and obj["metadata"].get("namespace") == namespace]

    def informer(self, kind: Kind, **_how: Any) -> Any:
        return SimpleNamespace(list=lambda namespace="": [], get=lambda *key: None, trouble=self.trouble)

    async def review(self, obj: Json, *, mutating: bool = False) -> Any:
        admission = Admission(self, self, SimpleNamespace(current=SETTINGS), "kserve")  # type: ignore[arg-type]
        request = AdmissionRequest("u", "CREATE", Kind(obj["apiVersion"], obj["kind"]), "", "", obj["metadata"]["name"], "ml", obj, {}, {})
        answer: Any = admission._defaulted(request) if mutating else admission._judged(request)
        return await answer if inspect.isawaitable(answer) else answer


def of_kind(kind: str, name: str, spec: Json, namespace: str | None = None) -> Json:
    version = "v1beta1" if kind == "InferenceService" else "v1alpha1"
    return {"apiVersion": f"serving.kserve.io/{version}", "kind": kind, "spec": spec,
            "metadata": {"name": name, **({"namespace": namespace} if namespace else {})}}


def service(uri: str) -> Json:
    return of_kind("InferenceService", "iris", {"predictor": {"model": {"modelFormat": {"name": "sklearn"}, "storageUri": uri}}}, "ml")


def runtime(name: str) -> Json:
    formats = [{"name": "sklearn", "version": "1", "autoSelect": True, "priority": 1}]
    containers = [{"name": "kserve-container", "image": "a"}]
    return of_kind("ServingRuntime", name, {"supportedModelFormats": formats, "protocolVersions": ["v1"], "containers": containers}, "ml")


CONTAINER = of_kind("ClusterStorageContainer", "own", {"container": {"name": "storage-initializer", "image": "a"},
                                                       "supportedUriFormats": [{"prefix": "own://"}]})
CACHE = of_kind("LocalModelCache", "near", {"sourceModelUri": "gs://acme/iris", "modelSize": "1Gi", "nodeGroups": ["gpu"]})


async def test_a_storage_container_of_the_same_file_counts() -> None:
    assert (await Server(CONTAINER).review(service("own://a/b"))).allowed
    assert not (await Server().review(service("own://a/b"))).allowed
    server = Server(CONTAINER)
    assert (await server.review(service("gs://a/b"))).allowed
    assert server.asked == 0, "what the caches allow is not asked for again"


async def test_runtimes_of_the_same_file_may_clash() -> None:
    assert not (await Server(runtime("first")).review(runtime("second"))).allowed
    assert (await Server(runtime("second")).review(runtime("second"))).allowed


async def test_a_cache_of_the_same_file_is_used() -> None:
    labels = (await Server(CACHE).review(service("gs://acme/iris/v1"), mutating=True))["metadata"]["labels"]
    assert labels == {"internal.serving.kserve.io/localmodel": "near"}


@pytest.mark.parametrize(("server", "asked"), [(Server(refuses=ConnectionFailed("gone")), 1), (Server(trouble=NoSuchKind("absent")), 0),
                                               (Server(trouble=KubeError("not for us")), 0)])
async def test_no_answer_means_the_caches_decide(server: Server, asked: int) -> None:
    assert (await server.review(runtime("second"))).allowed
    assert server.asked == asked
    assert "labels" not in (await server.review(service("gs://a/b"), mutating=True))["metadata"]
