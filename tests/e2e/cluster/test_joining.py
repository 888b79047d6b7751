"""The node speaks the Kubernetes API only, so it joins a real kube-apiserver, and the real controllers and scheduler use it."""
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.api import Api
from tests.kit.processes import marked
from tests.kit.testbed import Testbed
from tests.kit.waiting import eventually
from tests.kit.world.rules import OFF

pytestmark = pytest.mark.testbed


@contextmanager
def joined(testbed: Testbed, folder: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "serveplane.cli.main", "node", "--kubeconfig", str(testbed.kubeconfig), "--name", "process-node",
             "--folder", str(folder), "--network", "127.99.0.0/20", "--label", "test=joining"]
    with (folder.parent / "node.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        yield "process-node"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(90)


def _deployment(namespace: str) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "command": ["sh", "-c", "sleep 1000"]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "joined", "namespace": namespace},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "joined"}},
                     "template": {"metadata": {"labels": {"app": "joined"}},
                                  "spec": {"containers": [container], "terminationGracePeriodSeconds": 1,
                                           "nodeSelector": {"test": "joining"}}}}}


async def test_a_real_cluster_runs_pods_on_it(testbed: Testbed, api: Api, namespace: str, tmp_path: Path) -> None:
    deployment = _deployment(namespace)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await api.patch(space, {"metadata": {"annotations": {OFF: "true"}}})  # nobody plays these pods: a real node runs them
    with testbed.scheduler(), joined(testbed, tmp_path / "node"):
        await api.create(deployment)

        async def available() -> bool:
            found = await api.get("apps/v1", "Deployment", "joined", namespace)
            return found is not None and (found.get("status") or {}).get("availableReplicas") == 2
        await eventually(available, 150, lambda: (tmp_path / "node.log").read_text()[-2000:])
        there = await api.list("v1", "Pod", namespace)
        assert {pod["spec"]["nodeName"] for pod in there} == {"process-node"}
        assert len({pod["status"]["podIP"] for pod in there}) == 2
        assert len(marked(tmp_path / "node")) >= 2
        await api.delete(deployment)

        async def gone() -> bool:
            return not await api.list("v1", "Pod", namespace)
        await eventually(gone, 150)
    assert marked(tmp_path / "node") == []
    await api.delete({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "process-node"}})
