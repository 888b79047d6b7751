"""Whatever admission lets through can be decided: a plan or a reason, never an exception."""
import contextlib
import copy
import functools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serveplane.api.admission import Context, stored, validate
from serveplane.clock import SYSTEM
from serveplane.controllers.inferenceservice.decide import decide
from serveplane.controllers.inferenceservice.outcome import outcome
from serveplane.controllers.inferenceservice.world import World
from serveplane.objects.yamlio import load_all
from serveplane.render.facts import Facts
from serveplane.render.pods.mutate import mutated
from serveplane.render.runtimes import InvalidSpec
from serveplane.settings import SHIPPED
from tests.counts import SEED

Json = dict[str, Any]
CASES = Path(__file__).parents[2] / "golden" / "inferenceservice"
ODD: list[Any] = [None, "", "x", "{{.Name}}", "{{ nonsense }}", 0, -1, 1, 2**31, True, [], {}, [{}], "../..", "a" * 300, "é", "oci+x://y", "pvc://"]
ROUNDS = 60


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in pairs:
        yield (*path, key)
        yield from places(child, (*path, key))


def changed(service: Json, chance: random.Random) -> Json:
    """A service with one to three of its values replaced by something odd, or taken away."""
    result = copy.deepcopy(service)
    for _ in range(chance.randint(1, 3)):
        found = list(places(result["spec"], ("spec",)))
        if not found:
            break
        path = chance.choice(found)
        parent: Any = result
        for key in path[:-1]:
            parent = parent[key]
        if isinstance(parent, dict) and chance.random() < 0.3:
            del parent[path[-1]]
        else:
            parent[path[-1]] = copy.deepcopy(chance.choice(ODD))
    return result


@pytest.mark.parametrize("case", sorted(CASES.iterdir()), ids=lambda case: case.name)
def test_what_is_admitted_can_be_decided(case: Path) -> None:
    chance = random.Random(f"{SEED} {case.name}")
    original = load_all((case / "service.yaml").read_text())[0]
    original["metadata"]["namespace"] = "ml"
    decided = 0
    for _ in range(ROUNDS):
        service = changed(original, chance)
        context = Context(policy=SHIPPED.policy)
        if not validate(service, None, context).allowed:
            continue
        raw = stored(service, context)
        raw["metadata"] |= {"uid": "u", "generation": 1, "annotations": {**(raw["metadata"].get("annotations") or {}),
                                                                         "serving.kserve.io/deploymentMode": "Standard"}}
        facts = Facts(settings=SHIPPED, cluster_runtimes=runtimes())
        world = World(raw=raw, facts=facts, now=SYSTEM.now())
        plan = decide(world)
        assert outcome(world, plan, {}).status["conditions"]
        for child in plan.children:
            admit(child, facts)
        decided += 1
    assert decided > 0


def admit(child: Json, facts: Facts) -> None:
    if child["kind"] == "Deployment":
        template = child["spec"]["template"]
        with contextlib.suppress(InvalidSpec):
            mutated({"metadata": template["metadata"], "spec": template["spec"]}, "ml", None, facts)


@functools.cache
def runtimes() -> list[Any]:
    from serveplane.api.model import read
    from serveplane.api.servingruntime import ServingRuntime
    from serveplane.cli.offline import _shipped
    return [read(ServingRuntime, obj) for obj in _shipped() if obj["kind"] == "ClusterServingRuntime"]
