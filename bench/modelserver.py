"""Our model server beside the `kserve` SDK and MLServer: one scikit-learn iris classifier, the same requests, one run.

usage: python -m bench.modelserver [--rounds 5] [--seconds 2] [--json FILE]

Servers take turns, round by round; the median of the rounds counts. CPU is what the server's processes used, divided by the
requests answered, so it does not matter that the load generator shares the machine. `own` computes the model
itself, `library` calls scikit-learn's predict.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import peers
from bench.processes import cpu_seconds, resident_bytes, tree

from serveplane.http.loop import run
from tests.kit.processes import free_ports

ROWS = [[6.8, 2.8, 4.8, 1.4], [6.0, 3.4, 4.5, 1.6]]
V1 = ("/v1/models/iris:predict", {"instances": ROWS})
V2 = ("/v2/models/iris/infer", {"inputs": [{"name": "input-0", "shape": [2, 4], "datatype": "FP32", "data": ROWS}]})
SDK = """
import sys, os, joblib, kserve
from kserve import Model, ModelServer, InferRequest, InferResponse
from kserve.utils.utils import get_predict_input, get_predict_response
class Iris(Model):
    def load(self):
        self.model = joblib.load(os.environ["MODEL"])
        self.ready = True
        return True
    def predict(self, payload, headers=None):
        return get_predict_response(payload, self.model.predict(get_predict_input(payload)), self.name)
