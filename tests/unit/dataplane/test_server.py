"""The V1 and V2 protocols as clients see them; request and response examples are those that KServe publishes."""
import asyncio
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from serveplane.dataplane.modelserver.formats.sklearn import SklearnModel
from serveplane.dataplane.modelserver.model import Model
from tests.unit.dataplane import models
from tests.unit.dataplane.serving import Server

V1 = "/v1/models/iris:predict"
V2 = "/v2/models/iris/infer"
ROWS = models.rows()


def tensor(**changes: Any) -> dict[str, Any]:
    return {"name": "input-0", "shape": [2, 4], "datatype": "FP32", "data": ROWS, **changes}


@pytest.fixture
async def iris(tmp_path: Path) -> Server:
    path = models.save(models.classifier(), tmp_path / "iris")
    return await Server(tmp_path).add(SklearnModel("iris", path))


async def test_v1_predicts_kserves_example(iris: Server) -> None:
    assert await iris.post(V1, {"instances": ROWS}) == (200, {"predictions": [1, 1]})
    assert await iris.post(V1, {"inputs": ROWS}) == (200, {"predictions": [1, 1]})


async def test_v2_infers_kserves_example(iris: Server) -> None:
    status, answer = await iris.post(V2, {"id": "42", "inputs": [tensor()]})
    assert status == 200
    assert answer == {
        "model_name": "iris", "model_version": None, "id": "42", "parameters": None,
        "outputs": [{"name": "output-0", "shape": [2], "datatype": "INT64", "parameters": None, "data": [1, 1]}]}


async def test_v2_makes_an_id_if_none_came(iris: Server) -> None:
    _, answer = await iris.post(V2, {"inputs": [tensor()]})
    assert len(answer["id"]) == 36


@pytest.mark.parametrize("data", [ROWS, [value for row in ROWS for value in row]], ids=["nested", "flat"])
@pytest.mark.parametrize("datatype", ["FP32", "FP64", "FP16"])
async def test_v2_data_may_be_nested_or_flat(iris: Server, data: Any, datatype: str) -> None:
    status, answer = await iris.post(V2, {"inputs": [tensor(data=data, datatype=datatype)]})
    assert (status, answer["outputs"][0]["data"]) == (200, [1, 1])


async def test_v2_takes_one_tensor_per_column(iris: Server) -> None:
    columns = [{"name": f"c{index}", "shape": [2], "datatype": "FP64", "data": [row[index] for row in ROWS]} for index in range(4)]
    status, answer = await iris.post(V2, {"inputs": columns})
    assert (status, answer["outputs"][0]["data"]) == (200, [1, 1])


async def test_binary_tensors_both_ways(iris: Server) -> None:
    raw = np.array(ROWS, "<f4").tobytes()
    head = msgspec.json.encode({
        "inputs": [{"name": "input-0", "shape": [2, 4], "datatype": "FP32", "parameters": {"binary_data_size": len(raw)}}],
        "outputs": [{"name": "output-0", "parameters": {"binary_data": True}}]})
    response = await iris("POST", V2, head + raw, [("Inference-Header-Content-Length", str(len(head)))])
    assert response.status == 200
    assert isinstance(response.body, bytes)
    length = int(response.headers.get("Inference-Header-Content-Length") or 0)
    output = msgspec.json.decode(response.body[:length])["outputs"][0]
    assert output["parameters"] == {"binary_data_size": 16}
    assert np.frombuffer(response.body[length:], "<i8").tolist() == [1, 1]


@pytest.mark.parametrize(("path", "expected"), [
    ("/", {"status": "alive"}),
    ("/v1/models", {"models": ["iris"]}),
    ("/v1/models/iris", {"name": "iris", "ready": True}),
    ("/v2/health/live", {"live": True}),
    ("/v2/health/ready", {"ready": True}),
    ("/v2/models", {"models": ["iris"]}),
    ("/v2/models/iris/ready", {"name": "iris", "ready": True}),
    ("/v2/models/iris", {"name": "iris", "platform": "", "inputs": [{"name": "input-0", "datatype": "FP64", "shape": [-1, 4]}],
                         "outputs": [{"name": "output-0", "datatype": "INT64", "shape": [-1]}]}),
])
async def test_health_and_metadata(iris: Server, path: str, expected: Any) -> None:
    assert await iris.get(path) == (200, expected)


