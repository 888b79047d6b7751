"""XGBoost models: `.bst`, `.json`, `.ubj`. Their own prediction in place is used, which needs no DMatrix."""
from pathlib import Path
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver.errors import CannotLoad
from serveplane.dataplane.modelserver.formats.array_model import ArrayModel
from serveplane.dataplane.modelserver.limits import BatchLimits
from serveplane.dataplane.modelserver.tensors import Array


class XgboostModel(ArrayModel):
    """The raw output of the booster, as KServe's server gives it: probabilities or values, not class labels."""

    accepts_missing = True
    datatype = "FP32"
    platform = "xgboost"

    def __init__(self, name: str, path: Path, threads: int = 1, limits: BatchLimits | None = None) -> None:
        super().__init__(name, limits)
        self._path, self._threads = path, threads
        self._booster: Any = None

    def load(self) -> bool:
        try:
            import xgboost
        except ImportError:
            raise CannotLoad("XGBoost is not installed here; pip install 'serveplane[xgboost]'") from None
        try:
            self._booster = xgboost.Booster(params={"nthread": self._threads}, model_file=str(self._path))
        except xgboost.core.XGBoostError as error:
            first = str(error).strip().splitlines()[-1] if str(error).strip() else "unreadable"
            raise CannotLoad(f"{self._path.name} cannot be loaded by XGBoost {xgboost.__version__}: {first[:300]}") from error
        self.width = int(self._booster.num_features())
        self.features = list(self._booster.feature_names) if self._booster.feature_names else None
        self.try_out()
        self.ready = True
        return True

    def results(self, rows: Array) -> Array:
        return np.asarray(self._booster.inplace_predict(rows.astype(np.float32, copy=False), validate_features=False))
