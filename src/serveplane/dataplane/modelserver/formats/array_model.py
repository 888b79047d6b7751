"""A model that takes rows and gives one result per row: the common shape of scikit-learn, XGBoost and LightGBM."""
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver.batching import Batcher
from serveplane.dataplane.modelserver.errors import ModelNotReady
from serveplane.dataplane.modelserver.limits import BatchLimits
from serveplane.dataplane.modelserver.model import Headers, Model, Payload
from serveplane.dataplane.modelserver.rows import OUTPUT, answer, check_width, rows_called, rows_of
from serveplane.dataplane.modelserver.tensors import Array, InferRequest, datatype_of


class ArrayModel(Model):
    """Subclasses load something and say how `rows` become results."""

    width: int | None = None
    features: list[str] | None = None
    accepts_missing = False
    datatype = "FP64"
    output_datatype = "FP64"
    output_shape: tuple[int, ...] = (-1,)

    def __init__(self, name: str, limits: BatchLimits | None = None) -> None:
        super().__init__(name)
        self.batcher: Batcher = Batcher(self.results, limits, self.clock)

    def results(self, rows: Array) -> Array:
        """One result per row. May run in a thread."""
        raise NotImplementedError

    def rows_for(self, payload: Payload) -> Array:
        rows = rows_of(payload, self.features, self.accepts_missing)
        check_width(rows, self.width, "inputs" if isinstance(payload, InferRequest) else "instances")
        return rows

    def answer_of(self, payload: Payload, result: Array) -> Any:
        return answer(payload, self.name, result)

    async def predict(self, payload: Payload, headers: Headers) -> Any:
        rows = self.rows_for(payload)
        if not self.ready:
            raise ModelNotReady(self.name)
        return self.answer_of(payload, await self.batcher(rows, rows_called(payload)))

    def try_out(self) -> None:
        """Predict one row of zeros: the metadata learns what comes out, and the first request finds everything warm."""
        if self.width is None:
            return
        try:
            result = self.results(np.zeros((1, self.width)))
        except Exception:   # a model that does not like zeros will be judged by real requests
            return
        self.output_datatype, self.output_shape = datatype_of(result), (-1, *result.shape[1:])

    def stop(self) -> None:
        self.batcher.close()

    def get_input_types(self) -> list[dict[str, Any]]:
        return [{"name": "input-0", "datatype": self.datatype, "shape": [-1, -1 if self.width is None else self.width]}]

    def get_output_types(self) -> list[dict[str, Any]]:
        return [{"name": OUTPUT, "datatype": self.output_datatype, "shape": list(self.output_shape)}]