MISTAKES = [
    (V1, b"", "the body is not JSON"),
    (V1, b"{", "the body is not JSON"),
    (V1, b"[]", "the body must be a JSON object"),
    (V1, b'{"instances": [[NaN,1,1,1]]}', "the body is not JSON"),
    (V1, b"[" * 100_000, "the JSON is nested too deeply"),
    (V1, {}, "instances: is missing"),
    (V1, {"instances": {}}, "instances: must be a list"),
    (V1, {"instances": []}, "instances: is empty"),
    (V1, {"instances": [[1, 2, 3]]}, "instances[0]: 3 values where the model takes 4"),
    (V1, {"instances": [[1, 2, 3, 4], [1, 2, 3]]}, "instances[1]: 3 values where instances[0] has 4 values"),
    (V1, {"instances": [[1, 2, 3, 4], [1, 2, "x", 4]]}, "instances[1][2]: text is not a number"),
    (V1, {"instances": [[1, 2, None, 4]]}, "instances[0][2]: null is not a number"),
    (V1, {"instances": [[1, 2, {}, 4]]}, "instances[0][2]: an object is not a number"),
    (V1, {"instances": [[1, 2, 10**30, 4]]}, "instances[0][2]: 1000000000000000000000000000000 does not fit 64 bits"),
    (V1, {"instances": [1, 2, 3, 4]}, "instances: rows of 4 values are expected, not an array of shape [4]"),
    (V1, {"instances": ["text"]}, "instances: rows of 4 values are expected, not an array of shape [1]"),
    (V1, {"instances": [{"a": 1}]}, "instances[0]: 1 values where the model takes 4"),
    (V2, {}, "Object missing required field `inputs`"),
    (V2, {"inputs": []}, "inputs: is empty"),
    (V2, {"inputs": [{"name": "a"}]}, "inputs[0]: Object missing required field `shape`"),
    (V2, {"inputs": [tensor(shape=["x"])]}, "inputs[0].shape[0]: Expected `int`, got `str`"),
    (V2, {"inputs": [tensor(datatype="FP8")]}, "inputs[0].datatype: unknown datatype 'FP8'"),
    (V2, {"inputs": [tensor(shape=[3, 4])]}, "inputs[0]: shape [3, 4] needs 12 values, data has 8"),
    (V2, {"inputs": [tensor(shape=[2**63, 0], data=[])]}, "inputs[0].shape: Maximum allowed dimension exceeded"),
    (V2, {"inputs": [tensor(shape=[-2, 4])]}, "inputs[0].shape[0]: -2 is not a size"),
    (V2, {"inputs": [tensor(data=[["x"] * 4] * 2)]}, "inputs[0].data[0][0]: text is not a number"),
    (V2, {"inputs": [tensor(data=None)]}, "inputs[0]: has neither data nor binary_data_size"),
    (V2, {"inputs": [tensor(datatype="INT32", data=[1.5] * 8)]}, "inputs[0].data: holds values that are not INT32"),
    (V2, {"inputs": [tensor(datatype="INT8", data=[300] * 8)]}, "inputs[0].data: holds values outside INT8"),
    (
        V2,
        {"inputs": [tensor(datatype="BOOL", data=[1] * 8)]},
        "inputs[0].data: holds values that are not true or false",
    ),
    (V2, {"inputs": [tensor(datatype="BYTES", data=[1] * 8)]}, "inputs[0].data: BYTES holds values that are not text"),
    (
        V2,
        {"inputs": [tensor(parameters={"binary_data_size": 4}, data=None)]},
        "inputs[0].parameters.binary_data_size: 4 bytes are not there",
    ),
    (
        V2,
        {"inputs": [tensor(shape=[2, 2, 2])]},
        "inputs: rows of 4 values are expected, not an array of shape [2, 2, 2]",
    ),
    (V2, {"inputs": [tensor(shape=[0, 4], data=[])]}, "inputs[0].shape: holds no rows"),
    (
        V2,
        {"inputs": [tensor()], "outputs": [{"name": "x"}]},
        "outputs[0].name: the model has no output 'x'; it gives output-0",
    ),
]


