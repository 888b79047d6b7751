"""A cluster's own life: kill -9 and resume, Ctrl-C at any moment, ports in use, a second cluster, modes of files."""
import os
import random
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.counts import SEED
from tests.e2e.cluster.one_machine import SERVEPLANE, Json, OneMachine, eventually, is_ready


def sleeper(name: str, replicas: int) -> Json:
    template = {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", "sleep 1000 & wait"]}]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}}


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[OneMachine]:
    machine = OneMachine(tmp_path / "data", "--bare")
    yield machine
    if machine.process is not None and machine.process.poll() is None:
        machine.stop()
    eventually("no process is left", lambda: not machine.processes(), 30)


def ready_pods(machine: OneMachine, label: str) -> list[Json]:
    return [pod for pod in machine.pods(label) if is_ready(pod)]


def test_kill_9_and_start_again(bare: OneMachine) -> None:
    bare.up()
    bare.apply(sleeper("a", 3))
    eventually("three pods", lambda: len(ready_pods(bare, "app=a")) == 3)
    before = {pod["metadata"]["uid"] for pod in bare.pods("app=a")}
    old = set(bare.processes())
    bare.stop(signal.SIGKILL)
    bare.up()
    eventually("three pods again", lambda: len(ready_pods(bare, "app=a")) == 3)
    assert {pod["metadata"]["uid"] for pod in bare.pods("app=a")} == before, "same objects"
    assert all(pod["status"]["containerStatuses"][0]["restartCount"] == 1 for pod in bare.pods("app=a"))
    assert not old & set(bare.processes()), "an old process is still there"


def test_pods_end_when_their_cluster_is_killed(bare: OneMachine) -> None:
    bare.up()
    bare.apply(sleeper("a", 2))
    eventually("two pods", lambda: len(ready_pods(bare, "app=a")) == 2)
    bare.stop(signal.SIGKILL)
    eventually("no process outlives the cluster", lambda: not bare.processes(), 60)


def test_a_killed_node_takes_its_pods_along(bare: OneMachine) -> None:
    bare.up()
    bare.apply(sleeper("a", 1))
    eventually("a pod", lambda: len(ready_pods(bare, "app=a")) == 1)
    node = next(pid for pid in bare.processes() if b"--stop-with-stdin" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(node, signal.SIGKILL)
    assert bare.process is not None
    assert bare.process.wait(90) == 1
    assert "the node ended with -9" in bare.output.read_text()
    eventually("no process is left", lambda: not bare.processes(), 60)


@pytest.mark.parametrize("number", range(4))
def test_ctrl_c_at_any_moment(tmp_path: Path, number: int) -> None:
    machine = OneMachine(tmp_path / "data")
    moment = random.Random(SEED + number).uniform(0.05, 5)
    process = subprocess.Popen([*SERVEPLANE, "up", "--data", str(machine.data)], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=180)
    # Before our first line runs, Python itself answers, in its own way
    assert "Traceback" not in output or "Starting a one-machine" not in output, output
    assert not machine.processes(), f"after {moment:.2f} s: {output}"


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for flag, what in (("--gateway-port", "gateway"), ("--api-port", "API server")):
            done = subprocess.run([*SERVEPLANE, "up", "--data", str(tmp_path / "d"), "--bare", flag, str(port)],
                                  capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 1
            assert done.stderr == (f"serveplane up: port {port} for the {what} is in use; "
                                   f"choose another with {flag}\n")


def test_one_cluster_per_folder(bare: OneMachine) -> None:
    bare.up()
    done = bare.cli("up", "--bare", check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"serveplane up: a cluster already runs in {bare.data} (pid {bare.process.pid})")
    other = OneMachine(bare.data.with_name("other"), "--bare")
    try:
        other.up()
        assert other.state["network"] != bare.state["network"]
        assert other.state["gateway_port"] != bare.state["gateway_port"]
    finally:
        other.stop()


def test_keys_are_private_and_a_stop_is_clean(bare: OneMachine) -> None:
    bare.up()
    assert stat.S_IMODE(bare.data.stat().st_mode) == 0o700
    for name in ("kubeconfig", "state.json", "pki/ca.key", "pki/node.key", "pki/admin.key"):
        assert stat.S_IMODE((bare.data / name).stat().st_mode) == 0o600, name
    ports = bare.state["api_port"], bare.state["gateway_port"]
    status = bare.cli("status")
    assert bare.state["gateway"] in status.stdout
    assert "Stopped." in bare.cli("down").stdout
    assert bare.process is not None
    assert bare.process.wait(60) == 0
    bare.up()
    assert (bare.state["api_port"], bare.state["gateway_port"]) == ports, "a second up takes the same ports"


def test_detach_returns_when_ready(tmp_path: Path) -> None:
    machine = OneMachine(tmp_path / "data")
    done = machine.cli("up", "--detach", "--bare")
    try:
        assert "The cluster is ready" in done.stdout
        again = machine.cli("up", "--detach", "--bare")
        assert "already runs" in again.stdout
        assert "1 of 1" not in machine.cli("status").stdout
    finally:
        machine.cli("down", "--delete")
    assert not machine.data.exists()
    assert not machine.processes()
