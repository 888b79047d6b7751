"""Several worker processes are one server: the repository, gRPC, and TLS beside them."""
import os
import signal
import ssl
import time
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.dataplane.processes import Serving, serving
from tests.unit.dataplane import models
from tests.unit.dataplane.test_tls import certificate

WHO = "import os, numpy\ndef predict(rows):\n    return numpy.full(len(rows), os.getpid())\n"
ONE = {"instances": [[1.0]]}


def statuses(server: Serving, path: str, body: Any = ONE, times: int = 60) -> set[int]:
    """Of many requests, each over a connection of its own: every worker is asked."""
    return {server.post(path, body)[0] for _ in range(times)}


def workers(server: Serving, count: int, model: str = "who", without: int = 0) -> set[int]:
    """The processes that answer, once there are that many; one may be on its way still, or have been killed."""
    seen: set[int] = set()
    deadline = time.monotonic() + 90
    while len(seen) < count and time.monotonic() < deadline:
        try:
            seen.add(server.post(f"/v1/models/{model}:predict", ONE)[1]["predictions"][0])
        except (OSError, KeyError):
            time.sleep(0.05)
        seen.discard(without)
    return seen


def model(folder: Path, name: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "model.py").write_text(WHO)


def test_what_one_worker_loads_or_unloads_all_do(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    model(folder, "who")
    with serving(tmp_path, "--model_dir", str(folder), "--workers", "3") as server:
        assert len(workers(server, 3)) == 3
        model(folder, "late")
        assert server.post("/v2/repository/models/late/load", {}) == (200, {"name": "late", "load": True})
        assert len(workers(server, 3, "late")) == 3
        assert server.post("/v2/repository/models/who/unload", {})[0] == 200
        assert statuses(server, "/v1/models/who:predict") == {404}
        (folder / "late" / "model.py").write_text("what is this\n")
        assert server.post("/v2/repository/models/late/load", {})[0] == 503
        assert len(workers(server, 3, "late")) == 3   # the old one stays, everywhere
        time.sleep(5.2)   # past the time in which a death means that it never worked
        (folder / "late" / "model.py").write_text(WHO)
        killed = min(workers(server, 3, "late"))
        os.kill(killed, signal.SIGKILL)
        assert len(workers(server, 3, "late", without=killed)) == 3
        assert statuses(server, "/v1/models/who:predict") == {404}   # its folder is there, but it was unloaded


def predictions_told(server: Serving) -> int:
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return int(next(line.split()[-1] for line in lines if line.startswith('request_predict_seconds_count{model_name="who"}')))


def test_any_worker_tells_what_all_counted_even_if_one_died(tmp_path: Path) -> None:
    model(tmp_path / "models", "who")
    with serving(tmp_path, "--model_dir", str(tmp_path / "models"), "--workers", "3") as server:
        everyone = workers(server, 3)
        before = predictions_told(server)
        assert statuses(server, "/v1/models/who:predict", times=30) == {200}
        assert {predictions_told(server) for _ in range(10)} == {before + 30}
        time.sleep(5.2)   # past the time in which a death means that it never worked
        os.kill(min(everyone), signal.SIGKILL)
        assert len(workers(server, 3, without=min(everyone))) == 3
        assert predictions_told(server) >= before + 33


def test_grpc_with_workers(tmp_path: Path) -> None:
    grpc = pytest.importorskip("grpc")
    from serveplane.dataplane.modelserver.rpc import messages
    from serveplane.dataplane.modelserver.tensors import InferInput, InferRequest
    folder = tmp_path / "models"
    model(folder, "who")
    model(folder, "other")
    raw = messages.write_infer_request(InferRequest("who", [InferInput("input-0", [1, 1], "FP64", [1.0])]))
    with serving(tmp_path, "--model_dir", str(folder), "--workers", "2") as server:
        everyone, seen = workers(server, 2), set[int]()
        for _ in range(40):
            with grpc.insecure_channel(f"127.0.0.1:{server.grpc}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
                answer = channel.unary_unary(f"/{messages.SERVICE}/ModelInfer")(raw, timeout=60, wait_for_ready=True)
                seen.add(int(messages.read_infer_response(answer).infer_outputs[0].as_numpy()[0]))
        assert seen == everyone
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
            channel.unary_unary(f"/{messages.SERVICE}/RepositoryModelUnload")(b"\n\x05other", timeout=60, wait_for_ready=True)
        assert statuses(server, "/v1/models/other:predict") == {404}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_https(tmp_path: Path, workers: str) -> None:
    certificate(tmp_path)
    models.save(models.classifier(), tmp_path / "iris")
    context = ssl.create_default_context(cafile=str(tmp_path / "cabundle.crt"))
    with serving(tmp_path, "--model_name", "iris", "--model_dir", str(tmp_path / "iris"), "--workers", workers, "--ssl_certfile",
                 str(tmp_path / "cabundle.crt"), "--ssl_keyfile", str(tmp_path / "key"), tls=context) as server:
        request = urllib.request.Request(f"{server.url}/v1/models/iris:predict", msgspec.json.encode({"instances": models.rows()}))
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            assert msgspec.json.decode(answer.read()) == {"predictions": [1, 1]}


@pytest.mark.parametrize("folder", ["a" * 120, "nowhere"])
def test_workers_start_wherever_temporary_files_lie(tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if folder != "nowhere":
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / folder))
    model(tmp_path / "models", "who")
    with serving(tmp_path, "--model_dir", str(tmp_path / "models"), "--workers", "2") as server:
        assert len(workers(server, 2)) == 2
        assert server.post("/v2/repository/models/who/unload", {})[0] == 200
        assert statuses(server, "/v1/models/who:predict") == {404}