@pytest.mark.parametrize(("path", "body", "message"), MISTAKES, ids=[message[:60] for _, _, message in MISTAKES])
async def test_a_mistake_is_a_400_with_its_path(iris: Server, path: str, body: Any, message: str) -> None:
    status, answer = await iris.post(path, body)
    assert status == 400
    assert answer["error"].startswith(message)


async def test_nan_in_a_raw_tensor_is_a_400(iris: Server) -> None:
    raw = np.full((1, 4), np.nan, "<f8").tobytes()
    head = msgspec.json.encode(
        {"inputs": [{"name": "a", "shape": [1, 4], "datatype": "FP64", "parameters": {"binary_data_size": len(raw)}}]}
    )
    status, answer = await iris.post(V2, head + raw, [("Inference-Header-Content-Length", str(len(head)))])
    assert (status, "NaN" in answer["error"]) == (400, True)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", V1, 405),
        ("POST", "/v1/models/iris", 405),
        ("DELETE", "/v2/models/iris", 405),
        ("GET", "/v1/models/none", 404),
        ("POST", "/v2/models/none/infer", 404),
        ("GET", "/v2/models/iris/versions/7", 404),
        ("POST", "/v2/repository/models/..%2Fx/load", 400),
        ("POST", "/v2/repository/models/none/load", 404),
        ("POST", "/v2/repository/models/none/unload", 404),
        ("POST", "/v1/models/iris:explain", 501),
    ],
)
async def test_other_statuses(iris: Server, method: str, path: str, status: int) -> None:
    response = await iris(method, path, {"instances": ROWS})
    assert response.status == status


async def test_request_id_comes_back(iris: Server) -> None:
    response = await iris("POST", V1, {"instances": ROWS}, [("X-Request-Id", "abc")])
    assert response.headers.get("x-request-id") == "abc"


async def test_repository_api_loads_reloads_and_unloads(tmp_path: Path) -> None:
    server = Server(tmp_path)
    models.save(models.classifier(), tmp_path / "one")
    assert await server.post("/v2/repository/models/one/load", {}) == (200, {"name": "one", "load": True})
    assert (await server.post("/v1/models/one:predict", {"instances": ROWS}))[0] == 200
    assert await server.post("/v2/repository/index", {}) == (200, [{"name": "one", "state": "READY", "reason": "read by own arithmetic"}])
    assert (await server.post("/v2/repository/models/one/load", {}))[0] == 200
    assert await server.post("/v2/repository/models/one/unload", {}) == (200, {"name": "one", "unload": True})
    assert (await server.post("/v1/models/one:predict", {"instances": ROWS}))[0] == 404
    assert await server.get("/v2/repository/index") == (200, [])


async def test_a_model_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "model.joblib").write_bytes(b"nonsense")
    server = Server(tmp_path)
    status, answer = await server.post("/v2/repository/models/bad/load", {})
    assert (status, "model.joblib" in answer["error"]) == (503, True)
    status, answer = await server.post("/v1/models/bad:predict", {"instances": ROWS})
    assert (status, "model.joblib" in answer["error"]) == (503, True)
    _, index = await server.get("/v2/repository/index")
    assert index[0]["state"] == "UNAVAILABLE"
    assert await server.get("/v2/repository/index?ready=true") == (200, [])


