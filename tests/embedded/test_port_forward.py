"""`kubectl port-forward`, unmodified, both ways it speaks: SPDY inside a WebSocket, and bare."""

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.embedded.servers import MERGE, Embedded
from tests.kit.testbed import Unavailable, program

WEBSOCKET = "KUBECTL_PORT_FORWARD_WEBSOCKETS"
PODS = "/api/v1/namespaces/default/pods"


def _kubectls() -> list[Path]:
    """The installed one, and the one of the testbed's Kubernetes."""
    found = [Path(path)] if (path := shutil.which("kubectl")) else []
    try:
        return [*found, program("kubectl")]
    except Unavailable:
        return found


@pytest.fixture(scope="module", params=[0, 1], ids=["installed", "testbed"])
def kubectl(request: pytest.FixtureRequest) -> Path:
    known = _kubectls()
    if request.param >= len(known):
        pytest.skip("there is no second kubectl here")
    return known[request.param]


@contextmanager
def listening(answer: bytes = b"") -> Iterator[int]:
    """What runs in the pod: reads to the end, then says how much it was and repeats it; or says only `answer`."""
    listener = socket.create_server(("127.0.0.1", 0))

    def one(connection: socket.socket) -> None:
        with connection:
            if answer:
                connection.sendall(answer)
                return
            pieces = []
            while piece := connection.recv(1 << 16):
                pieces.append(piece)
            whole = b"".join(pieces)
            connection.sendall(b"%d:" % len(whole) + whole)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def pod(server: Embedded, name: str, ports: dict[str, int]) -> str:
    """A pod that says it runs here, with ports that were moved."""
    api = server.api()
    api.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    api.call("DELETE", f"{PODS}/{name}", gracePeriodSeconds="0")
    metadata = {"name": name, "annotations": {"serveplane.dev/ports": json.dumps(ports)}}
    made = api.call("POST", PODS, {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "x"}]}})
    assert made.status == 201, made
    status = {"status": {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}
    assert api.call("PATCH", f"{PODS}/{name}/status", status, MERGE).status == 200
    return name


@contextmanager
def forwarding(kubectl: Path, server: Embedded, name: str, port: int, mode: str) -> Iterator[int]:
    command = [kubectl, "--kubeconfig", server.kubeconfig, "-n", "default", "port-forward", f"pod/{name}", f":{port}"]
    environment = {**os.environ, WEBSOCKET: "true" if mode == "websocket" else "false"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Forwarding from 127.0.0.1:"), line + process.stdout.read()
            yield int(line.split(":")[1].split()[0])
        finally:
            process.kill()


def exchange(port: int, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        pieces = []
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("mode", ["websocket", "spdy"])
def test_bytes_go_both_ways(kubectl: Path, embedded: Embedded, mode: str) -> None:
    large = os.urandom(3_000_000)
    with listening() as real, forwarding(kubectl, embedded, pod(embedded, f"echo-{mode}", {"80": real}), 80, mode) as port:
        for sent in (b"hello", b"", large, b"again"):
            assert exchange(port, sent) == b"%d:" % len(sent) + sent


@pytest.mark.parametrize("mode", ["websocket", "spdy"])
def test_many_connections_at_once(kubectl: Path, embedded: Embedded, mode: str) -> None:
    results: list[bool] = []
    with listening() as real, forwarding(kubectl, embedded, pod(embedded, f"many-{mode}", {"80": real}), 80, mode) as port:

        def work(number: int) -> None:
            sent = b"%d" % number * 20_000
            results.append(exchange(port, sent) == b"%d:" % len(sent) + sent)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
    assert results == [True] * 20


def test_a_pod_that_speaks_first_and_closes(kubectl: Path, embedded: Embedded) -> None:
    with (
        listening(b"banner") as real,
        forwarding(kubectl, embedded, pod(embedded, "banner", {"80": real}), 80, "websocket") as port,
        socket.create_connection(("127.0.0.1", port), timeout=60) as connection,
    ):
        assert connection.recv(100) == b"banner"
        assert connection.recv(100) == b""


def test_a_port_where_nobody_listens_is_told(kubectl: Path, embedded: Embedded) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    command = [kubectl, "--kubeconfig", embedded.kubeconfig, "-n", "default", "port-forward"]
    name = pod(embedded, "nobody", {"80": nobody})
    with subprocess.Popen(
        [*command, f"pod/{name}", ":80"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline().split(":")[1].split()[0])
            assert exchange(port, b"anybody?") == b""
            told = iter(process.stdout.readline, "")
            assert any("error forwarding port 80" in line for line in told)
        finally:
            process.kill()
