"""Both servers, once per run: the real one without its controller manager, so that nobody else writes."""

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.samples import WIDGET
from tests.embedded.servers import Answer, Api, Embedded, differences, normal
from tests.kit.plugin import running_testbed

NUMBERS = itertools.count(1)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="session")
def real() -> Iterator[Api]:
    with running_testbed() as bed:
        if "kube-controller-manager" in bed.processes:
            bed.stop_program("kube-controller-manager")
        yield Api("real", bed.url, bed.token, str(bed.ca))


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    server = Embedded(tmp_path_factory.mktemp("embedded"))
    try:
        yield server
    finally:
        server.stop()


class Bare(Embedded):
    """The server alone, without the loops that are the controller manager's elsewhere."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.embedded.generated.bare"]


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    server = Bare(tmp_path_factory.mktemp("bare"))
    try:
        yield server.api()
    finally:
        server.stop()


@dataclass
class Both:
    """The two servers and what they disagreed about."""

    ours: Api
    real: Api
    found: list[str] = field(default_factory=list)

    def same(self, label: str, ask: Callable[[Api], Any]) -> Any:
        """Ask both; remember every difference under the label. The embedded server's answer is returned."""
        here, there = ask(self.ours), ask(self.real)
        self.found += [f"{label}{line}" for line in differences(normal(_plain(here)), normal(_plain(there)))]
        return here

    def check(self) -> None:
        assert not self.found, "the two servers differ:\n" + "\n".join(self.found[:40])


def _plain(answer: Any) -> Any:
    return [answer.status, answer.value] if isinstance(answer, Answer) else answer


@pytest.fixture
def both(real: Api, embedded: Embedded) -> Both:
    return Both(embedded.api(), real)


@pytest.fixture
def space(both: Both) -> str:
    """A namespace of the same name on both, with the account pods need and the custom resource of the samples."""
    name = f"suite-{next(NUMBERS)}"
    for api in (both.ours, both.real):
        assert api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
        api.call("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
        install(api)
    return name


def install(api: Api) -> None:
    """The custom resource, served: the real server needs a moment after it says so."""
    import time

    api.call("POST", DEFINITIONS, WIDGET)
    for _ in range(100):
        if api.call("GET", "/apis/suite.example.com/v1/namespaces/default/widgets").status == 200:
            return
        time.sleep(0.05)
    raise AssertionError(f"{api.name} does not serve the widgets")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"
