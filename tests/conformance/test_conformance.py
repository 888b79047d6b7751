"""KServe's recorded behaviour, replayed on a real API server with our manager: the objects must come out the same.

All chosen cases are played at once in the background; each test then reports its own. Those of kinds that have no
controller yet are skipped, and run by themselves as soon as there is one.
"""
import asyncio
import importlib.util
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from tests.conformance.baseline import put_baseline
from tests.conformance.compare import Differs
from tests.conformance.recorded import GOLDEN, Case, cases
from tests.conformance.replay import Result, replay
from tests.kit.api import Api
from tests.kit.installation import Installation
from tests.kit.plugin import run_apart
from tests.kit.testbed import Testbed

pytestmark = pytest.mark.testbed
SECONDS = 600
# What must exist before an area can be played: the module that brings its kinds about.
NEEDED = {
    "isvc-standard": "serveplane.controllers.inferenceservice", "pods": "serveplane.controllers.inferenceservice",
    "servingruntime": "serveplane.managers.kserve", "isvc-serverless": "serveplane.render.knative",
    "graph": "serveplane.controllers.inferencegraph", "trainedmodel": "serveplane.controllers.trainedmodel",
    "llmisvc": "serveplane.controllers.llminferenceservice", "localmodel": "serveplane.controllers.localmodel",
}


def parameters() -> list[object]:
    missing = {area: pytest.mark.skipif(not _exists(module), reason=f"{module} is not written yet") for area, module in NEEDED.items()}
    return [pytest.param(case, id=str(case), marks=missing[case.area]) for case in cases()]


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


class Replay:
    """The cases being played, on a thread of its own; a result is there when its case has ended."""

    def __init__(self, testbed: Testbed, chosen: list[Case]) -> None:
        self.results: dict[Case, Future[Result]] = {case: Future() for case in chosen}
        self._testbed = testbed
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._play())
        except BaseException as problem:
            for future in self.results.values():
                if not future.done():
                    future.set_exception(problem)

    async def _play(self) -> None:
        async with Api(self._testbed.kubeconfig, agent="conformance") as api:
            await replay(api, self.results, lambda case, result: self.results[case].set_result(result))

    def end(self) -> None:
        self._thread.join(SECONDS)


@pytest.fixture(scope="module")
def replayed(request: pytest.FixtureRequest, world: Testbed, manager: Installation) -> Iterator[Replay]:
    chosen = [item.callspec.params["case"] for item in request.session.items
              if isinstance(item, pytest.Function) and item.originalname == "test_outcome_is_as_recorded"
              and not any(mark.args[0] for mark in item.iter_markers("skipif"))]
    run_apart(lambda: put_baseline(world))
    running = Replay(world, chosen)
    yield running
    running.end()


@pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no recorded cases in {GOLDEN} (set SERVEPLANE_GOLDEN)")
@pytest.mark.parametrize("case", parameters())
def test_outcome_is_as_recorded(case: Case, replayed: Replay) -> None:
    problems = replayed.results[case].result(SECONDS).problems
    if problems:
        raise Differs(problems)
