"""Every leaf of a kind's schema, and what becomes of it: applied, refused, warned of, or nothing (which must not be).
"""

import argparse
import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

from serveplane.api.admission import stored, validate
from serveplane.api.inferenceservice import inference_service
from serveplane.cli.offline import BadInput, Surroundings, surroundings
from serveplane.cli.plan import PLANNERS
from serveplane.render.pods.mutate import mutated
from serveplane.render.runtimes import InvalidSpec

Json = dict[str, Any]
Path = tuple[str, ...]
ITEM, VALUE = "[]", "*"
APPLIED, REFUSED, WARNED, IGNORED, PENDING, FIXED = "applied", "refused", "warned", "ignored", "pending", "fixed"


def leaves(schema: Json, at: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Places where a user can write a value, with the schema of that value."""
    if schema.get("properties"):
        for name, child in schema["properties"].items():
            yield from leaves(child, (*at, name))
    elif isinstance(schema.get("items"), dict):
        yield from leaves(schema["items"], (*at, ITEM))
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from leaves(schema["additionalProperties"], (*at, VALUE))
    else:
        yield at, schema


def readable(path: Path) -> str:
    return ".".join(path).replace(".[]", "[]")


def minimal(schema: Json) -> Any:
    """The least that the schema accepts."""
    match schema.get("type"):
        case "object":
            return {name: minimal(schema["properties"][name]) for name in schema.get("required", ())}
        case "array":
            return [minimal(schema["items"])] if schema.get("minItems") else []
    return sample(schema, "a", 1, False)


def sample(schema: Json, text: str = "sample", number: int = 7, truth: bool = True) -> Any:
    """A value for a leaf."""
    if "enum" in schema:
        return schema["enum"][-1 if text == "sample" else 0]
    match schema.get("type"):
        case "string":
            return f"/{text}" if schema.get("pattern", "").startswith("^/") else text
        case "integer" | "number":
            return max(schema.get("minimum", number), number)
        case "boolean":
            return truth
        case "object":
            return {text: text}
        case "array":
            return []
    return f"{number}Gi" if schema.get("format") == "quantity" else number


FRAMEWORKS = (
    "sklearn",
    "xgboost",
    "tensorflow",
    "pytorch",
    "triton",
    "onnx",
    "huggingface",
    "pmml",
    "lightgbm",
    "paddle",
)
TELLING = {
    "variantCost": ("7.5", "8.5"),
    **dict.fromkeys(("absoluteTimeout", "idleTimeout", "request", "backendRequest", "backoff"), ("5s", "6s")),
    "serviceUrl": ("http://sample/", "http://other/"),
    "prefix": ("sample://", "other://"),
    "regex": ("sample://.+", "other"),
    "scaleMetric": ("memory", "cpu"),
    "storageUri": ("gs://c/d", "gs://e/f"),
    "uri": ("gs://c/d", "gs://e/f"),
    "url": ("http://sample/", "http://other/"),
    "protocolVersion": ("grpc-v1", "v2"),
    "resourceId": ("kbs:///a/b/c", "kbs:///a/b/d"),
    "batchInterval": ("5s", "6s"),
    "restartPolicy": ("OnFailure", "Always"),
    "mountPath": ("/mnt/sample", "/mnt/other"),
}
"""Values for fields that do not take just any text."""


def with_leaf(obj: Json, schema: Json, path: Path, flipped: bool = False) -> tuple[Json, Json]:
    """The object without and with the leaf; whatever the leaf needs around it is in both. `flipped`: another value than usual.
    """
    base = copy.deepcopy(obj)
    node: Any = base
    for step in path[:-1]:
        schema = _child(schema, step)
        if step == ITEM:
            if not node:
                node.append(minimal(schema))
            node = node[0]
        else:
            key = _key(step, path)
            if node.get(key) is None:
                node[key] = minimal(schema)
            node = node[key]
    last, leaf = path[-1], _child(schema, path[-1])
    full = copy.deepcopy(base)
    required = last in schema.get("required", ())
    if last not in (ITEM, VALUE) and not required:
        _same_place(base, path[:-1]).pop(last, None)
    _set(_same_place(full, path[:-1]), path, leaf, flipped, required)
    return base, full


def _child(schema: Json, step: str) -> Json:
    found: Json = (
        schema["items" if step == ITEM else "additionalProperties"]
        if step in (ITEM, VALUE)
        else schema["properties"][step]
    )
    return found


def _key(step: str, path: Path) -> str:
    """The name of a map's entry: one that means something where not just any will do."""
    if step != VALUE:
        return step
    if "nodes" in path:
        return "root"
    if "logger" in path:
        return "format"
    return "cpu" if {"limits", "requests", "overhead", "capacity"} & set(path) else "sample"


def _same_place(obj: Json, path: Path) -> Any:
    node: Any = obj
    for step in path:
        node = node[0] if step == ITEM else node[_key(step, path)]
    return node


def _set(node: Any, path: Path, leaf: Json, flipped: bool, required: bool) -> None:
    last = path[-1]
    if last == ITEM:
        node.append("http://sample" if "allowOrigins" in path else sample(leaf))
        return
    key = _key(last, path)
    before = node.get(key)
    first, second = TELLING.get(key, (sample(leaf), sample(leaf, "other", 8, False)))
    node[key] = second if flipped or (required and first == before) else first


@cache
def shipped() -> Surroundings:
    """What is shipped, and what fields may name: node groups, credentials."""
    beside: list[Json] = [{"kind": "LocalModelNodeGroup", "metadata": {"name": name}} for name in ("cpu", "sample")]
    for name in ("sample", "other", "logger-sa"):
        place = {"name": name, "namespace": "default"}
        beside.append({"kind": "Secret", "metadata": place, "data": {"HF_TOKEN": "eA=="}})
        beside.append({"kind": "ServiceAccount", "metadata": place, "secrets": [{"name": name}]})
    return surroundings(argparse.Namespace(given=[], namespace="default", settings=None), beside)


def in_knative_mode(obj: Json) -> Json:
    """The same service, to be run by Knative."""
    metadata = obj["metadata"]
    notes = {**metadata["annotations"], "serving.kserve.io/deploymentMode": "Knative"}
    return {**obj, "metadata": {**metadata, "annotations": notes}}


def outcome(without: Json, full: Json, path: Path, *, is_rendered: bool = True) -> str:
    """What the leaf does to this object. Where nothing is rendered yet, what would be applied is pending."""
    context = shipped().context()
    objects = [stored(obj, context) for obj in (without, full)]
    verdict = validate(objects[1], None, context)
    if not verdict.allowed:
        return REFUSED
    if any(_mentions(warning, path) for warning in verdict.warnings):
        return WARNED
    if objects[0] == objects[1]:
        return FIXED
    if not is_rendered or planned(objects[0]) is None:
        return PENDING
    return APPLIED if planned(objects[0]) != planned(objects[1]) else IGNORED


def _mentions(warning: str, path: Path) -> bool:
    """A warning about a part speaks for everything in it."""
    told = warning.split(": ")[0].replace("[0]", "[]")
    name = readable(tuple("model" if step in FRAMEWORKS else step for step in path))
    return name == told or name.startswith((f"{told}.", f"{told}[]"))


def planned(obj: Json) -> Any:
    """What the object comes to: its own children, or those of a service that uses it; None if nothing plans it yet."""
    try:
        if obj["kind"] in PLANNERS:
            children = PLANNERS[obj["kind"]](obj, shipped())
            return children, [_pod(child, obj) for child in children if child["kind"] == "Deployment"]
        if obj["kind"] in ("ServingRuntime", "ClusterServingRuntime"):
            return _with_runtime(obj)
        if obj["kind"] == "ClusterStorageContainer":
            return _with_storage_container(obj)
    except BadInput as problem:
        return str(problem)
    return None


def _pod(deployment: Json, owner: Json) -> Any:
    """A pod of a Deployment as the webhook admits it: the agent and the downloads are added there."""
    try:
        return mutated(deployment["spec"]["template"], "default", inference_service(owner), shipped().facts("default"))
    except InvalidSpec as problem:
        return problem.message


RIVAL: Json = {
    "supportedModelFormats": [{"name": "acme", "autoSelect": True, "priority": 3}],
    "containers": [{"name": "kserve-container", "image": "rival"}],
}


def _with_runtime(runtime: Json) -> Any:
    """Services that name the runtime, and those that would be given it."""
    rival = {**runtime, "metadata": {**runtime["metadata"], "name": "a-rival"}, "spec": RIVAL}
    alone = Surroundings(shipped().settings, [*shipped().objects, runtime])
    around = Surroundings(shipped().settings, [*shipped().objects, runtime, rival])
    models: list[Json] = [{"modelFormat": {"name": "acme"}}, {"modelFormat": {"name": "acme"}, "runtime": "mine"}]
    models.append({"modelFormat": {"name": "acme", "version": "sample"}})
    services = [service({"model": model | {"storageUri": "pvc://a/b"}}, autoscalerClass="none") for model in models]
    services.append(
        service({"model": models[1] | {"storageUri": "pvc://a/b"}, "workerSpec": {}}, autoscalerClass="none")
    )
    return [_attempt(obj, world) for obj in services for world in (alone, around)]


def _attempt(obj: Json, around: Surroundings) -> Any:
    try:
        return PLANNERS["InferenceService"](stored(obj, around.context()), around)
    except BadInput as problem:
        return str(problem)


def _with_storage_container(container: Json) -> Any:
    facts = Surroundings(shipped().settings, [container]).facts("default")
    pods = []
    for uri in ("hub://a/b", "sample://a/b", "other"):
        notes = {"internal.serving.kserve.io/storage-initializer-sourceuri": uri}
        labels = {"serving.kserve.io/inferenceservice": "iris"}
        pod = {
            "metadata": {"annotations": notes, "labels": labels},
            "spec": {"containers": [{"name": "kserve-container"}]},
        }
        pods.append(mutated(pod, "default", None, facts))
    several = service(
        {"model": {"modelFormat": {"name": "sklearn"}}, "storageUris": [{"uri": "hub://a", "mountPath": "/mnt/a"}]}
    )
    return pods, _attempt(several, Surroundings(shipped().settings, [*shipped().objects, container]))


def service(predictor: Json, extra: Json | None = None, **annotations: str) -> Json:
    notes = {f"serving.kserve.io/{key}": value for key, value in annotations.items()}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "iris", "namespace": "default", "annotations": notes},
        "spec": {"predictor": predictor} | (extra or {}),
    }
