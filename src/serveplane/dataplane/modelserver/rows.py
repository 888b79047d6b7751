"""Requests as rows of a matrix, which is what most models take, and results as answers.

V1 sends `instances` (or `inputs`): lists of numbers, texts, or objects by column name. V2 sends one tensor whose first
axis counts the rows, or one tensor per column.
"""
from collections.abc import Sequence
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver.errors import InvalidInput
from serveplane.dataplane.modelserver.tensors import (
    Array,
    InferOutput,
    InferRequest,
    InferResponse,
    numbers_from_json,
    output,
)

OUTPUT = "output-0"   # what KServe's servers call the only output


def rows_of(payload: Any, features: Sequence[str] | None = None, missing: bool = False) -> Array:
    """The rows of a V1 or V2 payload; `missing` lets null through as NaN."""
    if isinstance(payload, InferRequest):
        return _rows_of_tensors(payload, features)
    return _rows_of_json(payload, features, missing)


def rows_called(payload: Any) -> str:
    """What a request calls its rows, for the path of a mistake in them."""
    if isinstance(payload, InferRequest):
        return "inputs[0].data" if len(payload.infer_inputs) == 1 else "inputs"
    return "inputs" if "inputs" in payload else "instances"


def answer(payload: Any, model: str, result: Array) -> Any:
    """The result in the protocol of the request."""
    if not isinstance(payload, InferRequest):
        return {"predictions": result.tolist()}
    return InferResponse(payload.request_id, model, [output(OUTPUT, result)])


def answers(payload: Any, model: str, results: dict[str, Array]) -> Any:
    """Several named results: V1 gets one object per row."""
    if isinstance(payload, InferRequest):
        outputs: list[InferOutput] = [output(name, array) for name, array in results.items()]
        return InferResponse(payload.request_id, model, outputs)
    lists = {name: array.tolist() for name, array in results.items()}
    return {"predictions": [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]}


def check_width(rows: Array, width: int | None, at: str = "instances") -> None:
    """A row of the wrong length is the commonest mistake of all, so it gets its own sentence."""
    if width is None:
        return
    if rows.ndim != 2:
        raise InvalidInput(f"rows of {width} values are expected, not an array of shape {list(rows.shape)}", at)
    if rows.shape[1] != width:
        raise InvalidInput(f"{rows.shape[1]} values where the model takes {width}", f"{at}[0]")


def _rows_of_json(payload: Any, features: Sequence[str] | None, missing: bool) -> Array:
    if not isinstance(payload, dict):
        raise InvalidInput("the body must be a JSON object")
    key = "inputs" if "inputs" in payload else "instances"
    instances = payload.get(key)
    if not isinstance(instances, list):
        raise InvalidInput("must be a list" if key in payload else "is missing", key)
    if not instances:
        raise InvalidInput("is empty", key)
    first = instances[0]
    if isinstance(first, str):
        return _texts(instances, key)
    if isinstance(first, dict):
        return numbers_from_json(_without_null(by_column(instances, features, key), missing), key)
    return numbers_from_json(_without_null(instances, missing), key)


def _without_null(instances: list[Any], missing: bool) -> list[Any]:
    if not missing:
        return instances
    return [[float("nan") if value is None else value for value in row] if isinstance(row, list) else row for row in instances]


def _texts(instances: list[Any], at: str) -> Array:
    for index, value in enumerate(instances):
        if not isinstance(value, str):
            raise InvalidInput(f"must be text like {at}[0]", f"{at}[{index}]")
    return np.array(instances, dtype=np.object_)


def by_column(instances: list[Any], features: Sequence[str] | None, at: str) -> list[list[Any]]:
    """Objects as rows, in the order in which the model was fitted. `{"a": [1, 2]}` is two rows."""
    names = list(features) if features is not None else list(instances[0])
    rows: list[list[Any]] = []
    for index, instance in enumerate(instances):
        path = f"{at}[{index}]"
        if not isinstance(instance, dict):
            raise InvalidInput(f"must be an object like {at}[0]", path)
        if unknown := [name for name in instance if name not in names]:
            raise InvalidInput(f"the model has no column {unknown[0]!r}; it takes {', '.join(names)}", path)
        if absent := [name for name in names if name not in instance]:
            raise InvalidInput(f"column {absent[0]!r} is missing", path)
        values = [instance[name] for name in names]
        if any(isinstance(value, list) for value in values):
            rows.extend(_unzipped(values, names, path))
        else:
            rows.append(values)
    return rows


def _unzipped(values: list[Any], names: list[str], at: str) -> list[list[Any]]:
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, list) or len(value) != len(values[0] if isinstance(values[0], list) else ()):
            raise InvalidInput(f"column {name!r} must be a list as long as the others", at)
    return [list(row) for row in zip(*values, strict=True)]


def _rows_of_tensors(request: InferRequest, features: Sequence[str] | None) -> Array:
    inputs = request.infer_inputs
    if not inputs:
        raise InvalidInput("is empty", "inputs")
    if len(inputs) == 1:
        array = inputs[0].as_numpy()
        if array.ndim == 0 or not len(array):
            raise InvalidInput("holds no rows", "inputs[0].shape")
        return array
    return np.stack(_columns(request, features), axis=1)


def _columns(request: InferRequest, features: Sequence[str] | None) -> list[Array]:
    by_name = {tensor.name: tensor for tensor in request.infer_inputs}
    names = list(features) if features is not None and set(features) == set(by_name) else list(by_name)
    columns = [by_name[name].as_numpy() for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.ndim > 2 or (column.ndim == 2 and column.shape[1] != 1) or column.size != columns[0].size or not column.size:
            raise InvalidInput(f"input {name!r} of shape {list(column.shape)} is not a column like the others", "inputs")
        if column.dtype.kind not in "biuf":
            raise InvalidInput(f"input {name!r} is not a column of numbers", "inputs")
    return [column.reshape(-1) for column in columns]