async def test_a_reload_that_fails_keeps_the_old_model(tmp_path: Path) -> None:
    server = Server(tmp_path)
    path = models.save(models.classifier(), tmp_path / "one")
    await server.post("/v2/repository/models/one/load", {})
    path.write_bytes(b"nonsense")
    assert (await server.post("/v2/repository/models/one/load", {}))[0] == 503
    assert (await server.post("/v1/models/one:predict", {"instances": ROWS}))[0] == 200


CE = [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "s"), ("ce-type", "t")]


async def test_binary_cloudevent(iris: Server) -> None:
    response = await iris("POST", V1, {"instances": ROWS}, CE)
    assert response.body == b'{"predictions":[1,1]}'
    assert response.headers.get("ce-type") == "io.kserve.inference.response"
    assert response.headers.get("ce-source") == "io.kserve.inference.iris"


async def test_structured_cloudevent(iris: Server) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": {"instances": ROWS}}
    status, answer = await iris.post(V1, event, [("Content-Type", "application/cloudevents+json")])
    assert (status, answer["data"], answer["type"]) == (200, {"predictions": [1, 1]}, "io.kserve.inference.response")


async def test_a_broken_cloudevent_is_a_400(iris: Server) -> None:
    assert await iris.post(V1, {"instances": ROWS}, CE[:2]) == (400, {"error": "ce-source: is missing"})


async def test_bodies_under_way_are_bounded(tmp_path: Path) -> None:
    server = await Server(tmp_path).add(Waiting("w"))
    server.application.room = 100
    body = b'{"instances": [1]}' + b" " * 40
    first = asyncio.create_task(server.post("/v1/models/w:predict", body))
    await asyncio.sleep(0)
    response = await server("POST", "/v1/models/w:predict", body)
    assert (response.status, response.headers.get("retry-after")) == (503, "1")
    Waiting.go.set()
    assert (await first)[0] == 200
    assert (await server.post("/v1/models/w:predict", body))[0] == 200


class Waiting(Model):
    go = asyncio.Event()

    async def predict(self, payload: Any, headers: Any) -> Any:
        await self.go.wait()
        return payload


async def test_metrics_have_kserves_names(iris: Server) -> None:
    await iris.post(V1, {"instances": ROWS})
    response = await iris("GET", "/metrics")
    assert isinstance(response.body, bytes)
    text = response.body.decode()
    for step in ("preprocess", "predict", "postprocess"):
        assert f'request_{step}_seconds_count{{model_name="iris"}} 1' in text
        assert f'request_{step}_seconds_bucket{{le="+Inf",model_name="iris"}} 1' in text
    assert 'serveplane_requests_total{endpoint="predict",code="200"} 1' in text


class Custom(Model):
    """As a user writes one; without headers where they are not needed."""

    def load(self) -> bool:
        self.factor = 3
        self.ready = True
        return True

    def preprocess(self, payload: Any) -> Any:
        return payload["instances"]

    async def predict(self, payload: Any, headers: Any) -> Any:
        return [value * self.factor for value in payload]

    def postprocess(self, result: Any, headers: Any) -> Any:
        return {"predictions": np.array(result)}

    def explain(self, payload: Any) -> Any:
        return {"explanations": [headers_count(payload)]}


def headers_count(payload: Any) -> int:
    return len(payload)


async def test_a_users_model(tmp_path: Path) -> None:
    server = await Server(tmp_path).add(Custom("mine"))
    assert await server.post("/v1/models/mine:predict", {"instances": [1, 2]}) == (200, {"predictions": [3, 6]})
    assert await server.post("/v1/models/mine:explain", {"instances": [1, 2]}) == (200, {"explanations": [2]})


async def test_a_users_exception_is_a_500_with_its_name(tmp_path: Path) -> None:
    server = await Server(tmp_path).add(Custom("mine"))
    assert await server.post("/v1/models/mine:predict", {}) == (500, {"error": "KeyError : 'instances'"})
