"""Every recorded input, offline: accepted or refused as KServe did, and stored with the same fields."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from serveplane.api.admission import Context, Lookup, stored, validate
from serveplane.api.llminferenceservice.conversion import converted
from serveplane.settings import settings_from
from tests.conformance.recorded import GOLDEN, Case, cases
from tests.kit.api import documents

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no recorded cases in {GOLDEN} (set SERVEPLANE_GOLDEN)")
Json = dict[str, Any]
OURS = "serving.kserve.io/"
CLUSTER_KINDS = ("LocalModelCache", "LocalModelNodeGroup", "ClusterServingRuntime", "ClusterStorageContainer")
REFUSED_ON_PURPOSE = {"isvc-standard/storage-unknown-prefix"}
"""Accepted by KServe, then never progressing: a scheme that nothing downloads."""
CAPPED = {"isvc-standard/transformer-grpc"}
"""Where KServe's default request exceeds the user's limit, so that no pod could be made."""
BY_CONTROLLER = ("inferenceservice", "serving.kserve.io/trainedmodel-allocated")
"""Labels that a controller writes, not admission."""


@cache
def baseline(name: str) -> list[Json]:
    file = GOLDEN / "baseline" / f"{name}.yaml"
    return documents(file) if file.exists() else []


def context_of(case: Case, objects: Lookup) -> Context:
    config = next(item for item in baseline("configmaps") if item["metadata"]["name"] == "inferenceservice-config")
    data = {**config["data"]}
    for key, change in case.settings.items():
        data[key] = json.dumps(json.loads(data.get(key, "{}")) | change)
    return Context(settings_from({"data": data}).policy, objects)


class World:
    """What the case has put into the cluster so far."""

    def __init__(self, case: Case) -> None:
        self.objects: dict[tuple[str, str], Json] = {}
        self.case = case
        self.rest = baseline("clusterstoragecontainers") + baseline("clusterservingruntimes")
        self.context = context_of(case, self.lookup)

    def lookup(self, kind: str, namespace: str) -> Iterator[Json]:
        for obj in [*self.objects.values(), *self.rest]:
            if obj["kind"] == kind and (not namespace or obj["metadata"].get("namespace") == namespace):
                yield obj

    def put(self, obj: Json) -> tuple[str, ...]:
        """Stores an object if admission lets it; the refusals otherwise."""
        if obj["kind"] not in CLUSTER_KINDS:
            obj["metadata"].setdefault("namespace", self.case.name)
        key = (obj["kind"], obj["metadata"]["name"])
        ours = obj["apiVersion"].startswith(OURS)
        result = stored(obj, self.context) if ours else obj
        verdict = validate(result, self.objects.get(key), self.context)
        if verdict.allowed:
            self.objects[key] = result
        return tuple(str(error) for error in verdict.errors)


def played(case: Case) -> tuple[World, list[str]]:
    """The case put into a world, and what was refused of its last step."""
    world, refused = World(case), list[str]()
    for step in case.steps:
        if step.is_delete:
            continue
        assert not refused, (str(case), refused)
        refused = [problem for obj in step.objects for problem in world.put(obj)]
    return world, refused


CASES = cases() if GOLDEN.is_dir() else []


@pytest.mark.parametrize("case", CASES, ids=str)
def test_accepted_or_refused_as_recorded(case: Case) -> None:
    _, refused = played(case)
    assert bool(refused) == (case.is_refused or str(case) in REFUSED_ON_PURPOSE), refused


def compared(obj: Json) -> Json:
    metadata = obj["metadata"]
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key not in BY_CONTROLLER}
    return {"annotations": metadata.get("annotations") or {}, "labels": labels, "spec": obj["spec"]}


@pytest.mark.parametrize("case", [case for case in CASES if str(case) not in CAPPED | REFUSED_ON_PURPOSE], ids=str)
def test_stored_as_recorded(case: Case) -> None:
    world, _ = played(case)
    for expected in case.steps[-1].expected.get("object", []):
        found = world.objects[expected["kind"], expected["metadata"]["name"]]
        if expected["apiVersion"] != found["apiVersion"]:
            found = stored(converted(found, expected["apiVersion"]), world.context)
        elif expected["kind"] == "LLMInferenceService" and expected["apiVersion"].endswith("v1alpha1"):
            newer = stored(converted(found, f"{OURS}v1alpha2"), world.context)  # what is read has been stored newer
            found = converted(newer, expected["apiVersion"])
        assert compared(found) == compared(expected)


def test_the_limits_that_kserve_exceeds_are_kept() -> None:
    world, _ = played(Case(Path(GOLDEN / "isvc-standard" / "transformer-grpc")))
    service = next(item for (kind, _), item in world.objects.items() if kind == "InferenceService")
    container = service["spec"]["transformer"]["containers"][0]
    assert container["resources"]["requests"] == container["resources"]["limits"]
