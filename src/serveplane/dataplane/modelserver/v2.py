"""The V2 (Open Inference) protocol over REST, with the binary tensor extension.

A binary request is the JSON header, whose length `Inference-Header-Content-Length` states, followed by the raw bytes of
every input that has a `binary_data_size`, in order.
"""
from typing import Any

import msgspec

from serveplane.dataplane.modelserver.errors import InvalidInput, ServingError
from serveplane.dataplane.modelserver.tensors import (
    InferInput,
    InferOutput,
    InferRequest,
    InferResponse,
    RequestedOutput,
    array_from_raw,
)
from serveplane.dataplane.modelserver.v1 import JSON_HEADERS, json_bytes
from serveplane.http.messages import HeaderItems

HEADER_LENGTH = "Inference-Header-Content-Length"


class _Input(msgspec.Struct):
    name: str
    shape: list[int]
    datatype: str
    data: Any = None
    parameters: dict[str, Any] | None = None


class _Output(msgspec.Struct):
    name: str
    parameters: dict[str, Any] | None = None


class _Request(msgspec.Struct):
    inputs: list[_Input]
    id: str | None = None
    parameters: dict[str, Any] | None = None
    outputs: list[_Output] | None = None


class _Values(msgspec.Struct):
    """An output whose values are in the JSON."""

    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Any] | None
    data: list[Any]


class _Response(msgspec.Struct):
    model_name: str
    model_version: str | None
    id: str
    parameters: dict[str, Any] | None
    outputs: list[Any]


_decode = msgspec.json.Decoder(_Request).decode


def decode(model: str, headers: Any, body: bytes, version: str = "") -> InferRequest:
    length = headers.get(HEADER_LENGTH)
    header, raw = (body, memoryview(b"")) if length is None else _split(body, length)
    wire = _wire_request(header)
    inputs = [InferInput(each.name, each.shape, each.datatype, each.data, each.parameters, at=f"inputs[{index}]")
              for index, each in enumerate(wire.inputs)]
    _attach(inputs, raw)
    outputs = None if wire.outputs is None else [RequestedOutput(each.name, each.parameters) for each in wire.outputs]
    return InferRequest(model, inputs, wire.id or "", wire.parameters, outputs, version)


def encode(response: Any, request: InferRequest) -> tuple[HeaderItems, bytes]:
    """Headers and body; the requested outputs only, each as JSON or raw as the request asked."""
    if not isinstance(response, InferResponse):
        return JSON_HEADERS, json_bytes(response)
    wanted = chosen(response, request)
    tail: list[bytes] = []
    outputs = [_encoded(tensor, binary, tail) for tensor, binary in wanted]
    head = json_bytes(_Response(response.model_name, response.model_version, response.response_id, response.parameters, outputs))
    if not tail:
        return JSON_HEADERS, head
    return [("Content-Type", "application/octet-stream"), (HEADER_LENGTH, str(len(head)))], b"".join([head, *tail])


def response_from_json(body: bytes, headers: Any) -> InferResponse:
    """What another server answered, for a transformer that asked it."""
    length = headers.get(HEADER_LENGTH)
    header, raw = (body, memoryview(b"")) if length is None else _split(body, length)
    value = msgspec.json.decode(header)
    try:
        tensors = [InferOutput(each["name"], each["shape"], each["datatype"], each.get("data"), each.get("parameters"),
                               at=f"outputs[{index}]") for index, each in enumerate(value["outputs"])]
        _attach(tensors, raw)
        return InferResponse(value.get("id") or "", value.get("model_name") or "", tensors, value.get("model_version"),
                             value.get("parameters"))
    except (KeyError, TypeError) as error:
        raise ServingError(f"the predictor's answer is no V2 response: {error}") from error


def request_to_json(request: InferRequest) -> bytes:
    """A request as JSON alone, for asking another server."""
    inputs = [{"name": each.name, "shape": each.shape, "datatype": each.datatype, "data": _json_data(each),
               **_parameters(each.parameters)} for each in request.infer_inputs]
    value: dict[str, Any] = {"inputs": inputs, **_parameters(request.parameters)}
    if request.request_id:
        value["id"] = request.request_id
    if request.request_outputs is not None:
        value["outputs"] = [{"name": each.name, **_parameters(each.parameters)} for each in request.request_outputs]
    return json_bytes(value)


def _json_data(tensor: InferInput) -> Any:
    return tensor.data if isinstance(tensor.data, list) else tensor.values()


def _parameters(parameters: dict[str, Any] | None) -> dict[str, Any]:
    kept = {name: value for name, value in (parameters or {}).items() if not name.startswith("binary_data")}
    return {"parameters": kept} if kept else {}


def _wire_request(header: bytes | memoryview) -> _Request:
    try:
        return _decode(header)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `")
        raise InvalidInput(reason, path.rstrip("`").removeprefix("$").removeprefix(".")) from None
    except RecursionError:
        raise InvalidInput("the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the body is not JSON: {error}") from None


def _split(body: bytes, length: str) -> tuple[memoryview, memoryview]:
    if not length.isascii() or not length.isdigit() or int(length) > len(body):
        raise InvalidInput(f"{length[:20]!r} is not a length within the body of {len(body)} bytes", HEADER_LENGTH)
    view = memoryview(body)
    return view[:int(length)], view[int(length):]


def _attach(tensors: "list[InferInput] | list[InferOutput]", raw: memoryview) -> None:
    """Give every binary tensor its share of the raw bytes; nothing may be missing, nothing left."""
    offset = 0
    for tensor in tensors:
        size = (tensor.parameters or {}).get("binary_data_size")
        if size is None:
            if tensor.data is None:
                raise InvalidInput("has neither data nor binary_data_size", tensor.at)
            continue
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(raw) - offset:
            raise InvalidInput(f"{size!r} bytes are not there", f"{tensor.at}.parameters.binary_data_size")
        if tensor.data is not None:
            raise InvalidInput("has both data and binary_data_size", tensor.at)
        tensor.data = array_from_raw(raw[offset:offset + size], tensor.datatype, tensor.shape, tensor.at)
        offset += size
    if offset != len(raw):
        raise InvalidInput(f"{len(raw) - offset} bytes after the last tensor belong to none")


def chosen(response: InferResponse, request: InferRequest) -> list[tuple[InferOutput, bool]]:
    default = request.use_binary_outputs
    if not request.request_outputs:
        return [(tensor, default) for tensor in response.infer_outputs]
    by_name = {tensor.name: tensor for tensor in response.infer_outputs}
    found = []
    for index, wanted in enumerate(request.request_outputs):
        tensor = by_name.get(wanted.name)
        if tensor is None:
            raise InvalidInput(f"the model has no output {wanted.name!r}; it gives {', '.join(by_name)}", f"outputs[{index}].name")
        found.append((tensor, bool((wanted.parameters or {}).get("binary_data", default))))
    return found


def _encoded(tensor: InferOutput, binary: bool, tail: list[bytes]) -> Any:
    if not binary:
        return _Values(tensor.name, tensor.shape, tensor.datatype, tensor.parameters, tensor.values())
    raw = tensor.raw()
    tail.append(raw)
    return {"name": tensor.name, "shape": tensor.shape, "datatype": tensor.datatype,
            "parameters": {**(tensor.parameters or {}), "binary_data_size": len(raw)}}
