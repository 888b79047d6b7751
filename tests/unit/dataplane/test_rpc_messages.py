"""The protobuf codec, held against Google's own implementation."""
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serveplane.dataplane.modelserver.errors import InvalidInput
from serveplane.dataplane.modelserver.rpc import messages
from serveplane.dataplane.modelserver.tensors import InferOutput, InferResponse, output
from tests.counts import COUNTS

google = pytest.importorskip("google.protobuf", reason="protobuf, the oracle, is not installed")
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402

FIELD = descriptor_pb2.FieldDescriptorProto
TYPES = {
    "s": FIELD.TYPE_STRING,
    "i64": FIELD.TYPE_INT64,
    "i32": FIELD.TYPE_INT32,
    "u32": FIELD.TYPE_UINT32,
    "u64": FIELD.TYPE_UINT64,
    "b": FIELD.TYPE_BOOL,
    "f": FIELD.TYPE_FLOAT,
    "d": FIELD.TYPE_DOUBLE,
    "by": FIELD.TYPE_BYTES,
}
PARAMETERS = "*Entry"
SCHEMA: dict[str, list[tuple[str, int, str]]] = {
    "Parameter": [
        ("bool_param", 1, "b"),
        ("int64_param", 2, "i64"),
        ("string_param", 3, "s"),
        ("double_param", 4, "d"),
        ("uint64_param", 5, "u64"),
    ],
    "Entry": [("key", 1, "s"), ("value", 2, "Parameter")],
    "Contents": [
        ("bool_contents", 1, "*b"),
        ("int_contents", 2, "*i32"),
        ("int64_contents", 3, "*i64"),
        ("uint_contents", 4, "*u32"),
        ("uint64_contents", 5, "*u64"),
        ("fp32_contents", 6, "*f"),
        ("fp64_contents", 7, "*d"),
        ("bytes_contents", 8, "*by"),
    ],
    "Tensor": [
        ("name", 1, "s"),
        ("datatype", 2, "s"),
        ("shape", 3, "*i64"),
        ("parameters", 4, PARAMETERS),
        ("contents", 5, "Contents"),
    ],
    "Wanted": [("name", 1, "s"), ("parameters", 2, PARAMETERS)],
    "Request": [
        ("model_name", 1, "s"),
        ("model_version", 2, "s"),
        ("id", 3, "s"),
        ("parameters", 4, PARAMETERS),
        ("inputs", 5, "*Tensor"),
        ("outputs", 6, "*Wanted"),
        ("raw_input_contents", 7, "*by"),
    ],
    "Response": [
        ("model_name", 1, "s"),
        ("model_version", 2, "s"),
        ("id", 3, "s"),
        ("parameters", 4, PARAMETERS),
        ("outputs", 5, "*Tensor"),
        ("raw_output_contents", 6, "*by"),
    ],
}


