"""Named, typed arrays as the V2 protocol knows them.

The class names and constructor arguments are those of KServe's SDK, so that a user's transformer needs a new import
line and nothing else. Values are checked here once, whichever way they came in: a wrong value is an `InvalidInput` with
its path.
"""
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver.errors import InvalidInput

Array = Any  # np.ndarray: numpy's stubs are skipped by the type checker

NUMPY_TYPES: dict[str, Any] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype("<u1"), "UINT16": np.dtype("<u2"), "UINT32": np.dtype("<u4"), "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("<i1"), "INT16": np.dtype("<i2"), "INT32": np.dtype("<i4"), "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"), "FP32": np.dtype("<f4"), "FP64": np.dtype("<f8"),
    "BYTES": np.dtype(np.object_),
}
_NAMES = {dtype: name for name, dtype in NUMPY_TYPES.items()}
_KINDS = {"b": "b", "i": "iu", "u": "iu", "f": "fiu"}   # what JSON values may become which kind of tensor


def datatype_of(array: Array) -> str:
    """The V2 name of an array's type; text and bytes are both BYTES."""
    if array.dtype.kind in "USO":
        return "BYTES"
    name = _NAMES.get(array.dtype.newbyteorder("<") if array.dtype.byteorder == ">" else array.dtype)
    if name is None:
        raise InvalidInput(f"values of type {array.dtype} have no V2 datatype")
    return name


@dataclass(slots=True)
class Tensor:
    """One input or output. `data` is a list as JSON has it or an array; `as_numpy` gives the checked array."""

    name: str
    shape: list[int]
    datatype: str
    data: Any = None
    parameters: dict[str, Any] | None = None
    binary: bool = field(default=False, kw_only=True)
    at: str = field(default="", kw_only=True)

    def as_numpy(self) -> Array:
        if not isinstance(self.data, np.ndarray):
            self.data = array_from_json(self.data, self.datatype, self.shape, self.at or self.name)
        return self.data

    def as_string(self) -> list[str]:
        if self.datatype != "BYTES":
            raise InvalidInput(f"datatype {self.datatype} is not text", self.at or self.name)
        return [value.decode() if isinstance(value, bytes) else str(value) for value in self.as_numpy().ravel()]

    def set_data_from_numpy(self, array: Array, binary_data: bool = True) -> None:
        self.data, self.binary = array, binary_data
        self.shape, self.datatype = list(array.shape), datatype_of(array)

    def raw(self) -> bytes:
        """The values as the binary extension and gRPC send them."""
        array = self.as_numpy()
        if self.datatype == "BYTES":
            return bytes_from_texts(array.ravel())
        return bytes(np.ascontiguousarray(array, dtype=NUMPY_TYPES[self.datatype]).tobytes())

    def values(self) -> list[Any]:
        """The values as a flat list that JSON can hold."""
        array = self.as_numpy()
        if self.datatype == "BYTES":
            return [value.decode(errors="replace") if isinstance(value, bytes) else str(value) for value in array.ravel()]
        flat: list[Any] = array.ravel().tolist()
        return flat


class InferInput(Tensor):
    __slots__ = ()


class InferOutput(Tensor):
    __slots__ = ()


@dataclass(slots=True)
class RequestedOutput:
    name: str
    parameters: dict[str, Any] | None = None


@dataclass(slots=True)
class InferRequest:
    """A V2 request, however it came in."""

    model_name: str
    infer_inputs: list[InferInput]
    request_id: str = ""
    parameters: dict[str, Any] | None = None
    request_outputs: list[RequestedOutput] | None = None
    model_version: str = ""
    from_grpc: bool = False

    @property
    def id(self) -> str:
        return self.request_id

    @property
    def inputs(self) -> list[InferInput]:
        return self.infer_inputs

    @property
    def use_binary_outputs(self) -> bool:
        return bool((self.parameters or {}).get("binary_data_output"))

    def get_input_by_name(self, name: str) -> InferInput | None:
        return next((tensor for tensor in self.infer_inputs if tensor.name == name), None)


@dataclass(slots=True)
class InferResponse:
    response_id: str
    model_name: str
    infer_outputs: list[InferOutput]
    model_version: str | None = None
    parameters: dict[str, Any] | None = None

    @property
    def id(self) -> str:
        return self.response_id

    @property
    def outputs(self) -> list[InferOutput]:
        return self.infer_outputs

    def get_output_by_name(self, name: str) -> InferOutput | None:
        return next((tensor for tensor in self.infer_outputs if tensor.name == name), None)


def output(name: str, array: Array) -> InferOutput:
    return InferOutput(name, list(array.shape), datatype_of(array), array)


def array_from_json(data: Any, datatype: str, shape: Sequence[int], at: str) -> Array:
    """Nested or flat JSON values as an array of the stated type and shape; nothing is rounded or guessed on the way."""
    dtype = numpy_type(datatype, at)
    if not isinstance(data, list):
        raise InvalidInput("must be a list", f"{at}.data")
    if datatype == "BYTES":
        array = _texts(data, f"{at}.data")
    else:
        array = _numbers(data, dtype, datatype, f"{at}.data")
    return shaped(array, shape, at)


