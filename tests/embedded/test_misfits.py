"""One field of an object is something else than it should be. Whatever the answer is (the real server has a 500 for some of these), it
is meant: nothing ends in a failure that nobody thought of.
"""

import copy
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from serveplane.embedded.apiserver import ADMIN
from serveplane.embedded.testing import TestServer, api_server
from tests.counts import SEED
from tests.embedded.samples import SAMPLES, WIDGET, Sample
from tests.embedded.servers import APPLY, MERGE, STRATEGIC

Json = dict[str, Any]
Path = tuple[str | int, ...]
MISFITS: list[Any] = [
    5, -1, 1.5, 10**30, "x", "a" * 300, True, None, [], {}, [None], [5], [[]], ["x", {}], {"a": None}, {"": 5}, {"x": {"y": [1]}},
]  # fmt: skip
WAYS = (("POST", "application/json"), ("PUT", "application/json"), ("PATCH", MERGE), ("PATCH", STRATEGIC), ("PATCH", APPLY))
JSON = {"content-type": "application/json"}


def places(value: Any, here: Path = ()) -> Iterator[Path]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*here, key)
        yield from places(child, (*here, key))


def replaced(value: Json, place: Path, new: Any) -> Json:
    changed: Any = copy.deepcopy(value)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = new
    return changed


async def answered(server: TestServer, sample: Sample, method: str, content: str, body: Json) -> str:
    path = sample.collection("default") + ("" if method == "POST" else "/base")
    query = "dryRun=All" + ("&fieldManager=x&force=true" if content == APPLY else "")
    _, _, data = await server.handle(method, path, query, {"content-type": content}, msgspec.json.encode(body), ADMIN)
    return data.decode() if isinstance(data, bytes) else ""


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.plural)
async def test_every_misfit_is_answered_on_purpose(sample: Sample) -> None:
    chance = random.Random(f"{SEED} {sample.plural}")
    async with api_server() as server:
        for path, obj in (
            ("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}),
            ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGET),
            (sample.collection("default"), sample.object("base")),
        ):
            await server.handle("POST", path, "", JSON, msgspec.json.encode(obj), ADMIN)
        whole = sample.object("base")
        for place in places(whole):
            for method, content in WAYS:
                misfit = chance.choice(MISFITS)
                told = await answered(server, sample, method, content, replaced(whole, place, misfit))
                assert "Internal error occurred" not in told, f"seed {SEED}: {method} {content} {place} = {misfit!r}: {told[:300]}"


async def test_every_misfit_in_a_definition_is_answered_on_purpose() -> None:
    chance = random.Random(f"{SEED} definitions")
    whole = copy.deepcopy(WIDGET)
    schema = whole["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["x-kubernetes-validations"] = [{"rule": "self.size > 0", "message": "m"}]
    definitions = Sample("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", {}, {}, namespaced=False)
    async with api_server() as server:
        for place in places(whole):
            for misfit in chance.sample(MISFITS, 5):
                told = await answered(server, definitions, "POST", "application/json", replaced(whole, place, misfit))
                assert "Internal error occurred" not in told, f"seed {SEED}: {place} = {misfit!r}: {told[:300]}"
