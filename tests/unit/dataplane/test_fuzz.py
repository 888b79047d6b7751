"""Whatever is sent, the answer is never a 500."""
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serveplane.dataplane.modelserver.formats.sklearn import SklearnModel
from serveplane.http.loop import run
from tests.counts import COUNTS
from tests.unit.dataplane import models
from tests.unit.dataplane.serving import Server

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=20)
rows = st.lists(st.lists(json_values, max_size=5), max_size=4) | json_values
tensors = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["input-0", "", "a"]),
        "shape": st.lists(st.integers(-2, 2**70), max_size=4) | st.just([1, 4]),
        "datatype": st.sampled_from(["FP32", "FP64", "INT8", "UINT64", "BOOL", "BYTES", "FP16", "x", ""]),
        "data": json_values | st.just([1, 2, 3, 4]),
    },
    optional={
        "parameters": st.dictionaries(st.sampled_from(["binary_data_size", "content_type"]), json_values, max_size=2)
        | st.none()
    },
)
v1_bodies = st.fixed_dictionaries({}, optional={"instances": rows, "inputs": rows, "signature_name": json_values}) | json_values
v2_bodies = st.fixed_dictionaries({"inputs": st.lists(tensors, max_size=3) | json_values}, optional={
    "id": json_values, "parameters": json_values,
    "outputs": st.lists(st.fixed_dictionaries({"name": st.sampled_from(["output-0", "z"])}), max_size=2) | json_values})
paths = st.sampled_from(["/v1/models/iris:predict", "/v1/models/iris:explain", "/v2/models/iris/infer", "/v2/repository/index"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder: Path = tmp_path_factory.mktemp("models")
    return run(Server(folder).add(SklearnModel("iris", models.save(models.classifier(), folder / "iris"))))


def check(server: Server, path: str, body: Any, headers: Any = ()) -> None:
    response = run(server("POST", path, body, headers), plain=True)
    assert response.status in (200, 400, 404, 501), response.body


@settings(
    max_examples=COUNTS.fuzzed_objects // 5,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.one_of(
        st.tuples(st.just("/v1/models/iris:predict"), v1_bodies),
        st.tuples(st.just("/v2/models/iris/infer"), v2_bodies),
        st.tuples(paths, json_values),
    )
)
def test_json(server: Server, case: tuple[str, Any]) -> None:
    try:
        body = msgspec.json.encode(case[1])
    except OverflowError:   # integers beyond 64 bits: as text, since JSON can hold them
        import json
        body = json.dumps(case[1]).encode()
    check(server, case[0], body)


@settings(max_examples=COUNTS.fuzzed_objects // 10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(paths, st.binary(max_size=100), st.sampled_from(["", "0", "5", "999", "-1", "x", "¹"]),
       st.sampled_from(["application/json", "application/octet-stream", "text/plain", "application/cloudevents+json", ""]))
def test_bytes(server: Server, path: str, body: bytes, length: str, kind: str) -> None:
    headers = [("Content-Type", kind)] + ([("Inference-Header-Content-Length", length)] if length else [])
    check(server, path, body, headers)


@settings(max_examples=COUNTS.fuzzed_objects // 10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD"]), st.text(alphabet="/v12models:%.iris predict\x7fé{}", max_size=40))
def test_paths(server: Server, method: str, path: str) -> None:
    response = run(server(method, "/" + path.lstrip("/"), b"{}"), plain=True)
    assert response.status in (200, 400, 404, 405, 501)
