"""Refusals and warnings of every kind but the InferenceService."""

from typing import Any

import pytest

from serveplane.api import keys
from serveplane.api.admission import Context, mutate, validate, validate_deletion
from serveplane.api.mode import Mode
from serveplane.api.policy import Policy

Json = dict[str, Any]
GROUP = "serving.kserve.io"
STANDARD = Policy(default_mode=Mode.STANDARD)


def make(kind: str, spec: Json, version: str = "v1alpha1", **metadata: Any) -> Json:
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": "a", **metadata}, "spec": spec}


def around(*objects: Json) -> Context:
    return Context(STANDARD, lambda kind, _: [obj for obj in objects if obj["kind"] == kind])


def refused(obj: Json, *others: Json, old: Json | None = None) -> list[str]:
    context = around(*others)
    return sorted(error.path for error in validate(mutate(obj, context), old, context).errors)


def runtime(name: str, *formats: Json, **spec: Any) -> Json:
    whole = {
        "supportedModelFormats": list(formats),
        "protocolVersions": ["v1"],
        "containers": [{"name": "kserve-container"}],
    }
    return make("ServingRuntime", whole | spec, name=name)


def form(name: str = "sklearn", version: str = "1", priority: int | None = 1, auto: bool = True) -> Json:
    return {"name": name, "version": version, "autoSelect": auto} | ({"priority": priority} if priority else {})


@pytest.mark.parametrize(
    ("new", "others", "paths"),
    [
        (runtime("new", form()), [runtime("old", form())], ["spec.supportedModelFormats[0].priority"]),
        (runtime("new", form()), [runtime("old", form(name="SKLearn"))], ["spec.supportedModelFormats[0].priority"]),
        (runtime("new", form()), [runtime("old", form(priority=2))], []),
        (runtime("new", form()), [runtime("old", form(version="2"))], []),
        (runtime("new", form()), [runtime("old", form(auto=False))], []),
        (runtime("new", form()), [runtime("old", form(), disabled=True)], []),
        (runtime("new", form(), disabled=True), [runtime("old", form())], []),
        (runtime("new", form()), [runtime("old", form(), protocolVersions=["v2"])], []),
        (runtime("new", form()), [runtime("old", form(), multiModel=True)], []),
        (runtime("new", form(), form(version="2", priority=2)), [runtime("old")], ["spec.supportedModelFormats"]),
        (runtime("new", form(), form(version="2", priority=2)), [], []),
        (
            runtime("new", containers=[{"name": "x", "env": [{"name": "PYTHONPATH"}]}]),
            [],
            ["spec.containers[0].env[0]"],
        ),
        (runtime("new", workerSpec={"containers": [{"name": "a"}, {"name": "b"}]}), [], ["spec.workerSpec.containers"]),
        (runtime("new", workerSpec={"containers": []}), [], ["spec.workerSpec.containers"]),
        (
            runtime("new", workerSpec={"containers": [{"name": "a"}]}, annotations={keys.GPU_RESOURCE_TYPES: "gpu"}),
            [],
            [f"spec.annotations[{keys.GPU_RESOURCE_TYPES}]"],
        ),
        (
            runtime("new", workerSpec={"containers": [{"name": "a"}], "tensorParallelSize": 0}),
            [],
            ["spec.workerSpec.tensorParallelSize"],
        ),
    ],
)
def test_runtimes(new: Json, others: list[Json], paths: list[str]) -> None:
    assert refused(new, *others) == paths


def test_a_runtime_keeps_its_workers() -> None:
    old = runtime("a", workerSpec={"containers": [{"name": "worker-container"}]})
    assert refused(runtime("a"), old=old) == ["spec.workerSpec"]


def trained(uri: str = "gs://a", memory: str = "1Gi", **metadata: Any) -> Json:
    spec = {"inferenceService": "shelf", "model": {"storageUri": uri, "framework": "sklearn", "memory": memory}}
    return make("TrainedModel", spec, **metadata)


@pytest.mark.parametrize(
    ("new", "old", "paths"),
    [
        (trained(), None, []),
        (trained(name="with.dot"), None, ["metadata.name"]),
        (trained(uri="pvc://a"), None, ["spec.model.storageUri"]),
        (trained(memory="-1"), None, ["spec.model.memory"]),
        (trained(memory="much"), None, ["spec.model.memory"]),
        (trained(memory="1024Mi"), trained(), []),
        (trained(memory="2Gi"), trained(), ["spec.model.memory"]),
        (trained(memory="2Gi", deletionTimestamp="2026-01-01T00:00:00Z"), trained(), []),
    ],
)
def test_trained_models(new: Json, old: Json | None, paths: list[str]) -> None:
    assert refused(new, old=old) == paths


