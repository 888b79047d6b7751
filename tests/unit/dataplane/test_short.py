"""The short way gives the answers of the long way, and leaves nothing behind."""
import asyncio
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from serveplane.dataplane.modelserver.formats.array_model import ArrayModel
from serveplane.dataplane.modelserver.formats.sklearn import SklearnModel
from serveplane.dataplane.modelserver.limits import BatchLimits
from serveplane.http.client import Client
from serveplane.http.messages import Later, Request, Response
from serveplane.http.server import serve
from tests.unit.dataplane import models
from tests.unit.dataplane.serving import Server

V1, V2 = "/v1/models/iris:predict", "/v2/models/iris/infer"
ROWS = models.rows()
TENSOR = {"name": "input-0", "shape": [2, 4], "datatype": "FP32", "data": ROWS}


class Summing(ArrayModel):
    def results(self, rows: Any) -> Any:
        if (rows < 0).any():
            raise ValueError("no negative numbers")
        return rows.sum(axis=1)

    def load(self) -> bool:
        self.ready = True
        return True


@pytest.fixture
async def server(tmp_path: Path) -> Server:
    return await Server(tmp_path).add(SklearnModel("iris", models.save(models.classifier(), tmp_path / "iris")))


BODIES = [
    (V1, {"instances": ROWS}), (V1, {"instances": [[1, 2, 3]]}), (V1, {"instances": [[1, 2, 3, "x"]]}), (V1, {}), (V1, []),
    (V1, {"instances": []}), (V1, {"instances": [[None, 1, 2, 3]]}),
    (V1, {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": {"instances": ROWS}}),
    (V2, {"inputs": [TENSOR], "id": "7"}), (V2, {"inputs": [{**TENSOR, "datatype": "x"}]}), (V2, {"inputs": []}), (V2, {"inputs": 1}),
    (V2, {"inputs": [TENSOR], "id": "7", "outputs": [{"name": "z"}]}),
    (V2, {"inputs": [TENSOR], "id": "7", "parameters": {"binary_data_output": True}}),
    ("/v2/models/other/infer", {}), ("/v2/models/iris/versions/3/infer", {"inputs": [TENSOR]}),
]


@pytest.mark.parametrize(("path", "body"), BODIES, ids=str)
async def test_both_ways_answer_alike(server: Server, path: str, body: Any) -> None:
    async def told(answer: Any) -> tuple[int, list[tuple[str, str]], Any]:
        response: Response = await answer
        return response.status, response.headers.items(), _settled(response.body)
    request = Request("POST", path, [("X-Request-Id", "a7")], msgspec.json.encode(body))
    from serveplane.dataplane.modelserver.server import _route
    short, long = server.application(request), server.application._at_length(request, _route(path))
    assert isinstance(short, Later | Response)
    assert await told(short) == await told(long)
    assert server.application.room == 256 << 20


def _settled(body: Any) -> Any:
    """Without what is new each time: the id and time of an event."""
    if body[:1] != b"{" or b"specversion" not in body:
        return body
    event = msgspec.json.decode(body)
    return {**event, "id": "", "time": ""}


@pytest.mark.parametrize("own", [True, False], ids=["own arithmetic", "scikit-learn"])
async def test_the_place_of_a_value_that_is_no_number_is_told(tmp_path: Path, own: bool) -> None:
    server = await Server(tmp_path).add(SklearnModel("iris", models.save(models.classifier(), tmp_path / "iris"), own_arithmetic=own))
    rows = np.array(ROWS, np.float32)
    rows[1, 2] = np.nan
    header = msgspec.json.encode({"inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "parameters": {"binary_data_size": 32}}]})
    good = server.post(V1, {"instances": ROWS})
    bad = server.post(V2, header + rows.tobytes(), [("Inference-Header-Content-Length", str(len(header)))])
    (status, answer), fine = await asyncio.gather(bad, good)
    assert (status, answer["error"].startswith("inputs[0].data[1][2]: ")) == (400, True)
    assert fine == (200, {"predictions": [1, 1]})
    status, answer = await server.post(V2, {"inputs": [{**TENSOR, "data": [[1e300, 1, 1, 1], [1, 1, 1, 1]]}]})
    assert (status, answer["error"].startswith("inputs[0].data[0][0]: ")) == (400, True)


async def test_the_headers_that_answers_share_stay_as_they_are(server: Server) -> None:
    body = msgspec.json.encode({"instances": ROWS})
    marked = await server.application(Request("POST", V1, [("x-request-id", "a7")], body))
    plain = await server.application(Request("POST", V1, [], body))
    assert (marked.headers.get("x-request-id"), plain.headers.get("x-request-id")) == ("a7", None)


async def test_many_connections_are_one_call_and_each_gets_its_own(tmp_path: Path) -> None:
    server = await Server(tmp_path).add(Summing("sum"))
    async with await serve(server.application) as listening, Client() as client:
        async def ask(number: int) -> tuple[int, Any]:
            body = msgspec.json.encode({"instances": [[number, 1], [0, number]]})
            response = await client.request("POST", f"{listening.url}/v1/models/sum:predict", body=body)
            return response.status, msgspec.json.decode(await response.read())
        answers = await asyncio.gather(*(ask(number) for number in range(-1, 30)))
    assert answers[0] == (400, {"error": "no negative numbers"})
    assert answers[1:] == [(200, {"predictions": [number + 1, number]}) for number in range(30)]
    assert server.application.room == 256 << 20


async def test_a_client_that_leaves_gives_its_room_back(tmp_path: Path) -> None:
    model = Summing("sum")
    server = await Server(tmp_path).add(model)
    later = server.application(Request("POST", "/v1/models/sum:predict", [], b'{"instances": [[1, 2]]}'))
    assert isinstance(later, Later)
    assert server.application.room < 256 << 20
    later.cancel()
    await asyncio.sleep(0.01)
    assert (server.application.room, model.batcher.waiting, model.batcher.largest) == (256 << 20, 0, 0)


async def test_a_full_queue_and_a_long_body_are_refused_at_once(tmp_path: Path) -> None:
    server = await Server(tmp_path).add(Summing("sum", BatchLimits(waiting_requests=1)))
    server.application._body_limit = 100
    first, second = (server.application(Request("POST", "/v1/models/sum:predict", [], b'{"instances": [[1, 2]]}')) for _ in range(2))
    assert isinstance(second, Response)
    assert (second.status, second.headers.get("retry-after")) == (503, "1")
    assert (await first).status == 200
    assert (await server("POST", "/v1/models/sum:predict", b"{" + b" " * 100)).status == 413
    assert server.application.room == 256 << 20


async def test_an_answer_that_cannot_be_written_fails_nobody_else(tmp_path: Path) -> None:
    class Odd(Summing):
        def results(self, rows: Any) -> Any:
            return np.array([1j if value > 5 else 1.0 for value in rows[:, 0]], dtype=object)
    server = await Server(tmp_path).add(Odd("odd"))
    bad, good = await asyncio.gather(*(server.post("/v1/models/odd:predict", {"instances": [[value]]}) for value in (9, 1)))
    assert (bad[0], good) == (500, (200, {"predictions": [1.0]}))


def test_metrics_count_the_three_steps(tmp_path: Path) -> None:
    async def run() -> str:
        server = await Server(tmp_path).add(Summing("sum"))
        await server.post("/v1/models/sum:predict", {"instances": [[1]]})
        server.repository.unload("sum")
        await server.add(Summing("sum"))
        await server.post("/v1/models/sum:predict", {"instances": [[1]]})
        return server.application.metrics.text()
    text = asyncio.run(run())
    for step in ("preprocess", "predict", "postprocess"):
        assert f'request_{step}_seconds_count{{model_name="sum"}} 1' in text
