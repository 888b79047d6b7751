"""Defaults, refusals and warnings of InferenceServices, case by case."""

import copy
from typing import Any

import pytest

from serveplane.api import keys
from serveplane.api.admission import Context, mutate, validate
from serveplane.api.inferenceservice import components, inference_service
from serveplane.api.mode import Mode
from serveplane.api.policy import Policy
from serveplane.objects.jsonpatch import merge_patched

Json = dict[str, Any]
POLICY = Policy(
    default_mode=Mode.STANDARD,
    limits={"cpu": "1", "memory": "2Gi"},
    requests={"cpu": "1", "memory": "2Gi"},
    art_version="latest",
)
STANDARD, KNATIVE = Context(POLICY), Context(Policy(default_mode=Mode.KNATIVE))
MODEL = {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://models/iris"}
CONTAINER = {"name": "kserve-container", "image": "acme/model:1"}


def service(change: Json | None = None, predictor: Json | None = None, **annotations: str) -> Json:
    notes = {f"serving.kserve.io/{key}": value for key, value in annotations.items()}
    obj = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "iris", "namespace": "ns", "annotations": notes},
        "spec": {"predictor": copy.deepcopy(predictor or {"model": MODEL})},
    }
    return merge_patched(obj, change or {})


def refused(obj: Json, context: Context = STANDARD, old: Json | None = None) -> list[str]:
    return [error.path for error in validate(mutate(obj, context), old, context).errors]


def env(name: str, value: str = "x") -> list[Json]:
    return [{"name": name, "value": value}]


def uris(*pairs: tuple[str, str]) -> list[Json]:
    return [{"uri": uri, "mountPath": path} for uri, path in pairs]


