"""Children as rendered here against children as KServe was observed to make them."""
import datetime
from pathlib import Path

import pytest

from serveplane.controllers.inferenceservice.decide import decide
from serveplane.controllers.inferenceservice.world import World
from serveplane.objects import Json
from tests.golden.comparison import differences
from tests.golden.observed import ROOT, Case, cases

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
FOLDERS = [*cases("isvc-standard"), *cases("pods")]
RENDERED = [folder for folder in FOLDERS if (folder / "children.yaml").exists()]
needs_golden = pytest.mark.skipif(not ROOT.is_dir(), reason=f"no observed cases at {ROOT}; set SERVEPLANE_GOLDEN")

# What KServe was seen to do wrong and we do right; each has its line in docs/compatibility.md.
MENDED = {
    "canary-two": "the canary of another format gets its own runtime, so the stable predictor and its routes exist",
    "multinode-vllm": "the group comes to rest, so its routes exist",
    "runtime-multi-container": "a container that both sides name is merged by name, so the Deployment is accepted",
    "transformer-grpc": "requests are capped at the limit, so the transformer and the routes exist",
    "update-autoscaler-class": "the former autoscaler is removed",
}

# Lines that differ because KServe leaves an object as it once made it.
STALE = {
    "auto-update-runtime": "Deployment stays-predictor: spec.template.spec.containers[0].image",   # held back by the controller, not here
    "update-autoscaler-class": "Service switches-predictor: metadata.annotations",                # KServe never updates metadata
}


def rendered(case: Case) -> dict[tuple[str, str], Json]:
    facts = case.facts()
    result = {}
    for stored in case.services:
        stored["metadata"] |= {"uid": "uid", "generation": 1}
        plan = decide(World(raw=stored, facts=facts, now=NOW, assume_healthy=True))
        result |= {(child["kind"], child["metadata"]["name"]): child for child in plan.children}
    return result


@needs_golden
@pytest.mark.parametrize("folder", RENDERED, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_children_are_those_that_kserve_makes(folder: Path) -> None:
    case = Case(folder)
    ours = rendered(case)
    theirs = {(child["kind"], child["metadata"]["name"]): child for child in case.children if child["kind"] != "Pod"}
    problems = [f"{kind} {name}: {line}" for (kind, name), child in theirs.items() if (kind, name) in ours
                for line in differences(ours[kind, name], child)]
    problems = [line for line in problems if not line.startswith(STALE.get(case.name, "-"))]
    if case.name not in MENDED:
        problems += [f"missing {key}" for key in theirs.keys() - ours.keys()]
        problems += [f"too much {key}" for key in ours.keys() - theirs.keys()]
    assert problems == []


@needs_golden
@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if (folder / "status.yaml").exists() and folder not in RENDERED],
                         ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_what_kserve_could_not_render_is_not_rendered(folder: Path) -> None:
    assert rendered(Case(folder)) == {}
