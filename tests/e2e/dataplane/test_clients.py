"""The official clients, installed from PyPI into environments of their own, talk to our server over REST and gRPC; and what KServe's
own server can be told, ours can.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import peers

from serveplane.dataplane.modelserver import options
from serveplane.dataplane.sdk import ModelServer
from tests.e2e.dataplane.processes import serving
from tests.unit.dataplane import models

TRITON = """
import json, sys
import numpy as np, tritonclient.grpc as grpc, tritonclient.http as http
rows = np.array([[6.8, 2.8, 4.8, 1.4], [6.0, 3.4, 4.5, 1.6]], dtype=np.float32)
told = {}
for name, module, port in (("http", http, sys.argv[1]), ("grpc", grpc, sys.argv[2])):
    client = module.InferenceServerClient(f"127.0.0.1:{port}")
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("iris")
    tensor = module.InferInput("input-0", list(rows.shape), "FP32")
    tensor.set_data_from_numpy(rows)
    first = client.infer("iris", [tensor], request_id="7").as_numpy("output-0").tolist()
    wanted = client.infer("iris", [tensor], outputs=[module.InferRequestedOutput("output-0")]).as_numpy("output-0").tolist()
    metadata = client.get_model_metadata("iris")
    inputs = metadata["inputs"] if name == "http" else [{"name": each.name, "shape": list(each.shape)} for each in metadata.inputs]
    client.load_model("two")
    two = client.infer("two", [tensor]).as_numpy("output-0").tolist()
    client.unload_model("two")
    try:
        client.infer("two", [tensor])
    except Exception as error:
        missing = str(error)
    told[name] = {"first": first, "wanted": wanted, "input": inputs[0]["name"], "two": two, "missing": missing}
print(json.dumps(told))
"""
KSERVE = """
import asyncio, json, sys
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig
rows = np.array([[6.8, 2.8, 4.8, 1.4], [6.0, 3.4, 4.5, 1.6]], dtype=np.float32)
def request(binary):
    tensor = InferInput("input-0", [2, 4], "FP32")
    tensor.set_data_from_numpy(rows, binary_data=binary)
    return InferRequest("iris", [tensor], request_id="7")
async def main():
    base, told = f"http://127.0.0.1:{sys.argv[1]}", {}
    v1, v2 = InferenceRESTClient(RESTConfig(protocol="v1")), InferenceRESTClient(RESTConfig(protocol="v2"))
    rpc = InferenceGRPCClient(f"127.0.0.1:{sys.argv[2]}")
    told["v1"] = (await v1.infer(base, {"instances": rows.tolist()}, model_name="iris"))["predictions"]
    told["ready"] = [await v1.is_model_ready(base, "iris"), await v2.is_server_ready(base), await v2.is_model_ready(base, "iris"),
                     await rpc.is_server_ready(), await rpc.is_model_ready("iris"), await rpc.is_server_live()]
    for binary in (True, False):
        told[f"v2 {binary}"] = (await v2.infer(base, request(binary), model_name="iris")).outputs[0].as_numpy().tolist()
        told[f"grpc {binary}"] = (await rpc.infer(request(binary))).outputs[0].as_numpy().tolist()
    print(json.dumps(told))
asyncio.run(main())
"""


FLAGS = """
import argparse, inspect, json
from kserve.model_server import ModelServer, parser
def value(action):
    if action.nargs == 0:
        return []
    for text in [*(action.choices or ()), "7", "true", "text"]:
        try:
            (action.type or str)(text)
            return [text]
        except Exception:
            continue
print(json.dumps({"flags": [[name, *value(action)] for action in parser._actions for name in action.option_strings],
                  "keywords": list(inspect.signature(ModelServer.__init__).parameters)[1:]}))
"""


def told_by(python: Path | None, script: str, http: int = 0, grpc: int = 0) -> dict[str, Any]:
    if python is None:
        pytest.skip("the official client cannot be installed here (no package index?)")
    done = subprocess.run([python, "-c", script, str(http), str(grpc)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_tritonclient(tmp_path: Path) -> None:
    python = peers.environment(peers.TRITON)
    models.save(models.classifier(), tmp_path / "models" / "iris")
    models.save(models.classifier(), tmp_path / "models" / "two")
    with serving(tmp_path, "--model_dir", str(tmp_path / "models")) as server:
        told = told_by(python, TRITON, server.http, server.grpc)
    for protocol in ("http", "grpc"):
        answers = told[protocol]
        assert "two does not exist" in answers.pop("missing")
        assert answers == {"first": [1, 1], "wanted": [1, 1], "input": "input-0", "two": [1, 1]}


def test_kserve_client(tmp_path: Path) -> None:
    python = peers.environment(peers.KSERVE)
    models.save(models.classifier(), tmp_path / "iris")
    with serving(tmp_path, "--model_name", "iris", "--model_dir", str(tmp_path / "iris")) as server:
        told = told_by(python, KSERVE, server.http, server.grpc)
    assert told == {"v1": [1, 1], "ready": [True] * 6, "v2 True": [1, 1], "v2 False": [1, 1], "grpc True": [1, 1], "grpc False": [1, 1]}


def test_every_flag_and_keyword_of_kserves_server_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    told = told_by(peers.environment(peers.KSERVE), FLAGS)
    assert len(told["flags"]) > 20
    for words in told["flags"]:
        parser = argparse.ArgumentParser(exit_on_error=False)
        options.add_arguments(parser)
        assert options.options(parser.parse_args(words)), words
    monkeypatch.setattr(sys, "argv", ["program"])
    ModelServer(**dict.fromkeys(told["keywords"]))
