"""The Open Inference Protocol's gRPC messages, by the field numbers of its published definition."""
from collections import defaultdict
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver.errors import InvalidInput
from serveplane.dataplane.modelserver.rpc.protobuf import (
    LENGTH,
    Writer,
    fields,
    packed_fixed,
    packed_varints,
    signed,
    text,
)
from serveplane.dataplane.modelserver.tensors import (
    NUMPY_TYPES,
    Array,
    InferInput,
    InferOutput,
    InferRequest,
    InferResponse,
    RequestedOutput,
    Tensor,
    array_from_raw,
    shaped,
)

SERVICE = "inference.GRPCInferenceService"
CONTENTS_VALUES = 4096   # longer outputs go raw whatever the request did: both forms are in the protocol

_BOOL, _INT, _INT64, _UINT, _UINT64, _FP32, _FP64, _BYTES = range(1, 9)   # fields of InferTensorContents
_CONTENTS = {
    "BOOL": _BOOL, "INT8": _INT, "INT16": _INT, "INT32": _INT, "INT64": _INT64, "UINT8": _UINT, "UINT16": _UINT, "UINT32": _UINT,
    "UINT64": _UINT64, "FP32": _FP32, "FP64": _FP64, "BYTES": _BYTES,
}


def read_model(raw: bytes) -> tuple[str, str]:
    """Name and version: ModelReadyRequest and ModelMetadataRequest."""
    found = _texts(raw)
    return found.get(1, ""), found.get(2, "")


def read_repository_model(raw: bytes) -> str:
    """KServe's request has the name as field 1; Triton's has a repository there and the name as field 2."""
    found = _texts(raw)
    return found.get(2) or found.get(1, "")


def read_ready_only(raw: bytes) -> bool:
    """RepositoryIndexRequest."""
    return any(number == 2 and value for number, _, value in fields(raw))


def read_infer_request(raw: bytes) -> tuple[InferRequest, bool]:
    """The request, and whether its tensors came raw."""
    inputs: list[InferInput] = []
    request, raws = InferRequest("", inputs, from_grpc=True), []
    for number, wire, value in fields(raw):
        match number:
            case 1: request.model_name = text(value)
            case 2: request.model_version = text(value)
            case 3: request.request_id = text(value)
            case 4: request.parameters = {**(request.parameters or {}), **_parameter(_message(wire, value))}
            case 5: inputs.append(_read_tensor(_message(wire, value), InferInput, f"inputs[{len(inputs)}]"))
            case 6: request.request_outputs = [*(request.request_outputs or []), _read_requested(_message(wire, value))]
            case 7: raws.append(_message(wire, value))
    _attach(request.infer_inputs, raws, "raw_input_contents")
    return request, bool(raws)


def read_infer_response(raw: bytes) -> InferResponse:
    outputs: list[InferOutput] = []
    response, raws = InferResponse("", "", outputs), []
    for number, wire, value in fields(raw):
        match number:
            case 1: response.model_name = text(value)
            case 2: response.model_version = text(value)
            case 3: response.response_id = text(value)
            case 4: response.parameters = {**(response.parameters or {}), **_parameter(_message(wire, value))}
            case 5: outputs.append(_read_tensor(_message(wire, value), InferOutput, f"outputs[{len(outputs)}]"))
            case 6: raws.append(_message(wire, value))
    _attach(response.infer_outputs, raws, "raw_output_contents")
    return response


def write_infer_request(request: InferRequest) -> bytes:
    """Tensors go raw."""
    writer = Writer().text(1, request.model_name).text(2, request.model_version).text(3, request.request_id)
    writer.map_of(4, _written_parameters(request.parameters))
    for tensor in request.infer_inputs:
        writer.raw(5, _written_tensor(tensor, contents=False))
    for wanted in request.request_outputs or []:
        writer.raw(6, Writer().text(1, wanted.name).map_of(2, _written_parameters(wanted.parameters)).done())
    for tensor in request.infer_inputs:
        writer.raw(7, tensor.raw())
    return writer.done()


def write_infer_response(response: InferResponse, raw: bool) -> bytes:
    outputs = response.infer_outputs
    raw = raw or any(tensor.datatype not in _CONTENTS or tensor.as_numpy().size > CONTENTS_VALUES for tensor in outputs)
    writer = Writer().text(1, response.model_name).text(2, response.model_version or "").text(3, response.response_id)
    writer.map_of(4, _written_parameters(response.parameters))
    for tensor in outputs:
        writer.raw(5, _written_tensor(tensor, contents=not raw))
    for tensor in outputs if raw else ():
        writer.raw(6, tensor.raw())
    return writer.done()


def write_metadata(metadata: dict[str, Any]) -> bytes:
    writer = Writer().text(1, metadata["name"])
    for version in metadata.get("versions", ()):
        writer.raw(2, version.encode())
    writer.text(3, metadata["platform"])
    for number, key in ((4, "inputs"), (5, "outputs")):
        for tensor in metadata[key]:
            writer.raw(number, Writer().text(1, tensor["name"]).text(2, tensor["datatype"]).varints(3, tensor["shape"]).done())
    return writer.done()


def write_server(name: str, version: str, extensions: list[str]) -> bytes:
    writer = Writer().text(1, name).text(2, version)
    for extension in extensions:
        writer.raw(3, extension.encode())
    return writer.done()


def write_index(models: list[dict[str, Any]]) -> bytes:
    writer = Writer()
    for model in models:
        writer.raw(1, Writer().text(1, model["name"]).text(3, model["state"]).text(4, model["reason"]).done())
    return writer.done()


def write_flag(value: bool) -> bytes:
    return Writer().varint(1, int(value)).done()


def write_loaded(model: str) -> bytes:
    return Writer().text(1, model).varint(2, 1).done()


