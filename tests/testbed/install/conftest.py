"""An empty cluster of its own: installing changes what is cluster-wide, and the other tests share theirs."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kit.plugin import NEIGHBOURS, running_testbed
from tests.kit.processes import start, stop
from tests.kit.testbed import Testbed
from tests.kit.waiting import soon

ROOT = Path(__file__).parents[3]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def empty(testbed: Testbed) -> Iterator[Testbed]:
    """A second control plane, with nothing in it. (The first is asked for so that a machine without one skips here too.)"""
    with running_testbed() as bed:
        if bed.network is None:
            pytest.skip("the cluster given by KUBECONFIG is not empty")
        yield bed


@pytest.fixture(scope="module")
def kubectl(empty: Testbed) -> Run:
    return _program(empty, "kubectl")


@pytest.fixture(scope="module")
def played(empty: Testbed, kubectl: Run) -> Iterator[Testbed]:
    """The same with the definitions of our neighbours, and somebody who plays kubelet and gateway."""
    kubectl("apply", "--server-side", "-f", str(NEIGHBOURS))
    await_definitions(kubectl)
    world = start([sys.executable, "-m", "tests.kit.world", empty.kubeconfig], empty.folder / "world.log")
    yield empty
    stop(world)


@pytest.fixture(scope="module")
def helm(empty: Testbed) -> Run:
    return _program(empty, "helm")


def await_definitions(kubectl: Run) -> None:
    """Until every definition is served. kubectl gives up on one whose status is still empty, so it is asked again."""
    soon(lambda: kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s", check=False).returncode == 0)


def _program(bed: Testbed, name: str) -> Run:
    path = bed.program(name)

    def run(*arguments: str, check: bool = True, text: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [path, "--kubeconfig", bed.kubeconfig, *arguments]
        result = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, timeout=120)
        assert not check or result.returncode == 0, result.stderr
        return result

    return run