def graph(**nodes: tuple[str, list[Json]]) -> Json:
    spec = {"nodes": {name: {"routerType": kind, "steps": steps} for name, (kind, steps) in nodes.items()}}
    return make("InferenceGraph", spec)


CALL = {"serviceName": "iris"}


@pytest.mark.parametrize(
    ("obj", "paths"),
    [
        (graph(root=("Sequence", [CALL])), []),
        (graph(start=("Sequence", [CALL])), ["spec.nodes"]),
        (graph(root=("Sequence", [{}])), ["spec.nodes.root.steps[0]"]),
        (graph(root=("Sequence", [CALL | {"serviceUrl": "http://a"}])), ["spec.nodes.root.steps[0]"]),
        (graph(root=("Sequence", [{"nodeName": "gone"}])), ["spec.nodes.root.steps[0].nodeName"]),
        (graph(root=("Sequence", [CALL | {"name": "x"}, CALL | {"name": "x"}])), ["spec.nodes.root.steps"]),
        (graph(root=("Splitter", [CALL | {"weight": 60}, CALL | {"weight": 60}])), ["spec.nodes.root.steps"]),
        (
            graph(root=("Splitter", [CALL | {"weight": 200}, CALL | {"weight": -100}])),
            ["spec.nodes.root.steps[0].weight", "spec.nodes.root.steps[1].weight"],
        ),
        (graph(root=("Sequence", [{"serviceUrl": "file:///etc/passwd"}])), ["spec.nodes.root.steps[0].serviceUrl"]),
        (graph(root=("Sequence", [{"nodeName": "b"}]), b=("Sequence", [{"nodeName": "root"}])), ["spec.nodes"]),
        (graph(root=("Sequence", [{"nodeName": "root"}])), ["spec.nodes"]),
        (graph(root=("Switch", [{"nodeName": "root", "condition": "again"}])), []),
    ],
)
def test_graphs(obj: Json, paths: list[str]) -> None:
    assert refused(obj) == paths


def test_a_long_chain_of_nodes_is_no_trouble() -> None:
    nodes = {f"n{i}": ("Sequence", [{"nodeName": f"n{i + 1}"}]) for i in range(5_000)}
    assert refused(
        graph(root=("Sequence", [{"nodeName": "n0"}]), **nodes, n5000=("Sequence", [{"nodeName": "root"}]))
    ) == ["spec.nodes"]


def test_what_has_no_effect_in_a_graph_is_said() -> None:
    steps = [CALL | {"weight": 1, "data": "$request"}]
    obj = graph(root=("Ensemble", steps), lonely=("Switch", [CALL]))
    obj["spec"]["timeout"] = 5
    told = " ".join(validate(obj, None, around()).warnings)
    for field in ("steps[0].weight", "steps[0].data", "spec.nodes.lonely", "condition", "spec.timeout"):
        assert field in told


def cache(name: str, uri: str = "gs://a", kind: str = "LocalModelCache", **more: Any) -> Json:
    return make(kind, {"sourceModelUri": uri, "modelSize": "1Gi", "nodeGroups": ["cpu"]}, name=name, **more)


def test_a_model_is_cached_once() -> None:
    assert refused(cache("b"), cache("a")) == ["spec.sourceModelUri"]
    assert refused(cache("a"), cache("a")) == []
    assert refused(cache("b", "gs://b"), cache("a")) == []


def test_the_source_of_a_cache_is_fixed() -> None:
    assert refused(cache("a", "gs://b"), old=cache("a")) == ["spec.sourceModelUri"]


def test_a_namespaced_cache_needs_its_groups() -> None:
    private = cache("a", kind="LocalModelNamespaceCache", namespace="ns")
    assert refused(private) == ["spec.nodeGroups[0]"]
    assert refused(private, make("LocalModelNodeGroup", {}, name="cpu")) == []


def test_a_cache_is_held_by_those_who_mount_it() -> None:
    held = cache("a") | {"status": {"inferenceServices": [{"name": "iris", "namespace": "ns"}]}}
    user = make(
        "InferenceService", {}, name="iris", namespace="ns", labels={"internal.serving.kserve.io/localmodel": "a"}
    )
    assert validate_deletion(held, around(user)).errors
    assert validate_deletion(held, around()).allowed
    moved = make("InferenceService", {}, name="iris", namespace="ns", labels={})
    assert validate_deletion(held, around(moved)).allowed


