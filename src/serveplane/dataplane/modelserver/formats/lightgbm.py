"""LightGBM models in its text format: `.txt`, or `.bst` as KServe names them."""
from pathlib import Path
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver.errors import CannotLoad
from serveplane.dataplane.modelserver.formats.array_model import ArrayModel
from serveplane.dataplane.modelserver.limits import BatchLimits
from serveplane.dataplane.modelserver.tensors import Array


class LightgbmModel(ArrayModel):
    accepts_missing = True
    platform = "lightgbm"

    def __init__(self, name: str, path: Path, threads: int = 1, limits: BatchLimits | None = None) -> None:
        super().__init__(name, limits)
        self._path, self._threads = path, threads
        self._booster: Any = None

    def load(self) -> bool:
        try:
            import lightgbm
        except (ImportError, OSError) as error:   # OSError: its OpenMP library is absent
            raise CannotLoad(f"LightGBM cannot be used here ({error}); pip install 'serveplane[lightgbm]' and libgomp") from None
        try:
            self._booster = lightgbm.Booster(params={"num_threads": self._threads, "verbosity": -1}, model_file=str(self._path))
        except lightgbm.basic.LightGBMError as error:
            raise CannotLoad(f"{self._path.name} cannot be loaded by LightGBM {lightgbm.__version__}: {str(error)[:300]}") from error
        self.width = int(self._booster.num_feature())
        names = self._booster.feature_name()
        self.features = None if names == [f"Column_{index}" for index in range(len(names))] else list(names)
        self.try_out()
        self.ready = True
        return True

    def results(self, rows: Array) -> Array:
        return np.asarray(self._booster.predict(rows.astype(np.float64, copy=False), num_threads=self._threads))
