"""Recorded inputs, conversion and broken objects through real webhooks."""

import copy
from random import Random
from typing import Any

import pytest

from serveplane.api.llminferenceservice.conversion import NEWER, OLDER
from serveplane.api.mode import Mode
from serveplane.api.policy import Policy
from tests.conformance.recorded import GOLDEN, Case, cases
from tests.counts import COUNTS, SEED
from tests.kit.api import Api, Refused
from tests.testbed.api.hooks import Hooks
from tests.unit.api.generated import KINDS, an_object, broken
from tests.unit.api.test_recorded import CAPPED, OURS, REFUSED_ON_PURPOSE, baseline, compared, context_of
from tests.unit.api.test_samples import ALL as SAMPLES

pytestmark = pytest.mark.testbed
Json = dict[str, Any]
AREAS = sorted({case.area for case in cases()}) if GOLDEN.is_dir() else []
recorded = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no recorded cases in {GOLDEN} (set SERVEPLANE_GOLDEN)")


def words(refusal: Refused) -> str:
    """What was said against an object; a server that failed has said nothing."""
    assert refusal.status in (400, 403, 404, 413, 422), refusal.message
    return refusal.message


class Replay:
    """One recorded case on the API server."""

    def __init__(self, case: Case, hooks: Hooks, api: Api) -> None:
        self.case, self.hooks, self.api = case, hooks, api
        self.made: dict[tuple[str, str], Json] = {}
        hooks.policy = context_of(case, lambda *_: ()).policy
        hooks.objects = baseline("clusterstoragecontainers") + baseline("clusterservingruntimes")

    async def put(self, obj: Json) -> None:
        key = (obj["kind"], obj["metadata"]["name"])
        stored = await self.api.kubectl_apply(copy.deepcopy(obj), self.case.name, self.made.get(key))
        self.made[key] = obj
        self.hooks.objects.append(stored)

    async def play(self) -> str:
        """The words in which the last step was refused, if it was."""
        for step in self.case.steps:
            for obj in step.objects:
                if step.is_delete or not obj["apiVersion"].startswith(OURS):
                    continue
                try:
                    await self.put(obj)
                except Refused as refusal:
                    return words(refusal)
        return ""

    async def problems(self) -> list[str]:
        refused = await self.play()
        if bool(refused) != (self.case.is_refused or str(self.case) in REFUSED_ON_PURPOSE):
            return [f"{self.case}: {refused or 'accepted'}"]
        if str(self.case) in CAPPED | REFUSED_ON_PURPOSE:
            return []
        found = []
        for expected in self.case.steps[-1].expected.get("object", []):
            metadata = expected["metadata"]
            stored = await self.api.get(
                expected["apiVersion"], expected["kind"], metadata["name"], metadata.get("namespace")
            )
            if stored is None or compared(stored) != compared(expected):
                found.append(f"{self.case}: {expected['kind']} {metadata['name']}\n{stored}\n{expected}")
        return found


@recorded
@pytest.mark.parametrize("area", AREAS)
async def test_recorded_inputs_are_stored_or_refused_as_recorded(area: str, hooks: Hooks, api: Api) -> None:
    problems = []
    for case in [case for case in cases() if case.area == area]:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.name}}
        await api.apply(space)
        replay = Replay(case, hooks, api)
        problems += await replay.problems()
        for obj in reversed(replay.made.values()):
            hooks.objects = []
            await api.delete(obj, case.name)
        await api.delete(space)
    assert not problems, "\n".join(problems)


async def accepted(api: Api, obj: Json, namespace: str) -> Json | None:
    try:
        return await api.create(obj, namespace)
    except Refused as refusal:
        return words(refusal) and None


async def test_an_object_survives_being_read_and_written_in_the_other_version(
    hooks: Hooks, api: Api, namespace: str
) -> None:
    random, survivors = Random(SEED), 0
    for number in range(COUNTS.fuzzed_objects // 10):
        obj = an_object(NEWER, "LLMInferenceServiceConfig", random)
        obj["metadata"] = {"name": f"c{number}"}
        obj["spec"].pop("baseRefs", None)
        if await accepted(api, obj, namespace) is None:
            continue
        before = await api.get(NEWER, obj["kind"], f"c{number}", namespace)
        older = await api.get(OLDER, obj["kind"], f"c{number}", namespace)
        assert before is not None
        assert older is not None
        collection = await api.collection_of(older, namespace)
        await api.call("PUT", f"{collection}/c{number}", older)
        after = await api.get(NEWER, obj["kind"], f"c{number}", namespace)
        assert after is not None
        assert after["spec"] == before["spec"]
        assert after["metadata"].get("annotations") == before["metadata"].get("annotations")
        survivors += 1
    assert survivors > COUNTS.fuzzed_objects // 50


@pytest.mark.parametrize(("version", "kind"), KINDS, ids=lambda word: word.rsplit("/", 1)[-1])
async def test_broken_objects_are_answered_not_failed(
    version: str, kind: str, hooks: Hooks, api: Api, namespace: str
) -> None:
    random = Random(f"{SEED} {kind} {version}")
    for _ in range(COUNTS.fuzzed_objects // len(KINDS)):
        whole = an_object(version, kind, random)
        for obj in (whole, broken(whole, random) | {"apiVersion": version, "kind": kind}):
            collection = await api.collection_of({"apiVersion": version, "kind": kind, "metadata": {}}, namespace)
            if isinstance(obj.get("metadata"), dict):
                obj["metadata"] = {**obj["metadata"], "namespace": namespace}
            try:
                await api.call("POST", collection, obj, dryRun="All")
            except Refused as refusal:
                words(refusal)


async def test_every_sample_applies(hooks: Hooks, api: Api, namespace: str) -> None:
    hooks.objects, hooks.policy = list(SAMPLES.values()), Policy(default_mode=Mode.STANDARD)
    for file, obj in SAMPLES.items():
        refused = ""
        try:
            await api.apply(obj, namespace)
        except Refused as refusal:
            refused = words(refusal)
        assert not refused, file
    for obj in SAMPLES.values():
        hooks.objects = []
        await api.delete(obj, namespace)


async def test_a_cached_model_in_use_cannot_be_deleted(hooks: Hooks, api: Api, namespace: str) -> None:
    group = "serving.kserve.io/v1alpha1"
    name = f"iris-{namespace}"
    spec = {"sourceModelUri": "gs://models/iris", "modelSize": "1Gi", "nodeGroups": ["cpu"]}
    cache = {"apiVersion": group, "kind": "LocalModelCache", "metadata": {"name": name}, "spec": spec}
    hooks.objects = []
    await api.create(cache)
    user = {"name": "iris", "namespace": namespace}
    await api.patch(cache, {"status": {"inferenceServices": [user]}}, subresource="status")
    label = {"internal.serving.kserve.io/localmodel": name}
    hooks.objects = [{"kind": "InferenceService", "metadata": {**user, "labels": label}}]
    with pytest.raises(Refused, match="in use by InferenceService"):
        await api.delete(cache)
    hooks.objects = []  # the service is gone; its mention in the status holds nothing
    await api.delete(cache)
