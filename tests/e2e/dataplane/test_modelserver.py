"""The model server as a process: formats, transformers and explainers, drain, back-pressure, workers, start-up weight."""
import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serveplane.http import Client
from tests.e2e.dataplane.processes import serving
from tests.kit.processes import REPOSITORY
from tests.unit.dataplane import models

ROWS = models.rows()
INSTANCES = {"instances": ROWS}


def tensor(rows: Any, datatype: str = "FP32") -> dict[str, Any]:
    return {"inputs": [{"name": "input-0", "shape": list(np.shape(rows)), "datatype": datatype, "data": rows}]}


@pytest.mark.parametrize("suffix", [".json", ".ubj", ".bst"])
def test_xgboost(tmp_path: Path, suffix: str) -> None:
    xgboost = pytest.importorskip("xgboost")
    rows, labels = models.iris()
    booster = xgboost.train({"objective": "multi:softprob", "num_class": 3, "nthread": 1}, xgboost.DMatrix(rows, labels), 5)
    (tmp_path / "m").mkdir()
    booster.save_model(tmp_path / "m" / ("model.json" if suffix == ".json" else "model.ubj"))
    if suffix == ".bst":
        (tmp_path / "m" / "model.ubj").rename(tmp_path / "m" / "model.bst")
    expected = booster.predict(xgboost.DMatrix(np.array(ROWS)))
    with serving(tmp_path, "--model_name", "m", "--model_dir", str(tmp_path / "m")) as server:
        status, answer = server.post("/v1/models/m:predict", INSTANCES)
        assert status == 200
        np.testing.assert_allclose(answer["predictions"], expected, rtol=1e-5)
        status, answer = server.post("/v2/models/m/infer", tensor(ROWS))
        assert (status, answer["outputs"][0]["datatype"], answer["outputs"][0]["shape"]) == (200, "FP32", [2, 3])
        assert server.post("/v1/models/m:predict", {"instances": [[None, 1, 2, 3]]})[0] == 200
        assert server.post("/v1/models/m:predict", {"instances": [[1, 2]]})[0] == 400


