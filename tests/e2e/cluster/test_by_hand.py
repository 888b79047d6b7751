"""The cluster by hand: the real kubectl, and the lines that our own verbs say it does the same with."""
import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cluster.one_machine import Json, OneMachine, eventually
from tests.e2e.cluster.test_pods import pod, state
from tests.kit.testbed import Unavailable, program


@pytest.fixture(scope="module")
def kubectl() -> str:
    try:
        return str(program("kubectl"))
    except Unavailable as reason:
        pytest.skip(f"no kubectl: {reason}")


def test_the_printed_kubectl_lines_work(cluster: OneMachine, kubectl: str, tmp_path: Path) -> None:
    """Each verb says the kubectl line that does the same; here they are run as printed, by the real kubectl."""
    cluster.apply(pod("shown", "sh", "-c", "echo words; sleep 1000"))
    eventually("it runs", lambda: "running" in state(cluster, "shown"))
    file = tmp_path / "a b.yaml"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shown"}, "data": {"a": "b"}}))
    lines = (["get", "nodes"], ["get", "pod", "shown"], ["get", "pods", "-A"], ["get", "pods", "-l", "app in (shown)", "-o", "name"],
             ["get", "nodes", "-n", "kserve"], ["logs", "shown"], ["logs", "shown", "--tail", "1", "--since", "600"],
             ["apply", "-f", str(file)], ["delete", "-f", str(file)], ["delete", "pod", "shown", "--no-wait"])
    for command, *words in lines:
        done = cluster.cli(command, *words)
        line = shlex.split(done.stderr.strip().removeprefix("$ "))
        assert line[0] == "kubectl"
        if words[0] == "pod" and command == "delete":
            eventually("it is gone", lambda: cluster.cli("get", "pod", "shown", check=False).returncode)
            cluster.apply(pod("shown", "sh", "-c", "sleep 1000"))
        elif command == "delete":
            cluster.cli("apply", "-f", str(file))
        again = subprocess.run([kubectl, *line[1:]], capture_output=True, text=True, timeout=60, check=False)
        assert again.returncode == 0, (line, again.stderr)
        if command == "logs" or "name" in words:
            assert again.stdout == done.stdout


def run(kubectl: str, cluster: OneMachine, *words: str) -> str:
    done = subprocess.run([kubectl, "--kubeconfig", str(cluster.data / "kubeconfig"), *words], capture_output=True, text=True, timeout=90,
                          check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def workload(kind: str, name: str, **spec: object) -> Json:
    template = {"metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "pause:1"}]}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}}


@pytest.mark.parametrize("obj", [
    workload("Deployment", "rolled", replicas=2), workload("Deployment", "recreated", replicas=2, strategy={"type": "Recreate"}),
    workload("StatefulSet", "stated", replicas=2, serviceName="stated"), workload("DaemonSet", "daemon")],
    ids=lambda obj: obj["metadata"]["name"])
def test_rollouts_by_hand(cluster: OneMachine, kubectl: str, obj: Json) -> None:
    """rollout status, history, undo and restart of the real kubectl."""
    target = f"{obj['kind'].lower()}/{obj['metadata']['name']}"
    image = ("get", target, "-o", "jsonpath={.spec.template.spec.containers[0].image}")
    wait = ("rollout", "status", target, "--timeout=60s")
    cluster.apply(obj)
    run(kubectl, cluster, *wait)
    run(kubectl, cluster, "set", "image", target, "c=pause:2")
    run(kubectl, cluster, *wait)
    assert run(kubectl, cluster, *image) == "pause:2"
    listed = run(kubectl, cluster, "rollout", "history", target).split()
    assert {"1", "2"} <= set(listed)
    run(kubectl, cluster, "rollout", "undo", target)
    run(kubectl, cluster, *wait)
    assert run(kubectl, cluster, *image) == "pause:1"
    before = {one["metadata"]["uid"] for one in cluster.pods(f"app={obj['metadata']['name']}")}
    run(kubectl, cluster, "rollout", "restart", target)
    run(kubectl, cluster, *wait)
    eventually("new pods only", lambda: not before & {one["metadata"]["uid"] for one in cluster.pods(f"app={obj['metadata']['name']}")})
    run(kubectl, cluster, "delete", target, "--timeout=60s")


def test_top_and_cron_jobs_by_hand(cluster: OneMachine, kubectl: str) -> None:
    run(kubectl, cluster, "create", "cronjob", "tick", "--image=busybox", "--schedule=* * * * *", "--", "true")
    eventually("figures come", lambda: "kserve-controller-manager" in run(kubectl, cluster, "top", "pods", "-n", "kserve"), 60)
    assert "CPU(cores)" in run(kubectl, cluster, "top", "nodes")
    assert "manager" in run(kubectl, cluster, "top", "pods", "-A", "--containers")
    run(kubectl, cluster, "create", "job", "--from=cronjob/tick", "now")
    run(kubectl, cluster, "wait", "--for=condition=complete", "job/now", "--timeout=60s")
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    eventually("a minute begins", lambda: [one for one in cluster.get(jobs)["items"] if one["metadata"]["name"].startswith("tick-")], 90)
    run(kubectl, cluster, "delete", "cronjob/tick", "--timeout=60s")
