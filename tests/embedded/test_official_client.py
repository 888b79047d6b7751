"""The official Python client, unmodified, in an environment of its own."""

import subprocess
from pathlib import Path

import pytest
from bench import peers

from tests.embedded.servers import Embedded

PACKAGES = ("kubernetes==34.1.0",)
PROGRAM = Path(__file__).parent / "official_client.py"


@pytest.fixture(scope="module")
def python() -> Path:
    found = peers.environment(PACKAGES)
    if found is None:
        pytest.skip(f"{PACKAGES[0]} cannot be installed here (no package index?): the official client is NOT tested")
    return found


@pytest.mark.parametrize("name", ["records", "pages", "watch", "workload", "custom"])
def test_the_official_client(python: Path, embedded: Embedded, name: str) -> None:
    done = subprocess.run([python, PROGRAM, embedded.kubeconfig, name], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-3000:]