def llm(spec: Json | None = None, **metadata: Any) -> Json:
    return make("LLMInferenceService", {"model": {"uri": "hf://a/b"}} | (spec or {}), "v1alpha2", **metadata)


KEDA = {"triggers": [{"type": "cpu", "metadata": {}}]}
ADAPTER = {"name": "legal", "uri": "hf://x"}


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({}, []),
        ({"model": None}, ["spec.model.uri"]),
        ({"router": {"route": {"http": {"refs": [{"name": "r"}]}}, "gateway": {}}}, ["spec.router.route.http.refs"]),
        ({"router": {"route": {"group": "g"}}}, ["spec.router.route.weight"]),
        ({"router": {"route": {"weight": 1}}}, ["spec.router.route.group"]),
        ({"router": {"route": {"group": "g", "weight": 1}, "ingress": {}}}, ["spec.router.route.group"]),
        (
            {"router": {"route": {"group": "g", "weight": 1, "http": {"refs": [{"name": "r"}]}}}},
            ["spec.router.route.group"],
        ),
        ({"worker": {}, "parallelism": {"tensor": 2}}, ["spec.worker"]),
        ({"parallelism": {"data": 2}}, ["spec.parallelism.dataLocal"]),
        ({"parallelism": {"pipeline": 2, "data": 2, "dataLocal": 1}}, ["spec.parallelism"]),
        ({"router": {"scheduler": {"replicas": 0}}}, ["spec.router.scheduler.replicas"]),
        ({"router": {"scheduler": {"config": {}}}}, ["spec.router.scheduler.config"]),
        ({"router": {"scheduler": {"config": {"inline": {}}}}}, ["spec.router.scheduler.config.inline"]),
        ({"router": {"scheduler": {"config": {"ref": {"key": "k"}}}}}, ["spec.router.scheduler.config.ref.name"]),
        ({"replicas": 1, "scaling": {"maxReplicas": 2, "keda": KEDA}}, ["spec.scaling"]),
        ({"scaling": {"maxReplicas": 2}}, ["spec.scaling"]),
        ({"scaling": {"minReplicas": 3, "maxReplicas": 2, "keda": KEDA}}, ["spec.scaling.minReplicas"]),
        ({"scaling": {"maxReplicas": 2, "wva": {}}}, ["spec.scaling.wva"]),
        (
            {"scaling": {"maxReplicas": 2, "keda": KEDA | {"idleReplicaCount": 0}}},
            ["spec.scaling.keda.idleReplicaCount"],
        ),
        (
            {"scaling": {"maxReplicas": 2, "wva": {"keda": {"advanced": {"scalingModifiers": {"formula": "x"}}}}}},
            ["spec.scaling.wva.keda.advanced.scalingModifiers"],
        ),
        (
            {
                "scaling": {"maxReplicas": 2, "keda": KEDA},
                "prefill": {"scaling": {"maxReplicas": 2, "wva": {"hpa": {}}}},
            },
            ["spec.prefill.scaling"],
        ),
        ({"model": {"uri": "hf://a", "lora": {"adapters": [{"uri": "hf://x"}]}}}, ["spec.model.lora.adapters[0].name"]),
        ({"model": {"uri": "hf://a", "lora": {"adapters": [ADAPTER, ADAPTER]}}}, ["spec.model.lora.adapters[1].name"]),
        (
            {"model": {"uri": "hf://a", "lora": {"adapters": [ADAPTER | {"name": ".."}]}}},
            ["spec.model.lora.adapters[0].name"],
        ),
        ({"model": {"uri": "hf://a", "lora": {"adapters": "many"}}}, ["spec.model.lora.adapters"]),
        ({"rolloutStrategy": {"maxUnavailable": 0, "maxSurge": 0}}, ["spec.rolloutStrategy"]),
        ({"rolloutStrategy": {"maxUnavailable": "50%", "maxSurge": 0}}, ["spec.rolloutStrategy"]),
        ({"rolloutStrategy": {"maxSurge": "120%"}}, ["spec.rolloutStrategy.maxSurge"]),
        ({"rolloutStrategy": {"maxUnavailable": -1}}, ["spec.rolloutStrategy.maxUnavailable"]),
        (
            {"kvCacheOffloading": {"cpu": "0", "secondary": [{"fileSystem": {"emptyDir": {"size": "1"}}}]}},
            ["spec.kvCacheOffloading.cpu"],
        ),
        (
            {"kvCacheOffloading": {"cpu": "1", "secondary": [{"fileSystem": {}}]}},
            ["spec.kvCacheOffloading.secondary[0].fileSystem"],
        ),
        (
            {"kvCacheOffloading": {"cpu": "1", "secondary": [{"fileSystem": {"pvc": {"ref": {"name": ""}}}}]}},
            ["spec.kvCacheOffloading.secondary[0].fileSystem.pvc.ref.name"],
        ),
        (
            {"model": {"uri": "hf://a", "confidential": {"enabled": True, "resourceId": "x"}}},
            ["spec.model.confidential.resourceId"],
        ),
    ],
)
def test_llm_services(spec: Json, paths: list[str]) -> None:
    assert refused(llm(spec)) == paths


