"""The fixture that others use: named as its page names it, and usable from a folder that knows nothing of this one."""

import subprocess
import sys
from pathlib import Path

TEST = """
pytest_plugins = ["serveplane.embedded.testing"]
from serveplane.kube.client import Client
from serveplane.kube.kind import Kind


async def test_it(kube_api_server):
    client = Client(kube_api_server.transport())
    await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"x": "y"}})
    assert (await client.get(Kind("v1", "ConfigMap"), "a", "default"))["data"] == {"x": "y"}
"""


def test_a_stranger_can_use_it(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TEST)
    options = ["-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "--rootdir", str(tmp_path)]
    words = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
