"""ONNX models through onnxruntime: named inputs and outputs, types as the file declares them.

A model with one input of free first dimension is batched like any other; one with several is run per request.
"""
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver.batching import Batcher
from serveplane.dataplane.modelserver.errors import CannotLoad, InvalidInput
from serveplane.dataplane.modelserver.limits import BatchLimits
from serveplane.dataplane.modelserver.model import Headers, Model, Payload
from serveplane.dataplane.modelserver.rows import rows_called, rows_of
from serveplane.dataplane.modelserver.tensors import Array, InferRequest, InferResponse, output

_DATATYPES = {
    "tensor(float)": "FP32", "tensor(double)": "FP64", "tensor(float16)": "FP16", "tensor(bool)": "BOOL", "tensor(string)": "BYTES",
    **{f"tensor({sign}int{bits})": f"{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_NUMPY = {"FP32": np.float32, "FP64": np.float64, "FP16": np.float16, "BOOL": np.bool_, "BYTES": np.object_,
          **{f"{sign}INT{bits}": np.dtype(f"{sign.lower()}int{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64)}}


class OnnxModel(Model):
    platform = "onnx"

    def __init__(self, name: str, path: Path, threads: int = 1, limits: BatchLimits | None = None) -> None:
        super().__init__(name)
        self._path, self._threads = path, threads
        self.batcher: Batcher = Batcher(self._run_rows, limits, self.clock)
        self._session: Any = None
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def load(self) -> bool:
        try:
            import onnxruntime
        except ImportError:
            raise CannotLoad("onnxruntime is not installed here; pip install 'serveplane[onnx]'") from None
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads, settings.inter_op_num_threads, settings.log_severity_level = self._threads, 1, 3
        try:
            self._session = onnxruntime.InferenceSession(str(self._path), settings, providers=["CPUExecutionProvider"])
        except Exception as error:   # its exceptions share no base class
            reason = " ".join(str(error).split())[:300]
            raise CannotLoad(f"{self._path.name} cannot be loaded by onnxruntime {onnxruntime.__version__}: {reason}") from error
        self._inputs, self._outputs = self._session.get_inputs(), self._session.get_outputs()
        for tensor in self._inputs:
            if tensor.type not in _DATATYPES:
                raise CannotLoad(f"input {tensor.name!r} of type {tensor.type} cannot be sent over the inference protocols")
        self.ready = True
        return True

    def rows_for(self, payload: Payload) -> Array | None:
        return self._checked(self._inputs[0], self._single_input(payload), "inputs") if self._is_batched else None

    def answer_of(self, payload: Payload, result: Array) -> Any:
        return self._answer(payload, [result])

    async def predict(self, payload: Payload, headers: Headers) -> Any:
        rows = self.rows_for(payload)
        if rows is not None:
            return self.answer_of(payload, await self.batcher(rows, rows_called(payload)))
        return self._answer(payload, self._run(self._feeds(payload)))

    def stop(self) -> None:
        self.batcher.close()

    def get_input_types(self) -> list[dict[str, Any]]:
        return [_described(tensor) for tensor in self._inputs]

    def get_output_types(self) -> list[dict[str, Any]]:
        return [_described(tensor) for tensor in self._outputs]

    @cached_property
    def _is_batched(self) -> bool:
        tensors = [*self._inputs, *self._outputs]
        return len(tensors) == 2 and all(tensor.shape and not isinstance(tensor.shape[0], int) for tensor in tensors)

    def _single_input(self, payload: Payload) -> Array:
        if isinstance(payload, InferRequest) and len(payload.infer_inputs) == 1:
            given, known = payload.infer_inputs[0].name, self._inputs[0].name
            if given != known and not given.startswith("input"):   # `input-0` is what generic clients call it
                raise InvalidInput(f"the model has no input {given!r}; it takes {known}", "inputs[0].name")
        return rows_of(payload)

    def _feeds(self, payload: Payload) -> dict[str, Array]:
        if not isinstance(payload, InferRequest):
            return self._feeds_of_json(payload)
        feeds = {}
        for tensor in self._inputs:
            given = payload.get_input_by_name(tensor.name)
            if given is None:
                raise InvalidInput(f"input {tensor.name!r} is missing; the model takes {self._names()}", "inputs")
            feeds[tensor.name] = self._checked(tensor, given.as_numpy(), given.at)
        return feeds

    def _feeds_of_json(self, payload: Payload) -> dict[str, Array]:
        """V1: a list for a single input, or an object with one list per input."""
        values = payload.get("inputs", payload.get("instances")) if isinstance(payload, dict) else None
        if isinstance(values, dict):
            return {tensor.name: self._checked(tensor, rows_of({"instances": values.get(tensor.name)}), f"inputs.{tensor.name}")
                    for tensor in self._inputs}
        if len(self._inputs) == 1:
            return {self._inputs[0].name: self._checked(self._inputs[0], rows_of(payload), "instances")}
        raise InvalidInput(f"must be an object with {self._names()}", "inputs")

    def _names(self) -> str:
        return ", ".join(tensor.name for tensor in self._inputs)

    def _checked(self, tensor: Any, array: Array, at: str) -> Array:
        """Of the declared type (numbers may change width, nothing else) and shape."""
        datatype = _DATATYPES[tensor.type]
        if (datatype == "BYTES") != (array.dtype.kind in "OUS"):
            raise InvalidInput(f"input {tensor.name!r} takes {datatype}", at)
        if len(tensor.shape) != array.ndim or not _fits(tensor.shape, array.shape):
            raise InvalidInput(f"input {tensor.name!r} takes shape {_shape(tensor)}, not {list(array.shape)}", at)
        if datatype == "BYTES":
            texts = [value.decode() if isinstance(value, bytes) else value for value in array.ravel()]
            return np.array(texts, dtype=object).reshape(array.shape)
        return array.astype(_NUMPY[datatype], copy=False)

    def _run_rows(self, rows: Array) -> Array:
        return self._run({self._inputs[0].name: rows})[0]

    def _run(self, feeds: dict[str, Array]) -> list[Array]:
        try:
            return [np.asarray(value) for value in self._session.run(None, feeds)]
        except Exception as error:   # shapes that disagree inside the graph; its exceptions share no base class
            raise InvalidInput(" ".join(str(error).split())[:300]) from error

    def _answer(self, payload: Payload, results: list[Array]) -> Any:
        named = {tensor.name: array for tensor, array in zip(self._outputs, results, strict=True)}
        if isinstance(payload, InferRequest):
            return InferResponse(payload.request_id, self.name, [output(name, array) for name, array in named.items()])
        if len(named) == 1:
            return {"predictions": results[0].tolist()}
        return {"predictions": {name: array.tolist() for name, array in named.items()}}


def _fits(declared: Sequence[Any], given: Sequence[int]) -> bool:
    return all(not isinstance(size, int) or size == have for size, have in zip(declared, given, strict=True))


def _shape(tensor: Any) -> list[int]:
    return [size if isinstance(size, int) else -1 for size in tensor.shape]


def _described(tensor: Any) -> dict[str, Any]:
    return {"name": tensor.name, "datatype": _DATATYPES.get(tensor.type, tensor.type), "shape": _shape(tensor)}