@pytest.mark.parametrize(
    ("annotations", "key"),
    [
        ({"device-count": "2"}, "device-class"),
        ({"device-class": "gpu", "device-count": "0"}, "device-count"),
        ({"device-class": "GPU!"}, "device-class"),
        ({"device-class": "gpu", "cel-selector": "\n "}, "cel-selector"),
        ({"device-class": "gpu", "container-name": ""}, "container-name"),
    ],
)
def test_devices_by_annotation(annotations: dict[str, str], key: str) -> None:
    notes = {f"{GROUP}/exp-dra-{name}": value for name, value in annotations.items()}
    assert refused(llm(annotations=notes)) == [f"metadata.annotations[{GROUP}/exp-dra-{key}]"]


def test_a_group_of_pods_keeps_its_size() -> None:
    sizes = [{"parallelism": {"data": number, "dataLocal": 1}} for number in (4, 8)]
    assert refused(llm(sizes[1]), old=llm(sizes[0])) == ["spec.parallelism"]


def test_the_same_gateways_twice_is_a_warning_and_others_an_error() -> None:
    def routed(parent: str) -> Json:
        spec = {"parentRefs": [{"name": parent}]}
        return llm({"router": {"route": {"http": {"spec": spec}}, "gateway": {"refs": [{"name": "g"}]}}})

    assert refused(routed("other")) == ["spec.router.route.http.spec"]
    verdict = validate(routed("g"), None, around())
    assert verdict.allowed
    assert "parentRefs" in verdict.warnings[0]


def test_configurations_build_on_nothing() -> None:
    config = make("LLMInferenceServiceConfig", {"baseRefs": [{"name": "x"}]}, "v1alpha2")
    assert refused(config) == ["spec.baseRefs"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ .Spec.Model.Name }}", ""),
        ("--name={{ ChildName .ObjectMeta.Name `-x` }} {{- if .Spec.Parallelism }} {{ .Spec.Parallelism.Data }} {{- end }}", ""),
        ("{{ with .Spec.Template }}{{ .Containers }}{{ end }} {{ (index .Labels `a`).b }} {{/* why not */}}", ""),
        ("{{ .Spec.Model.Name", "is not closed"),
        ("{{ if .Spec.Prefill }}x", "if has no end"),
        ("x{{ end }}", "closes nothing"),
        ("{{ toYaml .Spec }}", "toYaml is no function"),
        ("{{ .Nmae }}", ".Nmae is no field"),
    ],
)
def test_templates_of_a_configuration_can_be_rendered(text: str, message: str) -> None:
    spec = {"template": {"containers": [{"name": "main", "args": ["--port", text]}]}}
    errors = validate(make("LLMInferenceServiceConfig", spec, "v1alpha2"), None, around()).errors
    assert [error.path for error in errors] == (["spec.template.containers[0].args[1]"] if message else [])
    assert all(message in error.message for error in errors)


def test_presets_are_guarded() -> None:
    preset = make("LLMInferenceServiceConfig", {"replicas": 1}, "v1alpha2", name="p", namespace="kserve")
    watched = Context(STANDARD, presets=frozenset({"p"}))
    assert validate(preset, preset | {"spec": {"replicas": 2}}, watched).warnings
    assert validate_deletion(preset, watched).warnings
    assert not validate_deletion(preset, watched._replace(keep_presets=True)).allowed


def test_llm_defaults() -> None:
    obj = llm({"template": {}, "router": {"route": {"group": "g", "weight": 1}}}, namespace="ns")
    result = mutate(obj, around())
    assert result["spec"]["model"]["name"] == "a"
    assert result["spec"]["template"] == {"containers": []}
    assert result["metadata"]["labels"] == {f"{GROUP}/routing-group": "g"}