def array_from_raw(raw: bytes | memoryview, datatype: str, shape: Sequence[int], at: str) -> Array:
    """Little-endian, row-major bytes as the binary extension and gRPC carry them."""
    dtype = numpy_type(datatype, at)
    if datatype == "BYTES":
        texts: Array = np.empty(len(items := list(texts_from_bytes(raw, at))), dtype=np.object_)
        texts[:] = items
        return shaped(texts, shape, at)
    if len(raw) % dtype.itemsize:
        raise InvalidInput(f"{len(raw)} bytes are no whole number of {datatype} values", at)
    return shaped(np.frombuffer(raw, dtype=dtype), shape, at)


def numpy_type(datatype: str, at: str) -> Any:
    if datatype not in NUMPY_TYPES:
        raise InvalidInput(f"unknown datatype {datatype!r}; one of {', '.join(NUMPY_TYPES)}", f"{at}.datatype")
    return NUMPY_TYPES[datatype]


def shaped(array: Array, shape: Sequence[int], at: str) -> Array:
    count = 1
    for index, size in enumerate(shape):
        if size < 0:
            raise InvalidInput(f"{size} is not a size", f"{at}.shape[{index}]")
        count *= size
    if count != array.size:
        raise InvalidInput(f"shape {list(shape)} needs {count} values, data has {array.size}", at)
    try:
        return array.reshape(shape)
    except (ValueError, OverflowError) as error:   # no values, but more dimensions or a larger one than an array can have
        raise InvalidInput(str(error), f"{at}.shape") from None


def bytes_from_texts(texts: Sequence[Any]) -> bytes:
    encoded = (value if isinstance(value, bytes) else str(value).encode() for value in texts)
    return b"".join(struct.pack("<I", len(value)) + value for value in encoded)


def texts_from_bytes(raw: bytes | memoryview, at: str) -> Iterator[bytes]:
    offset = 0
    while offset < len(raw):
        if offset + 4 > len(raw):
            raise InvalidInput("cut short within a length", at)
        (length,) = struct.unpack_from("<I", raw, offset)
        offset += 4
        if offset + length > len(raw):
            raise InvalidInput("cut short within a value", at)
        yield bytes(raw[offset:offset + length])
        offset += length


def numbers_from_json(data: list[Any], at: str) -> Array:
    """A rectangular, possibly nested list of numbers; otherwise the path of the first value that is not one."""
    try:
        array = np.array(data)
    except (ValueError, OverflowError):
        raise first_mistake(data, at) from None
    if array.dtype.kind not in "biuf":
        if array.size == 0:
            return array.astype(np.float64)
        raise first_mistake(data, at)
    return array


def first_mistake(data: Any, at: str) -> InvalidInput:
    """Why a list is no array of numbers: the first leaf that is no number, else the first row of another length."""
    return _leaf_mistake(data, at) or _ragged_mistake(data, at) or InvalidInput("no rectangular list of numbers", at)


def _leaf_mistake(data: Any, at: str) -> InvalidInput | None:
    stack = [(data, at)]
    while stack:
        value, path = stack.pop()
        if isinstance(value, list):
            stack.extend((item, f"{path}[{index}]") for index, item in reversed(list(enumerate(value))))
        elif isinstance(value, bool) or not isinstance(value, int | float):
            return InvalidInput(f"{_shown(value)} is not a number", path)
        elif isinstance(value, int) and not -(2**63) <= value < 2**64:
            return InvalidInput(f"{value} does not fit 64 bits", path)
    return None


def _ragged_mistake(data: Any, at: str) -> InvalidInput | None:
    stack = [(data, at)]
    while stack:
        rows, path = stack.pop()
        shapes = [len(row) if isinstance(row, list) else -1 for row in rows]
        odd = next((index for index, shape in enumerate(shapes) if shape != shapes[0]), None)
        if odd is not None:
            return InvalidInput(f"{_counted(shapes[odd])} where {path}[0] has {_counted(shapes[0])}", f"{path}[{odd}]")
        stack.extend((row, f"{path}[{index}]") for index, row in reversed(list(enumerate(rows))) if isinstance(row, list))
    return None


def _counted(length: int) -> str:
    return "a single value" if length < 0 else f"{length} values"


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return {"str": "text", "dict": "an object"}.get(type(value).__name__, type(value).__name__)


def _numbers(data: list[Any], dtype: Any, datatype: str, at: str) -> Array:
    if dtype.kind == "b":
        return _booleans(data, at)
    array = numbers_from_json(data, at)
    if array.dtype.kind not in _KINDS[dtype.kind] and array.size:
        raise InvalidInput(f"holds values that are not {datatype}", at)
    if dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise InvalidInput(f"holds values outside {datatype}", at)
    with np.errstate(over="ignore"):   # beyond the range of a float is infinity, which the model judges
        return array.astype(dtype)


def _booleans(data: list[Any], at: str) -> Array:
    try:
        array = np.array(data)
    except ValueError:
        raise _ragged_mistake(data, at) or InvalidInput("no rectangular list", at) from None
    if array.size and array.dtype.kind != "b":
        raise InvalidInput("holds values that are not true or false", at)
    return array.astype(np.bool_)


def _texts(data: list[Any], at: str) -> Array:
    flat: list[Any] = []
    stack: list[Any] = [data]
    while stack:
        value = stack.pop()
        if isinstance(value, list):
            stack.extend(reversed(value))
        elif isinstance(value, str):
            flat.append(value.encode())
        else:
            raise InvalidInput("BYTES holds values that are not text", at)
    array: Array = np.empty(len(flat), dtype=np.object_)
    array[:] = flat
    return array