def test_lightgbm(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rows, labels = models.iris()
    booster = lightgbm.train(
        {"objective": "multiclass", "num_class": 3, "verbosity": -1, "num_threads": 1},
        lightgbm.Dataset(rows, labels),
        5,
    )
    (tmp_path / "m").mkdir()
    booster.save_model(tmp_path / "m" / "model.bst")
    with serving(tmp_path, "--model_name", "m", "--model_dir", str(tmp_path / "m")) as server:
        status, answer = server.post("/v1/models/m:predict", INSTANCES)
        assert status == 200
        np.testing.assert_allclose(answer["predictions"], booster.predict(np.array(ROWS)), rtol=1e-9)


def test_scikit_learns_own_predict_and_a_model_that_is_not_known(tmp_path: Path) -> None:
    from sklearn.neighbors import KNeighborsClassifier
    models.save(KNeighborsClassifier().fit(*models.iris()), tmp_path / "models" / "near")
    models.save(models.classifier(), tmp_path / "models" / "iris")
    with serving(tmp_path, "--model_dir", str(tmp_path / "models"), "--own_arithmetic", "false") as server:
        assert server.post("/v1/models/near:predict", INSTANCES) == (200, {"predictions": [1, 1]})
        assert server.post("/v1/models/iris:predict", INSTANCES) == (200, {"predictions": [1, 1]})
        assert server.post("/v1/models/near:predict", {"instances": [[1, 2, 3, 4], [None, 1, 1, 1]]})[0] == 400


@pytest.mark.parametrize(("rule", "part"), [("known", "KNeighborsClassifier"), ("never", "--pickle=never")])
def test_pickles_that_are_not_wanted_are_refused_in_a_sentence(tmp_path: Path, rule: str, part: str) -> None:
    from sklearn.neighbors import KNeighborsClassifier
    models.save(KNeighborsClassifier().fit(*models.iris()), tmp_path)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "serveplane.cli.main",
            "modelserver",
            "--model_dir",
            tmp_path,
            "--http_port",
            "0",
            "--pickle",
            rule,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert part in done.stderr.splitlines()[-1]


def test_python_model(tmp_path: Path) -> None:
    with serving(tmp_path, "--model_name", "petal", "--model_dir", str(REPOSITORY / "examples" / "python-model")) as server:
        assert server.post("/v1/models/petal:predict", {"instances": [[1, 1, 4.5, 1], [1, 1, 1, 1]]}) == (
            200,
            {"predictions": [True, False]},
        )


@pytest.mark.parametrize("protocol", ["v2", "grpc-v2"])
def test_transformer_example(tmp_path: Path, protocol: str) -> None:
    models.save(models.classifier(), tmp_path / "iris")
    inches = [[value / 2.54 for value in row] for row in ROWS]
    with serving(tmp_path, "--model_name", "iris", "--model_dir", str(tmp_path / "iris"), name="predictor") as predictor:
        port = predictor.grpc if protocol == "grpc-v2" else predictor.http
        program = [sys.executable, str(REPOSITORY / "examples" / "transformer" / "transformer.py")]
        with serving(tmp_path, "--model_name", "iris", "--predictor_host", f"127.0.0.1:{port}", "--predictor_protocol", protocol,
                     "--enable_predictor_health_check", program=program, name="transformer") as transformer:
            answer = transformer.post("/v1/models/iris:predict", {"instances": inches})
            assert answer == (200, {"predictions": ["versicolor", "versicolor"]})
            status, answer = transformer.post("/v1/models/iris:predict", {"instances": [[1.0]]})
            assert (status, "where the model takes 4" in answer["error"]) == (400, True)


def test_explainer_example(tmp_path: Path) -> None:
    models.save(models.classifier(), tmp_path / "iris")
    with serving(tmp_path, "--model_name", "iris", "--model_dir", str(tmp_path / "iris"), name="predictor") as predictor:
        program = [sys.executable, str(REPOSITORY / "examples" / "explainer" / "explainer.py")]
        with serving(tmp_path, "--model_name", "iris", "--predictor_host", f"127.0.0.1:{predictor.http}", program=program) as explainer:
            status, answer = explainer.post("/v1/models/iris:explain", {"instances": [[6.0, 2.7, 5.0, 1.6]]})
            assert (status, len(answer["explanations"][0])) == (200, 4)
            assert explainer.post("/v1/models/iris:predict", INSTANCES) == (200, {"predictions": [1, 1]})


COUNTING = """
import time
from pathlib import Path
class Slow:
    def __init__(self, folder):
        self.calls = Path(folder) / "calls.log"
    def predict(self, rows):
        with self.calls.open("a") as file:
            file.write("x")
        time.sleep(1.0)
        return rows[:, 0]
"""


def test_sigterm_lets_running_requests_finish(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.py").write_text(COUNTING)
    with serving(tmp_path, "--model_name", "slow", "--model_dir", str(tmp_path / "m")) as server:
        server.post("/v1/models/slow:predict", {"instances": [[1.0]]})   # now it is known to be slow
        asyncio.run(_terminate_while_asking(server.url, server.process, tmp_path / "m" / "calls.log"))
        assert server.process.wait(60) == 0


def _wait_for_calls(calls: Path, count: int) -> None:
    while len(calls.read_text()) < count:
        time.sleep(0.01)


async def _terminate_while_asking(url: str, process: Any, calls: Path) -> None:
    async with Client() as client:
        asking = asyncio.create_task(client.request("POST", f"{url}/v1/models/slow:predict", body=b'{"instances": [[7.0]]}', timeout=90))
        await asyncio.to_thread(_wait_for_calls, calls, 2)
        process.send_signal(signal.SIGTERM)
        response = await asking
        assert (response.status, await response.read()) == (200, b'{"predictions":[7.0]}')


def test_a_full_queue_answers_503_and_health_stays_prompt(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.py").write_text("import time\ndef predict(rows):\n    time.sleep(2.0)\n    return rows[:, 0]\n")
    with serving(tmp_path, "--model_name", "slow", "--model_dir", str(tmp_path / "m"), "--max_queue", "5") as server:
        for _ in range(2):
            server.post("/v1/models/slow:predict", {"instances": [[1.0]]})
        statuses, waiting = asyncio.run(_flood(server.url))
        assert set(statuses) == {200, 503}
        assert waiting > 0


async def _flood(url: str) -> tuple[list[int], int]:
    """The statuses of many requests at once, and how many of them were still waiting when a health check was answered."""
    async with Client() as client:
        async def ask() -> int:
            response = await client.request("POST", f"{url}/v1/models/slow:predict", body=b'{"instances": [[7.0]]}', timeout=120)
            await response.read()
            if response.status == 503:
                assert response.headers.get("retry-after") == "1"
            return response.status
        asking = [asyncio.create_task(ask()) for _ in range(40)]
        await asyncio.sleep(0.1)
        await (await client.request("GET", f"{url}/v2/health/live", timeout=120)).read()
        waiting = sum(not task.done() for task in asking)
        return list(await asyncio.gather(*asking)), waiting


def test_workers_share_the_port_and_one_that_dies_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.py").write_text("import os, numpy\ndef predict(rows):\n    return numpy.full(len(rows), os.getpid())\n")
    with serving(tmp_path, "--model_name", "m", "--model_dir", str(tmp_path / "m"), "--workers", "2") as server:
        seen = _worker_ids(server, 2)
        time.sleep(5.2)   # past the time in which a death means that it never worked
        os.kill(min(seen), signal.SIGKILL)
        assert max(seen) in _worker_ids(server, 1)
        assert len(_worker_ids(server, 2) - {min(seen)}) == 2
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(90) == 0


def _worker_ids(server: Any, count: int) -> set[int]:
    seen: set[int] = set()
    for _ in range(600):
        try:
            status, answer = server.post("/v1/models/m:predict", {"instances": [[1.0]]})
        except OSError:   # sent to the one that was killed
            continue
        assert status == 200
        seen.add(answer["predictions"][0])
        if len(seen) >= count:
            break
        time.sleep(0.02)
    return seen


def test_a_known_model_needs_neither_scikit_learn_nor_grpc_in_memory(tmp_path: Path) -> None:
    models.save(models.classifier(), tmp_path / "iris")
    with serving(tmp_path, "--model_name", "iris", "--model_dir", str(tmp_path / "iris")) as server:
        assert server.post("/v1/models/iris:predict", INSTANCES)[0] == 200
        mapped = Path(f"/proc/{server.process.pid}/maps").read_text()
        assert [name for name in ("/sklearn/", "/scipy/", "cygrpc", "/pandas/") if name in mapped] == []