def _texts(raw: bytes) -> dict[int, str]:
    return {number: text(value) for number, wire, value in fields(raw) if wire == LENGTH and number in (1, 2)}


def _message(wire: int, value: Any) -> memoryview:
    if wire != LENGTH:
        raise InvalidInput("the message holds a field of the wrong type")
    view: memoryview = value
    return view


def _read_tensor(raw: memoryview, kind: Any, at: str) -> Any:
    tensor, shape, contents = kind("", [], "", None, None, at=at), [], None
    for number, wire, value in fields(raw):
        match number:
            case 1: tensor.name = text(value)
            case 2: tensor.datatype = text(value)
            case 3: shape.append((wire, value))
            case 4: tensor.parameters = {**(tensor.parameters or {}), **_parameter(_message(wire, value))}
            case 5: contents = _message(wire, value)
    tensor.shape = packed_varints(shape).astype(np.int64).tolist() if shape else []
    if contents is not None:
        tensor.data = shaped(_read_contents(contents, tensor.datatype, at), tensor.shape, at)
    return tensor


def _read_contents(raw: memoryview, datatype: str, at: str) -> Array:
    """The numbers of the one field that goes with the datatype."""
    field = _CONTENTS.get(datatype)
    if field is None:
        raise InvalidInput(f"datatype {datatype!r} cannot be given as contents", f"{at}.datatype")
    found: dict[int, list[tuple[int, Any]]] = defaultdict(list)
    for number, wire, value in fields(raw):
        found[number].append((wire, value))
    if unexpected := [number for number in found if number != field]:
        raise InvalidInput(f"contents holds field {unexpected[0]}, which does not go with {datatype}", f"{at}.contents")
    values = found[field]
    if field == _BYTES:
        texts: Array = np.empty(len(values), dtype=np.object_)
        texts[:] = [bytes(_message(wire, value)) for wire, value in values]
        return texts
    if field in (_FP32, _FP64):
        return packed_fixed(values, "<f4" if field == _FP32 else "<f8")
    return _narrowed(packed_varints(values), datatype, f"{at}.contents")


def _narrowed(numbers: Array, datatype: str, at: str) -> Array:
    dtype = NUMPY_TYPES[datatype]
    if dtype.kind == "b":
        return numbers != 0
    wide = numbers.astype(np.int64) if dtype.kind == "i" else numbers
    narrow = wide.astype(dtype)
    if (narrow != wide).any():
        raise InvalidInput(f"holds values outside {datatype}", at)
    return narrow


def _attach(tensors: list[Any], raws: list[memoryview], where: str) -> None:
    if not raws:
        if empty := next((tensor for tensor in tensors if tensor.data is None and 0 not in tensor.shape), None):
            raise InvalidInput("has no contents", empty.at)
        for tensor in tensors:
            tensor.data = tensor.data if tensor.data is not None else array_from_raw(b"", tensor.datatype, tensor.shape, tensor.at)
        return
    if len(raws) != len(tensors):
        raise InvalidInput(f"{len(raws)} entries for {len(tensors)} tensors", where)
    for tensor, raw in zip(tensors, raws, strict=True):
        if tensor.data is not None:
            raise InvalidInput(f"contents cannot be given together with {where}", tensor.at)
        tensor.data = array_from_raw(raw, tensor.datatype, tensor.shape, tensor.at)


def _read_requested(raw: memoryview) -> RequestedOutput:
    wanted = RequestedOutput("")
    for number, wire, value in fields(raw):
        if number == 1:
            wanted.name = text(value)
        elif number == 2:
            wanted.parameters = {**(wanted.parameters or {}), **_parameter(_message(wire, value))}
    return wanted


def _parameter(raw: memoryview) -> dict[str, Any]:
    """One entry of a parameters map."""
    name, content = "", memoryview(b"")
    for number, wire, value in fields(raw):
        if number == 1:
            name = text(value)
        elif number == 2:
            content = _message(wire, value)
    result: Any = None
    for number, _, value in fields(content):
        match number:
            case 1: result = bool(value)
            case 2: result = signed(value)
            case 3: result = text(value)
            case 4: result = float(np.frombuffer(value, "<f8")[0]) if isinstance(value, memoryview) and len(value) == 8 else None
            case 5: result = value
    return {name: result}


def _written_parameters(parameters: dict[str, Any] | None) -> dict[str, bytes]:
    return {name: _written_parameter(value) for name, value in (parameters or {}).items() if value is not None}


def _written_parameter(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"\x08\x01" if value else b"\x08\x00"   # a member of a oneof is written even if false
    if isinstance(value, int):
        return Writer().varint(2, value).done() or b"\x10\x00"
    if isinstance(value, float):
        return Writer().double(4, value).done()
    return Writer().raw(3, str(value).encode()).done()


def _written_tensor(tensor: Tensor, contents: bool) -> bytes:
    writer = Writer().text(1, tensor.name).text(2, tensor.datatype).varints(3, tensor.shape)
    kept = {name: value for name, value in (tensor.parameters or {}).items() if not name.startswith("binary_data")}
    writer.map_of(4, _written_parameters(kept))
    return writer.raw(5, _written_contents(tensor)).done() if contents else writer.done()


def _written_contents(tensor: Tensor) -> bytes:
    field, array, writer = _CONTENTS[tensor.datatype], tensor.as_numpy().ravel(), Writer()
    if field == _BYTES:
        for value in array:
            writer.raw(field, value if isinstance(value, bytes) else str(value).encode())
    elif field in (_FP32, _FP64):
        writer.raw(field, np.ascontiguousarray(array, "<f4" if field == _FP32 else "<f8").tobytes())
    else:
        writer.varints(field, array.tolist())
    return writer.done()
