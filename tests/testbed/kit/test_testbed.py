"""The control plane that all other tests stand on: is it real, guarded, and gone when the run ends?"""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.api import Api, Refused
from tests.kit.testbed import CLAIM, PREFIX, Testbed, _claim, _sweep, start_testbed
from tests.kit.waiting import eventually

pytestmark = pytest.mark.testbed
REPOSITORY = Path(__file__).resolve().parents[3]


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}


def deployment(name: str) -> dict[str, object]:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "example.com/none"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_reports_the_version_it_was_built_from(testbed: Testbed) -> None:
    assert testbed.call("GET", "/version")["gitVersion"].startswith("v1.34.")


async def test_its_controllers_work(api: Api, namespace: str) -> None:
    await api.create(deployment("web"), namespace)

    async def pods() -> bool:
        found = await api.list("v1", "Pod", namespace)
        assert all(pod["spec"]["serviceAccountName"] == "default" for pod in found)
        return len(found) == 2
    await eventually(pods)


def rights(name: str, namespace: str, rules: list[dict[str, object]]) -> list[dict[str, object]]:
    """A Role and the binding that gives it to the ServiceAccount of the same name."""
    group = "rbac.authorization.k8s.io"
    return [{"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules},
            {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": {"name": name},
             "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
             "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]}]


async def test_a_service_account_may_do_only_what_its_role_says(testbed: Testbed, api: Api, namespace: str) -> None:
    for right in rights("reader", namespace, [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]):
        await api.create(right, namespace)
    async with Api(testbed.service_account(namespace, "reader")) as reader:
        assert isinstance(await reader.list("v1", "ConfigMap", namespace), list)
        with pytest.raises(Refused, match="cannot create resource"):
            await reader.create(config_map("mine"), namespace)


async def test_blocking_owner_references_need_the_right_to_set_finalizers(testbed: Testbed, api: Api, namespace: str) -> None:
    owner = await api.create(config_map("owner"), namespace)
    for right in rights("writer", namespace, [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]):
        await api.create(right, namespace)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "ownerReferences": [reference]}}
    async with Api(testbed.service_account(namespace, "writer")) as writer:
        with pytest.raises(Refused, match="blockOwnerDeletion"):
            await writer.create(child, namespace)


async def test_pod_security_is_enforced_where_a_namespace_asks(api: Api) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restricted", "labels": labels}}
    await api.create(space)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
           "spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]}}
    with pytest.raises(Refused, match="PodSecurity"):
        await api.create(pod, "restricted")
    await api.delete(space)


async def test_the_audit_log_tells_who_asked_for_what(testbed: Testbed, namespace: str) -> None:
    assert testbed.audit
    since = testbed.audit.mark()
    async with Api(testbed.kubeconfig, agent="nosy") as nosy:
        await nosy.create(config_map("seen"), namespace)
        await nosy.list("v1", "ConfigMap", namespace)
    counts = testbed.audit.counts(since, agent="nosy", namespace=namespace)
    assert counts == {("nosy", "create", "configmaps"): 1, ("nosy", "list", "configmaps"): 1}
    writes = [request for request in testbed.audit.requests(since, agent="nosy") if request.is_write]
    assert [(write.user, write.status) for write in writes] == [("admin", 201)]


def test_nothing_is_left_when_the_test_run_is_killed(testbed: Testbed, tmp_path: Path) -> None:
    """Killed with -9, so no clean-up code of ours can run: the kernel has to end the programs."""
    code = ("import time; from tests.kit.processes import start; from pathlib import Path\n"
            f"p = start(['sleep', '1000'], Path({str(tmp_path / 'log')!r})); print(p.pid, flush=True); time.sleep(1000)")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as run:
        assert run.stdout
        child = int(run.stdout.readline())
        run.send_signal(signal.SIGKILL)
    for _ in range(100):
        if not _alive(child):
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the program outlived the test run")


def test_what_a_killed_run_left_is_swept_by_the_next(tmp_path: Path) -> None:
    left, held = (tmp_path / f"{PREFIX}{name}" for name in ("left", "held"))
    for folder in (left, held):
        folder.mkdir()
        (folder / CLAIM).touch()
        os.utime(folder / CLAIM, (0, 0))
    with _claim(held):
        os.utime(held / CLAIM, (0, 0))
        _sweep(tmp_path)
        assert (left.exists(), held.exists()) == (False, True)


def test_a_control_plane_that_does_not_come_up_says_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("etcd", "kube-apiserver", "kube-controller-manager"):
        (tmp_path / name).write_text("#!/bin/sh\necho bind: address already in use\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.setattr("tests.kit.testbed._fast_folder", lambda: folder)
    with pytest.raises(RuntimeError, match="address already in use"):
        start_testbed()
    assert list(folder.iterdir()) == []


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
