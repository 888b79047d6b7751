"""What a program written for KServe's SDK finds under the same names."""
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serveplane.dataplane.modelserver.errors import InvalidInput
from serveplane.dataplane.modelserver.predictor import passed_on
from serveplane.dataplane.sdk import (
    InferInput,
    InferRequest,
    Model,
    ModelServer,
    PredictorConfig,
    get_predict_input,
    get_predict_response,
)
from serveplane.http.headers import Headers
from tests.unit.dataplane.serving import Server


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["program", "--http_port", "9000", "--own-flag", "x"])


def test_keywords_of_the_server_are_taken() -> None:
    server = ModelServer(workers=2, grace_period=7, timeout_keep_alive=9, enable_docs_url=True, max_threads=3, enable_latency_logging=False,
                         predictor_config=PredictorConfig("iris:80", "v2", predictor_request_retries=2))
    options = server.options
    assert (options.http_port, options.workers, options.grace_seconds, options.keep_alive_seconds) == (9000, 2, 7, 9)
    assert (options.predictor_host, options.predictor_protocol, options.predictor_retries) == ("iris:80", "v2", 2)
    with pytest.raises(TypeError, match="nonsense"):
        ModelServer(nonsense=1)


def test_certificates_by_keyword_move_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["program"])
    assert ModelServer().options.http_port == 8080
    options = ModelServer(ssl_certfile="/a.crt", ssl_keyfile="/a.key").options
    assert (options.http_port, options.certificate, options.key) == (8443, "/a.crt", "/a.key")


class Marked(Model):
    def __init__(self, name: str) -> None:
        super().__init__(name, return_response_headers=True)

    def predict(self, payload: Any, headers: Any, response_headers: Any) -> Any:
        response_headers["x-mark"] = "1"
        return {"predictions": payload["instances"]}

    async def postprocess(self, result: Any, headers: Any = None, response_headers: Any = None) -> Any:
        response_headers |= {"x-more": "2", "content-type": "application/x-mine"}
        return result


async def test_a_model_may_send_headers_of_its_own(tmp_path: Path) -> None:
    server = await Server(tmp_path).add(Marked("m"))
    response = await server("POST", "/v1/models/m:predict", {"instances": [1]})
    assert (response.headers.get("x-mark"), response.headers.get("x-more")) == ("1", "2")
    assert response.headers.get_all("content-type") == ["application/x-mine"]
    other = await server("POST", "/v1/models/m:predict", {"nonsense": 1})
    assert (other.status, other.headers.get("x-mark")) == (500, None)   # a model that stumbles over its input is at fault itself


def v2(array: Any, datatype: str) -> InferRequest:
    return InferRequest("m", [InferInput("input-0", list(np.shape(array)), datatype, array)], "7")


def test_inputs_and_answers_in_the_protocol_of_the_request() -> None:
    assert get_predict_input({"instances": [[1, 2], [3, 4]]}).tolist() == [[1, 2], [3, 4]]
    assert get_predict_input(v2([[1, 2]], "FP32")).dtype == np.float32
    assert get_predict_input(v2(["a", "b"], "BYTES")) == get_predict_input({"instances": ["a", "b"]}) == ["a", "b"]
    assert get_predict_input({"instances": [{"b": 1, "a": 2}]}, ["a", "b"]).tolist() == [[2, 1]]
    with pytest.raises(InvalidInput, match="instances: is missing"):
        get_predict_input({})
    assert get_predict_response({}, [1, 2], "m") == {"predictions": [1, 2]}
    response = get_predict_response(v2([[1, 2]], "FP32"), np.array([0.5]), "m")
    assert (response.id, response.outputs[0].name, response.outputs[0].datatype) == ("7", "output-0", "FP64")


def test_who_asks_and_which_request_it_is_reach_the_predictor() -> None:
    headers = Headers([("Authorization", "Bearer x"), ("X-Request-Id", "1"), ("Cookie", "no"), ("traceparent", "00-a")])
    assert passed_on(headers) == [("authorization", "Bearer x"), ("x-request-id", "1"), ("traceparent", "00-a")]