PREDICTOR = "spec.predictor"
REFUSALS = {
    "name with capitals": (service({"metadata": {"name": "Iris"}}), ["metadata.name"]),
    "name that begins with a digit": (service({"metadata": {"name": "1ris"}}), ["metadata.name"]),
    "unknown autoscaler": (service(autoscalerClass="kpa"), [f"metadata.annotations[{keys.AUTOSCALER_CLASS}]"]),
    "unknown mode": (service(deploymentMode="Turbo"), [f"metadata.annotations[{keys.DEPLOYMENT_MODE}]"]),
    "two implementations": (service(predictor={"model": MODEL, "containers": [CONTAINER]}), [PREDICTOR]),
    "two frameworks": (service(predictor={"sklearn": {"storageUri": "gs://a"}, "onnx": {}}), [PREDICTOR]),
    "two frameworks and a model": (service(predictor={"model": MODEL, "xgboost": {}, "onnx": {}}), [PREDICTOR]),
    "transformer without container": (service({"spec": {"transformer": {}}}), ["spec.transformer"]),
    "explainer without anything": (service({"spec": {"explainer": {}}}), ["spec.explainer"]),
    "name in model": (service(predictor={"model": MODEL | {"name": "mine"}}), [f"{PREDICTOR}.model.name"]),
    "python path": (service(predictor={"model": MODEL | {"env": env("PYTHONPATH")}}), [f"{PREDICTOR}.model.env[0]"]),
    "python path in an init container": (
        service({"spec": {"predictor": {"initContainers": [CONTAINER | {"env": env("PYTHONPATH")}]}}}),
        [f"{PREDICTOR}.initContainers[0].env[0]"],
    ),
    "odd protocol": (
        service(predictor={"containers": [CONTAINER | {"env": env("PROTOCOL", "v3")}]}), [f"{PREDICTOR}.containers[0].env"]
    ),
    "two containers, none serves": (
        service(predictor={"containers": [{"name": "a"}, {"name": "b"}]}), [f"{PREDICTOR}.containers"]
    ),
    "unknown scheme": (service(predictor={"model": MODEL | {"storageUri": "ftp://a/b"}}), [f"{PREDICTOR}.model.storageUri"]),
    "odd azure URI": (
        service(predictor={"model": MODEL | {"storageUri": "http://x.blob.core.windows.net/y"}}),
        [f"{PREDICTOR}.model.storageUri"],
    ),
    "one URI and several": (
        service({"spec": {"predictor": {"storageUris": uris(("gs://a", "/mnt/a"))}}}), [f"{PREDICTOR}.storageUris"]
    ),
    "mount path with dots": (
        service(predictor={"model": {"modelFormat": {"name": "x"}}, "storageUris": uris(("gs://a", "/mnt/../etc"))}),
        [f"{PREDICTOR}.storageUris[0].mountPath"],
    ),
    "mount path with dots in a name": (
        service(predictor={"model": {"modelFormat": {"name": "x"}}, "storageUris": uris(("gs://a", "/mnt/a..b"))}),
        [f"{PREDICTOR}.storageUris[0].mountPath"],
    ),
    "mount path is the root": (
        service(predictor={"model": {"modelFormat": {"name": "x"}}, "storageUris": uris(("gs://a", "/"))}),
        [f"{PREDICTOR}.storageUris[0].mountPath"],
    ),
    "mount paths without common folder": (
        service(predictor={"model": {"modelFormat": {"name": "x"}}, "storageUris": uris(("gs://a", "/a"), ("gs://b", "/b"))}),
        [f"{PREDICTOR}.storageUris"],
    ),
    "two claims at one path": (
        service(predictor={"model": {"modelFormat": {"name": "x"}}, "storageUris": uris(("pvc://a", "/a"), ("pvc://b", "/a"))}),
        [f"{PREDICTOR}.storageUris"],
    ),
    "confidential without model": (
        service(predictor={"model": {"modelFormat": {"name": "x"}, "confidential": {"enabled": True}}}),
        [f"{PREDICTOR}.model.storageUri"],
    ),
    "confidential with an odd key": (
        service(predictor={"model": MODEL | {"confidential": {"enabled": True, "resourceId": "kbs://x"}}}),
        [f"{PREDICTOR}.model.confidential.resourceId"],
    ),
    "min above max": (service({"spec": {"predictor": {"minReplicas": 3, "maxReplicas": 2}}}), [f"{PREDICTOR}.maxReplicas"]),
    "negative everything": (
        service({"spec": {"predictor": {"minReplicas": -1, "maxReplicas": -1, "containerConcurrency": -1}}}),
        [f"{PREDICTOR}.{field}" for field in ("containerConcurrency", "minReplicas", "maxReplicas")],
    ),
    "logger without mode": (service({"spec": {"predictor": {"logger": {"url": "http://a"}}}}), [f"{PREDICTOR}.logger.mode"]),
    "logger with a password": (
        service({"spec": {"predictor": {"logger": {"url": "http://u:p@a", "mode": "all"}}}}), [f"{PREDICTOR}.logger.url"]
    ),
    "logger to the metadata service": (
        service({"spec": {"predictor": {"logger": {"url": "http://169.254.169.254/", "mode": "all"}}}}),
        [f"{PREDICTOR}.logger.url"],
    ),
    "logger store without key": (
        service({"spec": {"predictor": {"logger": {"mode": "all", "storage": {"path": "a", "parameters": {"a": "b"}}}}}}),
        [f"{PREDICTOR}.logger.storage.key"],
    ),
    "hpa scaling on requests": (
        service({"spec": {"predictor": {"scaleMetric": "rps"}}}, autoscalerClass="hpa"), [f"{PREDICTOR}.scaleMetric"]
    ),
    "hpa target above 100": (
        service({"spec": {"predictor": {"scaleMetric": "memory", "scaleTarget": 150}}}, autoscalerClass="hpa"),
        [f"{PREDICTOR}.scaleTarget"],
    ),
    "keda with scaleMetric": (
        service({"spec": {"predictor": {"scaleMetric": "cpu"}}}, autoscalerClass="keda"), [f"{PREDICTOR}.scaleMetric"]
    ),
    "keda without query": (
        service(
            {"spec": {"predictor": {"autoScaling": {"metrics": [
                {"type": "External", "external": {"metric": {"backend": "prometheus"}, "target": {"value": "1"}}}
            ]}}}},
            autoscalerClass="keda",
        ),
        [f"{PREDICTOR}.autoScaling.metrics[0].external.metric.query"],
    ),
    "workers without size": (
        service(
            predictor={"model": MODEL | {"storageUri": "pvc://a/b"}, "workerSpec": {"pipelineParallelSize": 0}},
            autoscalerClass="none",
        ),
        [f"{PREDICTOR}.workerSpec.pipelineParallelSize"],
    ),
    "workers of an unknown accelerator": (
        service(
            predictor={
                "model": MODEL | {"storageUri": "pvc://a/b"},
                "workerSpec": {"containers": [CONTAINER | {"resources": {"limits": {"acme.com/tpu": "1"}}}]},
            },
            autoscalerClass="none",
        ),
        [f"{PREDICTOR}.workerSpec.containers[0].resources"],
    ),
    "workers that scale": (
        service(predictor={"model": MODEL | {"storageUri": "pvc://a/b"}, "workerSpec": {}}),
        [f"metadata.annotations[{keys.AUTOSCALER_CLASS}]"],
    ),
    "canary without name": (
        service({"spec": {"canary": [{"predictor": {"model": MODEL}, "trafficPercent": 10}]}}),
        ["spec.canary[0].predictor.name"],
    ),
    "canaries beyond 100": (
        service({"spec": {"canary": [
            {"predictor": {"name": name, "model": MODEL}, "trafficPercent": 60} for name in ("a", "b")
        ]}}),
        ["spec.canary"],
    ),
    "canary that scales": (
        service({"spec": {"canary": [{"predictor": {"name": "a", "model": MODEL, "scaleTarget": 1}, "trafficPercent": 6}]}}),
        ["spec.canary[0].predictor.scaleTarget"],
    ),
    "malformed quantity": (
        service(predictor={"containers": [CONTAINER | {"resources": {"limits": {"cpu": "lots"}}}]}),
        [f"{PREDICTOR}.containers[0].resources.limits.cpu"],
    ),
    "no spec": ({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "a"}}, ["spec"]),
    "ephemeral containers": (
        service(predictor={"model": MODEL | {"storageUri": "pvc://a/b"}, "workerSpec": {"ephemeralContainers": [{"name": "x"}]}},
                autoscalerClass="none"),
        [f"{PREDICTOR}.workerSpec.ephemeralContainers"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("obj", "paths"), REFUSALS.values(), ids=REFUSALS)
def test_refused_with_the_field_named(obj: Json, paths: list[str]) -> None:
    assert sorted(refused(obj)) == sorted(paths)


def test_all_problems_come_at_once() -> None:
    obj = service({"metadata": {"name": "BAD"}, "spec": {"predictor": {"minReplicas": -1}, "transformer": {}}})
    assert len(refused(obj)) == 3


@pytest.mark.parametrize(
    ("change", "path"),
    [({"deploymentStrategy": {"type": "Recreate"}}, "deploymentStrategy"), ({"scaleMetric": "cpu"}, "scaleMetric")],
)
def test_refused_in_knative_mode(change: Json, path: str) -> None:
    assert refused(service({"spec": {"predictor": change}}), KNATIVE) == [f"{PREDICTOR}.{path}"]


def test_the_mode_of_a_running_service_is_fixed() -> None:
    old = mutate(service(), STANDARD) | {"status": {"deploymentMode": "RawDeployment"}}
    assert refused(service(), old=old) == []
    new = service(deploymentMode="Serverless")
    assert refused(new, old=old) == [f"metadata.annotations[{keys.DEPLOYMENT_MODE}]"]


def test_the_predictor_is_renamed_only_with_its_model() -> None:
    old = mutate(service(), STANDARD)
    renamed = service({"spec": {"predictor": {"name": "v2"}}})
    assert refused(renamed, old=old) == [f"{PREDICTOR}.name"]
    moved = service({"spec": {"predictor": {"name": "v2", "model": {"storageUri": "gs://models/iris2"}}}})
    assert refused(moved, old=old) == []


def test_what_is_being_deleted_may_change() -> None:
    old = service({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert refused(service({"metadata": {"name": "BAD"}}), old=old) == []


@pytest.mark.parametrize(
    ("obj", "context", "field"),
    [
        (service({"spec": {"predictor": {"canaryTrafficPercent": 10}}}), STANDARD, "canaryTrafficPercent"),
        (service({"spec": {"predictor": {"containerConcurrency": 10}}}), STANDARD, "containerConcurrency"),
        (service({"spec": {"predictor": {"scaleMetric": "rps"}}}), STANDARD, "scaleMetric"),
        (service({"spec": {"predictor": {"scaleTarget": 5}}}, autoscalerClass="external"), STANDARD, "scaleTarget"),
        (service({"spec": {"predictor": {"batcher": {"timeout": 5}}}}), KNATIVE, "batcher.timeout"),
        (service({"spec": {"predictor": {"autoScaling": {}}}}), KNATIVE, "autoScaling"),
        (service(autoscalerClass="hpa"), KNATIVE, "autoscalerClass"),
        (service({"metadata": {"name": "n" * 60}}), STANDARD, "metadata.name"),
    ],
)
def test_what_has_no_effect_is_said(obj: Json, context: Context, field: str) -> None:
    verdict = validate(mutate(obj, context), None, context)
    assert verdict.allowed
    assert [warning for warning in verdict.warnings if field in warning], verdict.warnings


def test_traffic_in_standard_mode_points_to_the_canary() -> None:
    obj = mutate(service({"spec": {"predictor": {"canaryTrafficPercent": 10}}}), STANDARD)
    assert "spec.canary" in validate(obj, None, STANDARD).warnings[0]


def test_a_plain_service_gets_no_warning() -> None:
    for context in (STANDARD, KNATIVE):
        assert validate(mutate(service(), context), None, context).warnings == ()


@pytest.mark.parametrize(("framework", "protocol"), [("sklearn", None), ("onnx", "v2"), ("huggingface", "v2")])
def test_a_framework_becomes_a_model(framework: str, protocol: str | None) -> None:
    block = {"storageUri": "gs://a", "runtimeVersion": "1", "resources": {"limits": {"cpu": "1"}}}
    result = mutate(service(predictor={framework: block}), STANDARD)
    model = result["spec"]["predictor"]["model"]
    assert framework not in result["spec"]["predictor"]
    assert model["modelFormat"] == {"name": framework}
    assert model.get("protocolVersion") == protocol
    assert block.items() <= model.items()
    assert result["metadata"]["annotations"]["modelFormat"] == framework


def test_a_framework_applied_again_takes_the_place_of_its_model() -> None:
    """`kubectl apply` of a changed file adds the block to the stored object, where the model is that it became before."""
    stored = mutate(service(predictor={"xgboost": {"storageUri": "gs://a", "protocolVersion": "v2"}}), STANDARD)
    again = merge_patched(stored, {"spec": {"predictor": {"xgboost": {"storageUri": "gs://b"}}}})
    assert refused(again, old=stored) == []
    found = mutate(again, STANDARD)["spec"]["predictor"]
    assert (found["model"]["storageUri"], found["model"].get("protocolVersion"), "xgboost" in found) == ("gs://b", None, False)
    other = merge_patched(stored, {"spec": {"predictor": {"lightgbm": {"storageUri": "gs://c"}}}})
    assert mutate(other, STANDARD)["spec"]["predictor"]["model"]["modelFormat"] == {"name": "lightgbm"}


def test_model_mesh_keeps_the_framework() -> None:
    result = mutate(service(predictor={"sklearn": {"storageUri": "gs://a"}}, deploymentMode="ModelMesh"), STANDARD)
    assert "model" not in result["spec"]["predictor"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, {"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "1", "memory": "2Gi"}}),
        (
            {"limits": {"cpu": "200m"}},
            {"limits": {"cpu": "200m", "memory": "2Gi"}, "requests": {"cpu": "200m", "memory": "2Gi"}},
        ),
        (
            {"requests": {"memory": "8Gi"}},
            {"limits": {"cpu": "1", "memory": "8Gi"}, "requests": {"cpu": "1", "memory": "8Gi"}},
        ),
    ],
)
def test_default_resources_never_contradict_the_users(resources: Json, expected: Json) -> None:
    result = mutate(service(predictor={"containers": [{"image": "a", "name": "x", "resources": resources}]}), STANDARD)
    container = result["spec"]["predictor"]["containers"][0]
    assert container["name"] == "kserve-container"
    assert container["resources"] == expected


def test_stored_as_kserves_types_spell_it() -> None:
    target = {"type": "Value", "value": 10}
    metric = {"type": "External", "external": {"metric": {"backend": "graphite", "query": "q"}, "target": target}}
    cores = [{"name": "CORES", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]
    model = {"runtime": "r", "storageUri": "gs://a", "env": cores, "livenessProbe": {"grpc": {"port": 9}}}
    predictor = {"model": model, "autoScaling": {"metrics": [metric]}}
    stored = mutate(service(predictor=predictor), STANDARD)["spec"]["predictor"]
    assert stored["model"]["modelFormat"] == {"name": ""}
    assert stored["model"]["livenessProbe"]["grpc"]["service"] == ""
    assert stored["model"]["env"][0]["valueFrom"]["resourceFieldRef"]["divisor"] == "0"
    assert stored["autoScaling"]["metrics"][0]["external"]["target"]["value"] == "10"


def test_what_kserves_types_fill_in_is_not_missed() -> None:
    """A format without a name and a share that is not said: stored as empty and 0, and then for the status to tell."""
    assert refused(service(predictor={"model": {"modelFormat": {}, "storageUri": "gs://a/b"}})) == []
    assert refused(service(predictor={"model": {"modelFormat": None, "storageUri": "gs://a/b"}})) == []
    canary = service({"spec": {"canary": [{"predictor": {"name": "next", "model": MODEL}}]}}, deploymentMode="Standard")
    assert refused(canary) == []
    assert mutate(canary, STANDARD)["spec"]["canary"][0]["trafficPercent"] == 0


def test_tokens_are_withheld_when_the_settings_say_so() -> None:
    result = mutate(service(), Context(Policy(auto_mount_token=False)))
    assert result["spec"]["predictor"]["automountServiceAccountToken"] is False
    own = mutate(
        service({"spec": {"predictor": {"automountServiceAccountToken": True}}}),
        Context(Policy(auto_mount_token=False)),
    )
    assert own["spec"]["predictor"]["automountServiceAccountToken"] is True


def cache(name: str, uri: str, namespace: str = "", groups: tuple[str, ...] = ("gpu",)) -> Json:
    kind = "LocalModelNamespaceCache" if namespace else "LocalModelCache"
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "spec": {"sourceModelUri": uri, "modelSize": "1Gi", "nodeGroups": list(groups)},
    }


def with_caches(*caches: Json) -> Context:
    def lookup(kind: str, namespace: str) -> list[Json]:
        return [item for item in caches if item["kind"] == kind and item["metadata"].get("namespace", "") == namespace]

    return Context(Policy(local_models=True), lookup)


def test_a_cached_model_is_marked_the_namespace_first() -> None:
    context = with_caches(cache("wide", "gs://models"), cache("near", "gs://models/iris", "ns", ("cpu", "gpu")))
    metadata = mutate(service(), context)["metadata"]
    assert metadata["labels"] == {keys.LOCAL_MODEL: "near", keys.LOCAL_MODEL_NAMESPACE: "ns"}
    assert metadata["annotations"][keys.LOCAL_MODEL_PVC] == "near-cpu"


def test_marks_go_when_nothing_matches() -> None:
    marked = mutate(service(), with_caches(cache("wide", "gs://models")))
    assert marked["metadata"]["labels"] == {keys.LOCAL_MODEL: "wide"}
    cleared = mutate(marked, with_caches(cache("other", "gs://models/iri")))
    assert not cleared["metadata"]["labels"]
    assert keys.LOCAL_MODEL_PVC not in cleared["metadata"]["annotations"]


def test_a_node_group_must_be_listed() -> None:
    obj = service(nodegroup="tpu")
    assert "labels" not in mutate(obj, with_caches(cache("wide", "gs://models")))["metadata"]


def test_three_components_are_one_shape() -> None:
    change = {
        "spec": {
            "transformer": {"containers": [{"image": "t", "env": env("PROTOCOL", "v2")}]},
            "explainer": {"art": {}},
        }
    }
    found = components(inference_service(service(change)))
    assert [(part.kind.value, part.implementation.block, part.protocol) for part in found] == [
        ("predictor", "model", "v1"),
        ("transformer", "containers", "v2"),
        ("explainer", "art", "v1"),
    ]
    assert found[0].implementation.storage_uri == "gs://models/iris"


def test_a_misspelt_field_is_told_where_definitions_are_minimal() -> None:
    obj = mutate(
        service({"spec": {"predictor": {"minReplica": 2, "containers": [{"name": "x", "imagePolicy": "Always"}]}}}),
        STANDARD,
    )
    told = validate(obj, None, STANDARD).warnings
    assert [text.split(":")[0] for text in told] == [
        "spec.predictor.minReplica",
        "spec.predictor.containers[0].imagePolicy",
    ]
