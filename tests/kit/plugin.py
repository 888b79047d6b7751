"""The fixtures that need a real control plane. Asking for one starts it; a run that asks for none never pays."""
import asyncio
import itertools
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.kit.api import Api, documents, install
from tests.kit.installation import Installation
from tests.kit.processes import start, stop
from tests.kit.testbed import Testbed, Unavailable, start_testbed

NEIGHBOURS = Path(__file__).parent / "neighbours"
NUMBERS = itertools.count(1)
T = TypeVar("T")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who needs our manager comes last: from then on its webhooks are in force and it acts on whatever others create."""
    items.sort(key=lambda item: "manager" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def testbed(pytestconfig: pytest.Config) -> Iterator[Testbed]:
    """The control plane of this test run."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with running_testbed(capture.global_and_fixture_disabled()) as bed:   # a cold build takes minutes: whoever waits must see why
        yield bed


@contextmanager
def running_testbed(while_starting: AbstractContextManager[object] | None = None) -> Iterator[Testbed]:
    """A control plane until the block ends; where there can be none, whoever asks is skipped."""
    try:
        with while_starting or nullcontext():
            bed = start_testbed()
    except Unavailable as reason:
        pytest.skip(f"no real control plane: {reason}")
    try:
        yield bed
    finally:
        bed.stop()


@pytest.fixture
async def api(testbed: Testbed) -> AsyncIterator[Api]:
    """The administrator's client."""
    async with Api(testbed.kubeconfig) as client:
        yield client


@pytest.fixture
async def namespace(api: Api, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A namespace for this test alone; its removal goes on in the background."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_")).strip("-")
    name = f"t{next(NUMBERS)}-{words}"[:36].rstrip("-")      # it becomes part of host names, whose parts end at 63 letters
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await api.create(space)
    yield name
    await api.delete(space)


@pytest.fixture(scope="session")
def neighbours(testbed: Testbed) -> Testbed:
    """The control plane with the CRDs of everything that our children are made for: Knative, Gateway API, KEDA, …"""
    async def put() -> None:
        async with Api(testbed.kubeconfig) as client:
            await install(client, [document for file in sorted(NEIGHBOURS.glob("*.yaml")) for document in documents(file)])
    run_apart(put)
    return testbed


def run_apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Async work of a session fixture, on a loop of its own: the tests' loops come and go."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(work())).result()


@pytest.fixture(scope="session")
def world(neighbours: Testbed) -> Iterator[Testbed]:
    """The control plane with somebody who plays kubelet, Knative and gateways; see `tests.kit.world` for how to make pods fail."""
    log = neighbours.folder / "world.log"
    process = start([sys.executable, "-m", "tests.kit.world", neighbours.kubeconfig], log)
    yield neighbours
    stop(process)


@pytest.fixture(scope="session")
def installation(world: Testbed) -> Iterator[Installation]:
    """The project's own manifests on the played cluster; nothing of it runs yet."""
    installed = Installation(world)
    run_apart(lambda: installed.put(webhooks=False))
    yield installed
    installed.stop()


@pytest.fixture(scope="session")
def manager(installation: Installation) -> Installation:
    """The same with the kserve manager running, its webhooks in force."""
    run_apart(lambda: installation.put(webhooks=True))      # as in a real installation: the manager then makes them work
    installation.run("kserve", "--leader-elect").await_ready()
    run_apart(installation.await_defaults)
    return installation
