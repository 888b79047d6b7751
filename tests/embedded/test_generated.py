"""Runs of operations that Hypothesis makes up, on both servers: same answers, same warnings, same watch events.

The seed is in `tests.counts` (SERVEPLANE_SEED) and printed with every failure, which names the step and all that differs. Runs are not
shrunk: each try would ask two servers some thirty things.
"""

import itertools
import time

import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings

from tests.counts import COUNTS, SEED
from tests.embedded.conftest import DEFINITIONS, install
from tests.embedded.generated.gadget import GADGET
from tests.embedded.generated.kinds import KINDS
from tests.embedded.generated.operations import Operation, runs
from tests.embedded.generated.playing import Run
from tests.embedded.servers import Api

pytestmark = [pytest.mark.testbed, pytest.mark.stress]
SHORTEST, LONGEST = 20, 40
SPACES = itertools.count(1)
PLAYED: dict[str, int] = {}


@pytest.fixture(scope="module")
def pair(bare: Api, real: Api) -> tuple[Api, Api]:
    for api in (bare, real):
        install(api)
        api.call("POST", DEFINITIONS, GADGET)
        _await(api, "/apis/suite.example.com/v1/gadgets")
    return bare, real


def _await(api: Api, path: str) -> None:
    for _ in range(200):
        if api.call("GET", path).status == 200:
            return
        time.sleep(0.05)
    raise AssertionError(f"{api.name} does not serve {path}")


def test_two_servers_cannot_be_told_apart(pair: tuple[Api, Api]) -> None:
    @seed(SEED)
    @settings(
        max_examples=max(COUNTS.generated_operations // SHORTEST, 1),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
        print_blob=False,
    )
    @given(runs(SHORTEST, LONGEST))
    def play(operations: list[Operation]) -> None:
        _play(*pair, operations)

    print(f"generated runs from seed {SEED}")
    play()
    print(f"{sum(PLAYED.values())} operations:", dict(sorted(PLAYED.items())))
    assert sum(PLAYED.values()) >= COUNTS.generated_operations


def _play(ours: Api, real: Api, operations: list[Operation]) -> None:
    note(f"seed {SEED}")
    space = f"generated-{int(time.time())}-{next(SPACES)}"
    for api in (ours, real):
        assert api.call("POST", "/api/v1/namespaces", {"metadata": {"name": space}}).status == 201
        api.call("POST", f"/api/v1/namespaces/{space}/serviceaccounts", {"metadata": {"name": "default"}})
    touched = {(operation.kind.api, operation.kind.plural) for operation in operations}
    run = Run(ours, real, space, [kind for kind in KINDS if (kind.api, kind.plural) in touched])
    for number, operation in enumerate(operations):
        PLAYED[operation.verb] = PLAYED.get(operation.verb, 0) + 1
        found = run.play(operation)
        assert not found, f"seed {SEED}, step {number}: {operation}\n" + "\n".join(found[:20])
    events = list(run.events())
    assert not events, f"seed {SEED}, after {len(operations)} operations:\n" + "\n".join(events[:20])
