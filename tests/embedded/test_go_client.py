"""A client-go program with a shared informer, built here and run against the embedded server."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.embedded.servers import Embedded

GO = shutil.which("go")
SOURCE = Path(__file__).parent / "goclient"
pytestmark = [pytest.mark.testbed, pytest.mark.skipif(GO is None, reason="Go is not installed")]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("goclient") / "goclient"
    built = subprocess.run(
        [str(GO), "build", "-o", str(place), "."], cwd=SOURCE, capture_output=True, text=True, timeout=1200
    )
    if built.returncode:
        pytest.skip(f"client-go could not be built here: {built.stderr[-300:]}")
    return place


def test_a_typed_client_and_a_shared_informer(embedded: Embedded, program: Path) -> None:
    done = subprocess.run([str(program), embedded.kubeconfig], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["added 1", "updated 2", "deleted 2"]
