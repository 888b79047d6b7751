"""/manager of the image's file tree at work: nobody's process, with nowhere to write, and a real API server that asks it.

KServe's manifests give it no writable folder, so it has to do without one.
"""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from serveplane.objects import Json
from tests.kit import credentials, image
from tests.kit.installation import NAMESPACE, PROGRAMS, Installation, Manager
from tests.kit.plugin import run_apart, running_testbed
from tests.kit.processes import free_ports, start
from tests.kit.testbed import RequestFailed, Testbed
from tests.kit.waiting import soon

pytestmark = pytest.mark.testbed
PROGRAM = PROGRAMS["kserve"]
MODEL = {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://acme/iris"}
ISVCS = "/apis/serving.kserve.io/v1beta1/namespaces/default/inferenceservices"


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """A control plane of its own: the webhooks of the shared one belong to another manager."""
    with running_testbed() as running:
        yield running


@pytest.fixture(scope="module")
def manager(tree: Path, bed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    installed = Installation(bed)
    run_apart(lambda: installed.put(webhooks=False))
    run_apart(lambda: installed.put(webhooks=True))
    running = _started(tree, bed, _handed(bed, tmp_path_factory.mktemp("handed")))
    try:
        running.await_ready()
        yield running
    finally:
        running.stop()


def _handed(bed: Testbed, folder: Path) -> Path:
    """What a kubelet would mount for a pod of this ServiceAccount: its token and whom to trust."""
    token = yaml.safe_load(bed.service_account(NAMESPACE, PROGRAM.account).read_text())["users"][0]["user"]["token"]
    assert bed.ca is not None
    (folder / "ca.crt").write_bytes(bed.ca.read_bytes())
    credentials.write_kubeconfig(folder / "kubeconfig", bed.url, Path("/tmp/ca.crt"), token)
    return folder


def _started(tree: Path, bed: Testbed, handed: Path) -> Manager:
    health, metrics, webhook = free_ports(3)
    bed.expose(NAMESPACE, PROGRAM.webhook_service, webhook)
    environment = {"KUBECONFIG": "/tmp/kubeconfig", "POD_NAMESPACE": NAMESPACE, "POD_NAME": "in-a-tree"}
    addresses = (f"--health-probe-addr=127.0.0.1:{health}", f"--metrics-addr=127.0.0.1:{metrics}", f"--webhook-port={webhook}")
    log = bed.folder / "image.log"
    command = image.command(tree, "--leader-elect", *addresses, handed=handed, environment=environment, scratch=False)
    process = start(command, log)
    return Manager(process, log, health, metrics, webhook)


def test_it_is_nobody_in_a_root_of_its_own(manager: Manager, tree: Path) -> None:
    process = Path(f"/proc/{manager.process.pid}")
    fields = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
    assert set(fields["Uid"].split()) == {"65532"}
    assert int(fields["CapEff"], 16) == 0
    assert (process / "root").readlink() == tree
    (root,) = [line.split() for line in (process / "mountinfo").read_text().splitlines() if line.split()[4] == "/"]
    assert "ro" in root[5].split(",")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_are_answered(manager: Manager, path: str) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{manager.health_port}{path}", timeout=5) as answer:
        assert answer.status == 200


def service(predictor: Json) -> Json:
    return {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "iris"},
            "spec": {"predictor": predictor}}  # fmt: skip


def test_admission_is_answered(manager: Manager, bed: Testbed) -> None:
    assert bed.call("POST", f"{ISVCS}?dryRun=All", service({"model": MODEL}))["spec"]["predictor"]["model"] != MODEL
    with pytest.raises(RequestFailed, match="denied the request"):
        bed.call("POST", f"{ISVCS}?dryRun=All", service({}))


def test_a_service_gets_its_deployment(manager: Manager, bed: Testbed) -> None:
    bed.call("POST", ISVCS, service({"model": MODEL}))
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    soon(lambda: [obj["metadata"]["name"] for obj in bed.call("GET", deployments)["items"]] == ["iris-predictor"])
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/kserve-controller-manager-leader-lock"
    assert bed.call("GET", lease)["spec"]["holderIdentity"].startswith("in-a-tree")
