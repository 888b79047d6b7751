"""One command on an empty cluster, then everything works under the manager's own rights."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from serveplane.cli.manifests import config_folder, objects
from serveplane.kube.client import Client
from serveplane.kube.config import load_config
from serveplane.kube.http_transport import HttpTransport
from serveplane.managers.bootstrap import install_defaults
from serveplane.objects import Json, yamlio
from tests.kit.installation import Installation, Manager
from tests.kit.testbed import RequestFailed, Testbed
from tests.kit.waiting import soon
from tests.testbed.install.conftest import Run, await_definitions

pytestmark = pytest.mark.testbed
NEIGHBOURS = Path(__file__).parent / "neighbours.yaml"
FOLDERS = ("default", "crd/minimal", "llmisvc", "localmodels", "localmodelnodes", "configmap", "runtimes", "storagecontainers",
           "overlays/serveplane-images", "overlays/ha", "overlays/cert-manager", "overlays/monitoring",
           "overlays/namespaced", "overlays/namespaced/cluster", "overlays/namespaced/runtimes", "crd/minimal/llmisvc")  # fmt: skip
ISVCS = "/apis/serving.kserve.io/v1beta1/namespaces/default/inferenceservices"
LEASE = {"lease-duration": "3s", "renew-deadline": "2s", "retry-period": "0.5s"}
SHORT_LEASE = ("--leader-elect", *(f"--leader-elect-{name}={value}" for name, value in LEASE.items()))


def service(name: str, **model: object) -> Json:
    return {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": name},
            "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://bucket/model", **model}}}}  # fmt: skip


@pytest.fixture(scope="module")
def installation(empty: Testbed, kubectl: Run) -> Iterator[Installation]:
    kubectl("apply", "--server-side", "-k", "config/default")
    running = Installation(empty)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def manager(installation: Installation) -> Manager:
    running = installation.run("kserve", *SHORT_LEASE)
    running.await_ready()
    return running


@pytest.fixture(scope="module")
def neighbours(kubectl: Run) -> None:
    """cert-manager's and the Prometheus operator's kinds, and the namespace that the namespaced overlay serves."""
    kubectl("apply", "--server-side", "-f", str(NEIGHBOURS))
    kubectl("create", "namespace", "models")
    await_definitions(kubectl)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_server_accepts_every_folder_without_a_word_of_warning(kubectl: Run, manager: Manager, neighbours: None, folder: str) -> None:
    """`--force-conflicts`: fields are ours by right, whoever of us, kubectl or the manager, applied them."""
    told = kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", f"config/{folder}")
    assert told.stderr == ""
    assert told.stdout


def test_no_folder_is_left_out() -> None:
    every = {str(path.parent.relative_to(config_folder())) for path in config_folder().rglob("kustomization.yaml")}
    within = {str(inner.relative_to(config_folder())) for folder in FOLDERS for inner in _within(config_folder() / folder)}
    assert every - within == set()


def _within(folder: Path) -> Iterator[Path]:
    """A folder and those it is made of."""
    yield folder.resolve()
    for name in yamlio.load((folder / "kustomization.yaml").read_text()).get("resources", ()):
        if (folder / name).is_dir():
            yield from _within(folder / name)


def test_the_overlay_for_cert_manager_mounts_its_certificate(kubectl: Run) -> None:
    rendered = yamlio.load_all(kubectl("kustomize", "config/overlays/cert-manager").stdout)
    assert not [obj for obj in rendered if obj["kind"] == "Secret"]
    (deployment,) = [obj for obj in rendered if obj["kind"] == "Deployment"]
    mount = {"name": "cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs", "readOnly": True}
    assert mount in deployment["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]


def test_minimal_definitions_fit_client_side_apply(kubectl: Run) -> None:
    kubectl("apply", "--dry-run=server", "-k", "config/crd/minimal")


def test_bad_input_is_refused_by_the_webhook(empty: Testbed, manager: Manager) -> None:
    _refused(empty)


def _refused(bed: Testbed) -> None:
    with pytest.raises(RequestFailed, match="denied the request"):
        bed.call("POST", ISVCS, {**service("empty"), "spec": {"predictor": {}}})


def test_settings_and_runtimes_are_created_and_never_overwritten(empty: Testbed, manager: Manager, kubectl: Run) -> None:
    runtimes = "/apis/serving.kserve.io/v1alpha1/clusterservingruntimes"
    wanted = {obj["metadata"]["name"] for obj in yamlio.load_all(kubectl("kustomize", "config/runtimes").stdout)}
    soon(lambda: {obj["metadata"]["name"] for obj in empty.call("GET", runtimes)["items"]} == wanted)
    assert empty.call("GET", "/api/v1/namespaces/kserve/configmaps/inferenceservice-config")["data"]
    kubectl("label", "clusterservingruntime", "kserve-sklearnserver", "mine=yes")
    kubectl("-n", "kserve", "patch", "configmap", "inferenceservice-config", "--type=merge", "-p", '{"data": {"explainers": "{}"}}')
    asyncio.run(_bootstrapped_again(empty))
    assert empty.call("GET", f"{runtimes}/kserve-sklearnserver")["metadata"]["labels"]["mine"] == "yes"
    assert empty.call("GET", "/api/v1/namespaces/kserve/configmaps/inferenceservice-config")["data"]["explainers"] == "{}"


async def _bootstrapped_again(bed: Testbed) -> None:
    transport = HttpTransport(load_config(str(bed.kubeconfig)))
    try:
        await install_defaults(Client(transport), "kserve")
    finally:
        await transport.close()


def test_a_service_gets_its_children(empty: Testbed, manager: Manager, kubectl: Run) -> None:
    empty.call("POST", ISVCS, service("iris"))
    soon(lambda: "iris-predictor" in kubectl("get", "deploy,svc,hpa", "-o", "name").stdout)
    assert "iris" in kubectl("get", "isvc").stdout


def test_the_examples_of_the_texts(kubectl: Run, manager: Manager) -> None:
    lease = ("lease", "kserve-controller-manager-leader-lock", "-n", "kserve")
    assert kubectl("get", *lease, "-o", "jsonpath={.spec.holderIdentity}").stdout
    assert "kserve-controller-manager" in kubectl("get", "deploy", "-n", "kserve", "-l", "control-plane=kserve-controller-manager").stdout


def test_pods_pass_the_restricted_profile(empty: Testbed, installation: Installation) -> None:
    (deployment,) = [obj for obj in objects() if obj["kind"] == "Deployment"]
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    empty.ensure("/api/v1/namespaces", {"metadata": {"name": "strict", "labels": labels}})
    empty.ensure("/api/v1/namespaces/strict/serviceaccounts", {"metadata": {"name": "kserve-controller-manager"}})
    template = deployment["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": "manager"}, "spec": template["spec"]}
    empty.call("POST", "/api/v1/namespaces/strict/pods?dryRun=All", pod)
    pod["spec"] = {**pod["spec"], "hostNetwork": True}
    with pytest.raises(RequestFailed, match="violates PodSecurity"):
        empty.call("POST", "/api/v1/namespaces/strict/pods?dryRun=All", pod)


def test_a_replica_takes_over_and_admission_never_fails(empty: Testbed, installation: Installation, manager: Manager) -> None:
    """Both replicas answer; the Service, here one port, is moved to the survivor as endpoints would.

    A review that was inside the killed process is lost with it, as with any server, so a request may be sent again.
    """
    second = installation.run("kserve", *SHORT_LEASE)
    second.await_ready()
    failures: list[str] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            failures.extend(_lasting_problem(empty, f"{ISVCS}?dryRun=All", service("asked")))

    asking = threading.Thread(target=ask)
    asking.start()
    manager.process.kill()
    failures.extend(_lasting_problem(empty, ISVCS, service("after")))
    soon(lambda: _exists(empty, "/apis/apps/v1/namespaces/default/deployments/after-predictor"), 60)
    done.set()
    asking.join()
    assert failures == []


def _lasting_problem(bed: Testbed, path: str, body: Json) -> list[str]:
    """What keeps a request from being admitted, if it is still there a moment later, when the API server has noticed who is gone."""
    problem = ""
    for _ in range(3):
        try:
            bed.call("POST", path, body)
        except RequestFailed as refusal:
            problem = str(refusal)
            time.sleep(0.2)
        else:
            return []
    return [problem]


def _exists(bed: Testbed, path: str) -> bool:
    try:
        bed.call("GET", path)
    except RequestFailed as problem:
        if problem.status != 404:
            raise
        return False
    return True


def test_nothing_was_forbidden(empty: Testbed, manager: Manager) -> None:
    assert empty.audit is not None
    refused = [(r.verb, r.resource, r.name) for r in empty.audit.requests(user=manager.account) if r.status == 403]
    assert refused == []


def test_kustomize_and_the_command_give_the_same(kubectl: Run) -> None:
    rendered = yamlio.load_all(kubectl("kustomize", "config/default").stdout)
    assert by_name(rendered) == by_name(objects())


def by_name(found: list[Json]) -> dict[tuple[str, str, str], Json]:
    return {(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj for obj in found}


def test_the_chart_renders_what_kustomize_renders(kubectl: Run, helm: Run) -> None:
    chart = by_name(yamlio.load_all(helm("template", "kserve", "charts/serveplane", "-n", "kserve").stdout))
    plain = by_name(objects())
    del plain["Namespace", "", "kserve"]  # Helm makes it, on request
    for obj in chart.values():
        if obj["kind"] == "CustomResourceDefinition":
            assert obj["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
            if not obj["metadata"]["annotations"]:
                del obj["metadata"]["annotations"]
    assert chart == plain


def test_the_chart_passes_its_linter(helm: Run) -> None:
    assert "0 chart(s) failed" in helm("lint", "charts/serveplane").stdout


def test_who_is_asked_to_stop_hands_back_the_lease(empty: Testbed, installation: Installation, manager: Manager) -> None:
    """Comes last: it ends the manager."""
    lease = "/apis/coordination.k8s.io/v1/namespaces/kserve/leases/kserve-controller-manager-leader-lock"
    assert empty.call("GET", lease)["spec"]["holderIdentity"]
    for running in installation.managers:
        running.stop()
    assert not empty.call("GET", lease)["spec"].get("holderIdentity")