def oracle() -> dict[str, Any]:
    """Google's classes for the schema; a map is a repeated entry on the wire."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            label = FIELD.LABEL_REPEATED if kind.startswith("*") else FIELD.LABEL_OPTIONAL
            kind = kind.lstrip("*")
            made = message.field.add(name=field, number=number, label=label, type=TYPES.get(kind, FIELD.TYPE_MESSAGE))
            if kind not in TYPES:
                made.type_name = f".t.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}")) for name in SCHEMA}


PB = oracle()
CONTENTS = {
    "BOOL": ("bool_contents", st.booleans()),
    "INT8": ("int_contents", st.integers(-128, 127)),
    "INT32": ("int_contents", st.integers(-(2**31), 2**31 - 1)),
    "INT64": ("int64_contents", st.integers(-(2**63), 2**63 - 1)),
    "UINT16": ("uint_contents", st.integers(0, 2**16 - 1)),
    "UINT64": ("uint64_contents", st.integers(0, 2**64 - 1)),
    "FP32": ("fp32_contents", st.floats(width=32)),
    "FP64": ("fp64_contents", st.floats()),
    "BYTES": ("bytes_contents", st.binary(max_size=20)),
}
cases = st.sampled_from(sorted(CONTENTS)).flatmap(
    lambda datatype: st.tuples(st.just(datatype), st.lists(CONTENTS[datatype][1], min_size=1, max_size=30))
)


def same(left: list[Any], right: list[Any]) -> bool:
    return all(a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b)) for a, b in zip(left, right, strict=True))


@settings(max_examples=COUNTS.fuzzed_objects // 10, deadline=None)
@given(cases)
def test_a_request_written_by_google_is_read(case: tuple[str, list[Any]]) -> None:
    datatype, values = case
    field, _ = CONTENTS[datatype]
    request = PB["Request"](model_name="m", id="7", model_version="2")
    request.parameters.add(key="p", value=PB["Parameter"](int64_param=-3))
    request.inputs.add(name="x", datatype=datatype, shape=[len(values), 1], contents=PB["Contents"](**{field: values}))
    request.outputs.add(name="y")
    read, raw = messages.read_infer_request(request.SerializeToString())
    assert (read.model_name, read.request_id, read.model_version, read.parameters, raw) == ("m", "7", "2", {"p": -3}, False)
    assert [wanted.name for wanted in read.request_outputs or []] == ["y"]
    array = read.inputs[0].as_numpy()
    assert array.shape == (len(values), 1)
    assert same(array.ravel().tolist(), values)


@settings(max_examples=COUNTS.fuzzed_objects // 10, deadline=None)
@given(cases, st.booleans())
def test_a_response_of_ours_is_read_by_google(case: tuple[str, list[Any]], raw: bool) -> None:
    datatype, values = case
    array: Any = np.empty(len(values), object)
    array[:] = values
    tensor = InferOutput("y", [len(values)], datatype, array if datatype == "BYTES" else np.array(values, messages.NUMPY_TYPES[datatype]))
    tensor.parameters = {"a": True, "b": -5, "c": "text", "d": 0.5, "e": False}
    response = PB["Response"].FromString(messages.write_infer_response(InferResponse("7", "m", [tensor]), raw))
    got = response.outputs[0]
    assert (response.id, response.model_name, got.name, got.datatype, list(got.shape)) == ("7", "m", "y", datatype, [len(values)])
    parameters = {entry.key: entry.value for entry in got.parameters}
    assert (parameters["b"].int64_param, parameters["c"].string_param, parameters["d"].double_param) == (-5, "text", 0.5)
    assert len(response.raw_output_contents) == int(raw)
    if not raw:
        assert same(list(getattr(got.contents, CONTENTS[datatype][0])), values)
    back = messages.read_infer_response(response.SerializeToString()).outputs[0].as_numpy()
    assert same(back.tolist(), values)


def test_unpacked_numbers_are_read_too() -> None:
    """proto3 packs, but a reader must take both."""
    tensor = b"\x0a\x01x" + b"\x12\x05INT64" + b"\x18\x02\x18\x01" + b"\x2a\x04\x18\x05\x18\x07"
    read, _ = messages.read_infer_request(b"\x2a" + bytes((len(tensor),)) + tensor)
    assert read.inputs[0].as_numpy().tolist() == [[5], [7]]


def test_a_long_output_goes_raw() -> None:
    response = PB["Response"].FromString(messages.write_infer_response(InferResponse("", "m", [output("y", np.zeros(5000))]), False))
    assert len(response.raw_output_contents[0]) == 40_000


@settings(max_examples=COUNTS.fuzzed_objects // 4, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    for read in (
        messages.read_infer_request,
        messages.read_model,
        messages.read_repository_model,
        messages.read_ready_only,
        messages.read_infer_response,
    ):
        try:
            read(raw)
        except InvalidInput:
            continue


@settings(max_examples=COUNTS.fuzzed_objects // 4, deadline=None)
@given(st.data())
def test_no_damaged_request_breaks_the_reader(data: st.DataObject) -> None:
    request = PB["Request"](model_name="m", id="7")
    request.inputs.add(name="x", datatype="FP32", shape=[2, 2], contents=PB["Contents"](fp32_contents=[1, 2, 3, 4]))
    request.inputs.add(name="y", datatype="INT64", shape=[1], contents=PB["Contents"](int64_contents=[-1]))
    raw = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        messages.read_infer_request(bytes(raw[:data.draw(st.integers(0, len(raw)))]))
    except InvalidInput:
        return
