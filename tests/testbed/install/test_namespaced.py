"""An installation for one namespace, with Roles only: what it may see works, what it may not see is absent and told once."""

import asyncio
import base64
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.kit.api import Api, Json, condition
from tests.kit.installation import Installation, Manager
from tests.kit.plugin import run_apart
from tests.kit.testbed import RequestFailed, Testbed
from tests.kit.waiting import eventually, soon
from tests.testbed.install.conftest import Run, await_definitions

pytestmark = [pytest.mark.testbed, pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl to make a certificate with")]
OVERLAY, SPACE = "config/overlays/namespaced", "models"
SERVICES = "/apis/serving.kserve.io/v1beta1/namespaces/{}/inferenceservices"
CLOSED = {"clusterservingruntimes", "clusterstoragecontainers", "localmodelcaches"}
PROCESSES = 2  # the manager, and the one that answers reviews: each asks once and says so once
HOST = "kserve-webhook-server-service.kserve.svc"


def service(name: str, **model: object) -> Json:
    given = {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://acme/iris", **model}
    return {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": name},
            "spec": {"predictor": {"model": given}}}  # fmt: skip


@pytest.fixture(scope="module")
def manager(played: Testbed, kubectl: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    kubectl("apply", "--server-side", "-k", f"{OVERLAY}/cluster")
    await_definitions(kubectl)
    kubectl("apply", "--server-side", "-k", OVERLAY)
    certificates = tmp_path_factory.mktemp("certificates")
    _certify(certificates, kubectl)
    installation = Installation(played)
    running = installation.run("kserve", "--leader-elect", f"--namespaces={SPACE}", f"--webhook-cert-dir={certificates}")
    try:
        running.await_ready()
        kubectl("apply", "--server-side", "-k", f"{OVERLAY}/runtimes")
        yield running
    finally:
        installation.stop()


def _certify(folder: Path, kubectl: Run) -> None:
    """What docs/install.md tells an administrator to do without cert-manager: a certificate, and its CA in the configurations."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "tls.key"]
    wish = ["-x509", "-days", "3650", "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}", "-out", "tls.crt"]
    subprocess.run(["openssl", "req", *wish, *key], cwd=folder, check=True, capture_output=True)
    bundle = base64.b64encode((folder / "tls.crt").read_bytes()).decode()
    kinds = "validatingwebhookconfiguration,mutatingwebhookconfiguration"
    for name in kubectl("get", kinds, "-l", "app.kubernetes.io/part-of=kserve", "-o", "name").stdout.split():
        hooks = 2 if name.startswith("mutating") else 1
        patch = ", ".join(f'{{"op": "add", "path": "/webhooks/{n}/clientConfig/caBundle", "value": "{bundle}"}}' for n in range(hooks))
        kubectl("patch", name, "--type=json", "-p", f"[{patch}]")


def test_there_are_roles_only(kubectl: Run) -> None:
    rendered = kubectl("kustomize", OVERLAY).stdout
    assert "ClusterRole" not in rendered
    assert "WebhookConfiguration" not in rendered


def test_a_service_of_the_namespace_becomes_ready(played: Testbed, manager: Manager) -> None:
    async def ready() -> None:
        async with Api(played.kubeconfig) as api:
            await api.create(service("iris"), SPACE)

            async def is_ready() -> bool:
                found = await api.get("serving.kserve.io/v1beta1", "InferenceService", "iris", SPACE)
                return condition(found or {}, "Ready")
            await eventually(is_ready, 60, lambda: played.call("GET", f"{SERVICES.format(SPACE)}/iris").get("status"))
            pods = await api.list("v1", "Pod", SPACE)
            assert [pod["spec"]["initContainers"][0]["name"] for pod in pods] == ["storage-initializer"]
    run_apart(ready)


def test_admission_is_for_the_namespace(played: Testbed, manager: Manager) -> None:
    bad = {**service("bad"), "spec": {"predictor": {}}}
    with pytest.raises(RequestFailed, match="denied the request"):
        played.call("POST", f"{SERVICES.format(SPACE)}?dryRun=All", bad)
    played.call("POST", f"{SERVICES.format('default')}?dryRun=All", bad)


def test_other_namespaces_are_left_alone(played: Testbed, manager: Manager, kubectl: Run) -> None:
    played.call("POST", SERVICES.format("default"), service("elsewhere"))
    played.call("POST", SERVICES.format(SPACE), service("here"))
    soon(lambda: "here-predictor" in kubectl("get", "deploy", "-n", SPACE, "-o", "name").stdout)
    assert "status" not in played.call("GET", f"{SERVICES.format('default')}/elsewhere")
    assert kubectl("get", "deploy", "-n", "default", "-o", "name").stdout == ""


def test_what_may_not_be_read_is_asked_for_once_and_told_once(played: Testbed, manager: Manager) -> None:
    asyncio.run(asyncio.sleep(5))
    assert played.audit is not None
    refused = [(r.verb, r.resource) for r in played.audit.requests(user=manager.account) if r.status == 403]
    assert {resource for _, resource in refused} == CLOSED
    assert max(Counter(refused).values()) <= PROCESSES
    told = Counter(msgspec.json.decode(line)["kind"] for line in manager.log.read_text().splitlines() if "counts as absent" in line)
    assert len(told) == len(CLOSED)
    assert max(told.values()) <= PROCESSES


def test_deletion_takes_everything_along(played: Testbed, manager: Manager, kubectl: Run) -> None:
    kubectl("delete", "isvc", "-n", SPACE, "--all", "--timeout=60s")
    soon(lambda: kubectl("get", "deploy", "-n", SPACE, "-o", "name").stdout == "")