model = Iris("iris")
model.load()
ModelServer(http_port=int(os.environ["PORT"]), enable_grpc=False, enable_latency_logging=False).start([model])
"""


@dataclass
class Peer:
    name: str
    command: list[str]
    environment: dict[str, str]
    port: int
    protocols: tuple[str, ...] = ("v1", "v2")
    figures: dict[str, list[tuple[float, float]]] = field(default_factory=dict)   # case -> (requests/s, CPU µs per request)
    starts: list[tuple[float, float]] = field(default_factory=list)               # (seconds to the first prediction, MB when idle)


def made_peers(folder: Path) -> Iterator[Peer]:
    model = folder / "iris" / "model.joblib"
    python, ports = sys.executable, iter(free_ports(12))
    for name, more in (("serveplane (own)", []), ("serveplane (library)", ["--own_arithmetic", "false"])):
        port = next(ports)
        yield Peer(name, [python, "-m", "serveplane.cli.main", "modelserver", "--model_name", "iris", "--model_dir", str(model.parent),
                          "--host", "127.0.0.1", "--http_port", str(port), "--grpc_port", str(next(ports)), *more], {}, port)
    if (sdk := peers.environment(peers.KSERVE)) is not None:
        port = next(ports)
        (folder / "sdk.py").write_text(SDK)
        yield Peer("kserve SDK", [str(sdk), str(folder / "sdk.py")], {"MODEL": str(model), "PORT": str(port)}, port)
    if (mlserver := peers.environment(peers.MLSERVER)) is not None:
        yield mlserver_peer(mlserver, folder, model, [next(ports) for _ in range(3)])


def mlserver_peer(python: Path, folder: Path, model: Path, ports: list[int]) -> Peer:
    home = folder / "mlserver"
    home.mkdir()
    settings = {
        "http_port": ports[0],
        "grpc_port": ports[1],
        "metrics_port": ports[2],
        "debug": False,
        "parallel_workers": 0,
        "host": "127.0.0.1",
    }
    (home / "settings.json").write_text(json.dumps(settings))
    (home / "model-settings.json").write_text(json.dumps(
        {"name": "iris", "implementation": "mlserver_sklearn.SKLearnModel", "parameters": {"uri": str(model)}}))
    return Peer("MLServer", [str(python.parent / "mlserver"), "start", str(home)], {}, ports[0], ("v2",))


@contextlib.contextmanager
def started(peer: Peer) -> Iterator[int]:
    """The server's process id, once it has predicted; how long that took and what it then weighs are noted."""
    began = time.monotonic()
    process = subprocess.Popen(peer.command, env={**os.environ, **peer.environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        wait_for_prediction(peer, process)
        seconds = time.monotonic() - began
        time.sleep(0.5)
        peer.starts.append((seconds, resident_bytes(*tree(process.pid)) / 2**20))
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for_prediction(peer: Peer, process: "subprocess.Popen[bytes]") -> None:
    path, body = V1 if "v1" in peer.protocols else V2
    request = urllib.request.Request(f"http://127.0.0.1:{peer.port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    for _ in range(6000):
        if process.poll() is not None:
            raise SystemExit(f"{peer.name} ended with {process.returncode}")
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                assert b"1" in answer.read()
                return
        except OSError:
            time.sleep(0.01)
    raise SystemExit(f"{peer.name} never answered")


class Caller(asyncio.Protocol):
    """One connection that always has one request under way."""

    def __init__(self, request: bytes, counts: dict[str, int]) -> None:
        self._request, self._counts, self._buffer = request, counts, b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = self._buffer.lower().find(b"content-length:", 0, head)
        length = int(self._buffer[at + 15:self._buffer.index(b"\r\n", at)])
        if len(self._buffer) < head + 4 + length:
            return
        self._counts["ok" if self._buffer.startswith(b"HTTP/1.1 200") else "failed"] += 1
        self._buffer = b""
        self._transport.write(self._request)


async def load(port: int, path: str, body: Any, connections: int, seconds: float) -> tuple[int, float]:
    """Requests answered, and in how many seconds."""
    content = json.dumps(body).encode()
    request = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    ).encode() + content
    counts, loop = {"ok": 0, "failed": 0}, asyncio.get_running_loop()
    transports = [(await loop.create_connection(lambda: Caller(request, counts), "127.0.0.1", port))[0] for _ in range(connections)]
    began = time.monotonic()
    await asyncio.sleep(seconds)
    spent, answered = time.monotonic() - began, counts["ok"]
    for transport in transports:
        transport.abort()
    if counts["failed"]:
        raise SystemExit(f"{counts['failed']} requests failed")
    return answered, spent


def measure(peer: Peer, pid: int, seconds: float) -> None:
    for protocol in peer.protocols:
        path, body = V1 if protocol == "v1" else V2
        run(load(peer.port, path, body, 4, 0.3))   # warm
        for connections in (32, 1):
            before = cpu_seconds(*tree(pid))
            answered, spent = run(load(peer.port, path, body, connections, seconds))
            used = cpu_seconds(*tree(pid)) - before
            peer.figures.setdefault(f"{protocol}, {connections} connections", []).append((answered / spent, used / max(1, answered) * 1e6))


def table(everyone: list[Peer]) -> str:
    lines = ["| work | server | requests/s | CPU per request | beside the SDK (CPU) |", "|---|---|---|---|---|"]
    sdk = next((peer for peer in everyone if peer.name == "kserve SDK"), None)
    for case in everyone[0].figures:
        for peer in everyone:
            if case not in peer.figures:
                continue
            speeds, costs = zip(*peer.figures[case], strict=True)
            ratio = f"{statistics.median(each[1] for each in sdk.figures[case]) / statistics.median(costs):.1f}×" if sdk else ""
            lines.append(f"| {case} | {peer.name} | {statistics.median(speeds):,.0f} | {_spread(costs)} µs | {ratio} |")
    for peer in everyone:
        seconds, sizes = zip(*peer.starts, strict=True)
        lines.append(f"| start to first prediction / idle RSS | {peer.name} | {statistics.median(seconds):.2f} s"
                     f" ({min(seconds):.2f} to {max(seconds):.2f}) | {_spread(sizes)} MB | |")
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    import joblib
    from sklearn import datasets, svm
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "iris").mkdir()
        joblib.dump(svm.SVC(gamma="scale").fit(*datasets.load_iris(return_X_y=True)), folder / "iris" / "model.joblib")
        everyone = list(made_peers(folder))
        for _ in range(args.rounds):
            for peer in everyone:
                with started(peer) as pid:
                    measure(peer, pid, args.seconds)
    print(table(everyone))
    if args.json:
        args.json.write_text(json.dumps({peer.name: {"figures": peer.figures, "starts": peer.starts} for peer in everyone}, indent=1))


if __name__ == "__main__":
    main()
