"""Commands in pods by the real kubectl: as it speaks today (WebSockets) and as it used to (SPDY)."""
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cluster.one_machine import OneMachine, eventually
from tests.e2e.cluster.test_by_hand import kubectl  # noqa: F401  a fixture
from tests.e2e.cluster.test_pods import pod, state

WAYS = {"websocket": "true", "spdy": "false"}


class Box:
    """One pod with a folder of its own, and kubectl to talk to it."""

    def __init__(self, program: str, cluster: OneMachine, way: str) -> None:
        self._command = [program, "--kubeconfig", str(cluster.data / "kubeconfig")]
        self._environment = {**os.environ, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": WAYS[way]}

    def __call__(self, *words: str, stdin: bytes = b"", **more: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*self._command, *words], input=stdin, capture_output=True, env=self._environment, timeout=90, check=False)

    def typed(self, *words: str) -> tuple[int, bytes]:
        """With a terminal, as somebody at a keyboard has it."""
        ours, theirs = pty.openpty()
        with subprocess.Popen([*self._command, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=self._environment) as process:
            os.close(theirs)
            seen = b""
            while True:
                try:
                    piece = os.read(ours, 4096)
                except OSError:
                    break
                seen += piece
            process.wait(60)
        os.close(ours)
        return process.returncode, seen


@pytest.fixture(params=WAYS)
def box(cluster: OneMachine, kubectl: str, request: pytest.FixtureRequest) -> Box:  # noqa: F811
    value = pod("box", "sh", "-c", "i=0; while true; do echo tick $i; i=$((i+1)); sleep 0.2; done")
    value["spec"]["containers"][0]["volumeMounts"] = [{"name": "d", "mountPath": "/data"}]
    value["spec"]["volumes"] = [{"name": "d", "emptyDir": {}}]
    if cluster.cli("get", "pod", "box", check=False).returncode:
        cluster.apply(value)
    eventually("it runs", lambda: "running" in state(cluster, "box"))
    return Box(kubectl, cluster, request.param)


def test_output_errors_input_and_how_it_ended(box: Box) -> None:
    done = box("exec", "box", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout) == (3, b"out\n")
    assert b"err\n" in done.stderr
    text = os.urandom(300_000)
    assert box("exec", "-i", "box", "--", "cat", stdin=text).stdout == text
    assert b"nosuchprogram" in box("exec", "box", "--", "nosuchprogram").stderr


def test_a_terminal(box: Box) -> None:
    code, seen = box.typed("exec", "-it", "box", "--", "sh", "-c", "tty && exit 4")
    assert code == 4
    assert b"/dev/" in seen


def test_files_are_copied_both_ways(box: Box, tmp_path: Path) -> None:
    (tmp_path / "there" / "deep").mkdir(parents=True)
    (tmp_path / "there" / "deep" / "file").write_bytes(os.urandom(100_000))
    place = f"box:/data/{tmp_path.name}"
    assert box("cp", str(tmp_path / "there"), place).returncode == 0
    assert box("cp", place, str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back" / "deep" / "file").read_bytes() == (tmp_path / "there" / "deep" / "file").read_bytes()


def test_attaching_shows_what_comes(box: Box) -> None:
    with subprocess.Popen([*box._command, "attach", "box"], stdout=subprocess.PIPE, env=box._environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
    assert line.startswith(b"tick ")


def test_who_goes_leaves_no_command_behind(box: Box, cluster: OneMachine) -> None:
    before = set(cluster.processes())
    with subprocess.Popen([*box._command, "exec", "box", "--", "sleep", "1234"], env=box._environment) as process:
        started = eventually("the command runs", lambda: [one for one in set(cluster.processes()) - before if _words(one) == "sleep 1234"])
        process.kill()
    eventually("the command is gone", lambda: not (set(started) & set(cluster.processes())))


def _words(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def test_what_cannot_be_done_is_said(box: Box) -> None:
    assert b"container other is not valid for pod box" in box("exec", "box", "-c", "other", "--", "true").stderr
    assert b"not found" in box("exec", "nobody", "--", "true").stderr


def test_http_through_the_api_server(cluster: OneMachine, kubectl: str) -> None:  # noqa: F811
    served = pod("served", "sh", "-c", "echo word > page; exec python3 -m http.server 18080 --bind $SERVEPLANE_POD_ADDRESS")
    served["metadata"]["labels"] = {"app": "served"}
    served["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": 18080}]
    cluster.apply(served)
    cluster.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "served", "namespace": "default"},
                   "spec": {"selector": {"app": "served"}, "ports": [{"name": "web", "port": 80, "targetPort": "web"}]}})
    command = [kubectl, "--kubeconfig", str(cluster.data / "kubeconfig"), "get", "--raw"]
    paths = ("pods/served/proxy/page", "pods/served:18080/proxy/page", "pods/http:served:web/proxy/page", "services/served/proxy/page",
             "services/served:web/proxy/page", "services/http:served:80/proxy/page?x=y")
    for path in paths:
        def fetched(path: str = path) -> bytes:
            return subprocess.run([*command, f"/api/v1/namespaces/default/{path}"], capture_output=True, timeout=60, check=False).stdout

        eventually(path, lambda fetched=fetched: fetched() == b"word\n")
