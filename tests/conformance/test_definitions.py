"""Our CustomResourceDefinitions hold what KServe's hold: every recorded object, as stored there, is stored here unchanged."""
import copy
from typing import Any

import pytest

from tests.conformance.compare import differences
from tests.conformance.recorded import GOLDEN, Case, cases
from tests.kit.api import Api, Refused, documents
from tests.kit.installation import Installation

pytestmark = [pytest.mark.testbed, pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no recorded cases in {GOLDEN} (set SERVEPLANE_GOLDEN)")]
Json = dict[str, Any]
# Stored in another version than written, which takes the conversion webhook: tests/testbed/api has that one running.
CONVERTED = {"serving.kserve.io/v1alpha1": {"LLMInferenceService", "LLMInferenceServiceConfig"}}


@pytest.fixture
def definitions(installation: Installation) -> Installation:
    if installation.managers:
        pytest.skip("webhooks are in force by now, and have a say of their own (run this file first, or alone)")
    return installation


@pytest.mark.parametrize("area", sorted({case.area for case in cases()}))
async def test_recorded_objects_are_stored_unchanged(area: str, definitions: Installation, api: Api, namespace: str) -> None:
    problems = []
    for case in cases():
        if case.area == area:
            problems += [f"{case}: {problem}" for problem in await _problems(case, api, namespace)]
    assert not problems, "\n" + "\n".join(problems)


async def test_the_recorded_runtimes_are_stored_unchanged(definitions: Installation, api: Api) -> None:
    for kind in ("clusterservingruntimes", "clusterstoragecontainers"):
        for obj in documents(GOLDEN / "baseline" / f"{kind}.yaml"):
            assert await _stored_differently(obj, None, api) == []


async def _problems(case: Case, api: Api, namespace: str) -> list[str]:
    found = []
    for number, obj in enumerate(case.steps[-1].expected.get("object", [])):
        if obj["kind"] not in CONVERTED.get(obj["apiVersion"], ()) and await _is_served(obj, api):
            sent = copy.deepcopy(obj)
            sent["metadata"] |= {"name": f"{case.name[:40]}-{number}"}
            sent["metadata"].pop("namespace", None)
            found += await _stored_differently(sent, namespace, api)
    return found


async def _is_served(obj: Json, api: Api) -> bool:
    try:
        await api.resource(obj["apiVersion"], obj["kind"])
    except Refused:
        return False
    return True


async def _stored_differently(obj: Json, namespace: str | None, api: Api) -> list[str]:
    """Tried without storing, so that nothing acts on it."""
    sent = {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key not in ("ownerReferences", "finalizers")}}
    try:
        stored = await api.call("POST", await api.collection_of(sent, namespace), sent, dryRun="All")
    except Refused as refusal:
        return [refusal.message]
    stub = {"kind": obj["kind"], "metadata": {"name": obj["metadata"]["name"]}}
    before, after = ({"object": [{**stub, "spec": it.get("spec")}]} for it in (sent, stored))
    return [str(difference) for difference in differences(before, after)]
