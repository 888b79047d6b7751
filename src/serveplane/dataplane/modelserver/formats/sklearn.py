"""scikit-learn models from joblib, pickle or skops files.

Three ways to read one, safest first: our own arithmetic from an inert reading (no code of the file runs, scikit-learn
is not even imported); skops with its list of trusted types; and real unpickling, which runs code and is therefore a
choice (`--pickle`).
"""
import asyncio
import importlib
import os
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver.errors import CannotLoad, InvalidInput
from serveplane.dataplane.modelserver.formats import inert
from serveplane.dataplane.modelserver.formats.array_model import ArrayModel
from serveplane.dataplane.modelserver.formats.known import known, saved_by
from serveplane.dataplane.modelserver.formats.light_scipy import defer_statistics
from serveplane.dataplane.modelserver.formats.settled import settle
from serveplane.dataplane.modelserver.limits import BatchLimits
from serveplane.dataplane.modelserver.model import Headers, Payload
from serveplane.dataplane.modelserver.rows import by_column
from serveplane.dataplane.modelserver.tensors import Array


class PickleRule(StrEnum):
    NEVER = "never"   # no pickle at all
    KNOWN = "known"   # only what can be computed without running the file
    ANY = "any"       # as KServe: whatever the file says


class SklearnModel(ArrayModel):
    """`predict`, or `predict_proba` if the environment says PREDICT_PROBA=true, as KServe's server does it."""

    def __init__(self, name: str, path: Path, rule: PickleRule = PickleRule.ANY, limits: BatchLimits | None = None,
                 own_arithmetic: bool = True) -> None:
        super().__init__(name, limits)
        self._path, self._rule, self._own_arithmetic = path, rule, own_arithmetic
        self._probabilities = os.environ.get("PREDICT_PROBA", "false").casefold() == "true"
        self._estimator: Any = None

    def load(self) -> bool:
        self._estimator = self._read()
        width = getattr(self._estimator, "width", None) or getattr(self._estimator, "n_features_in_", None)
        self.width = int(width) if width is not None else None
        names = getattr(self._estimator, "features", None)
        self.features = names if names is not None else _column_names(self._estimator)
        self.accepts_missing = bool(getattr(self._estimator, "accepts_missing", False)) or _allows_nan(self._estimator)
        self._call = self._estimator.predict_proba if self._probabilities else self._estimator.predict
        self.try_out()
        self.ready = True
        return True

    def rows_for(self, payload: Payload) -> Array | None:
        return None if self._needs_names(payload) else super().rows_for(payload)

    def _needs_names(self, payload: Payload) -> bool:
        return self.read_by != "own arithmetic" and _is_by_column(payload)

    async def predict(self, payload: Payload, headers: Headers) -> Any:
        if not self._needs_names(payload):
            return await super().predict(payload, headers)
        frame = _frame(payload["instances"], self.features)
        return {"predictions": np.asarray(await asyncio.to_thread(self._called, frame)).tolist()}

    def _called(self, frame: Any) -> Any:
        try:
            return self._call(frame)
        except (ValueError, TypeError, KeyError) as error:   # columns of another type than the pipeline was fitted on
            raise InvalidInput(" ".join(str(error).split())[:500], "instances") from error

    def results(self, rows: Array) -> Array:
        return np.asarray(self._call(rows))

    def _read(self) -> Any:
        if self._path.suffix == ".skops":
            self.read_by = "skops"
            return _settled(_read_skops(self._path))
        if self._rule is PickleRule.NEVER:
            raise CannotLoad(f"{self._path.name} is a pickle, and --pickle=never refuses those; save it with skops or ONNX")
        seen = _looked_at(self._path)
        ours = known(seen) if self._own_arithmetic or self._rule is PickleRule.KNOWN else None
        if ours is not None and (ours.has_probabilities or not self._probabilities):
            self.read_by = "own arithmetic"
            return ours
        if self._rule is PickleRule.KNOWN:
            raise CannotLoad(f"{self._path.name} holds {_described(seen)}, which --pickle=known cannot read without running code")
        self.read_by = "pickle"
        return _settled(_unpickled(self._path, saved_by(seen)))


def _settled(estimator: Any) -> Any:
    settle(estimator)
    return estimator


def _is_by_column(payload: Payload) -> bool:
    instances = payload.get("instances") if isinstance(payload, dict) else None
    return isinstance(instances, list) and bool(instances) and isinstance(instances[0], dict)


def _frame(instances: list[Any], features: list[str] | None) -> Any:
    """Rows by column name as a DataFrame: pipelines that treat columns differently know them by name."""
    rows = by_column(instances, features, "instances")
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:   # then a pipeline that only knows positions still works
        return np.array(rows, dtype=object)
    return pandas.DataFrame(rows, columns=features or list(instances[0]))


def _looked_at(path: Path) -> Any:
    try:
        return inert.read(path)
    except inert.NotReadable:
        return None


def _described(seen: Any) -> str:
    return f"{seen.module}.{seen.name}" if isinstance(seen, inert.Inert) else "something unreadable"


def _unpickled(path: Path, version: str) -> Any:
    defer_statistics()
    try:
        import joblib
    except ImportError:
        raise CannotLoad("scikit-learn is not installed here; pip install 'serveplane[sklearn]'") from None
    try:
        model = joblib.load(path)
    except Exception as error:
        raise CannotLoad(_why(path, version, error)) from error
    if not hasattr(model, "predict"):
        raise CannotLoad(f"{path.name} holds a {type(model).__name__}, which has no predict")
    return model


def _why(path: Path, version: str, error: Exception) -> str:
    """One sentence that names both versions and the command, if versions may be the reason."""
    reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    here = _installed("scikit-learn")
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("sklearn"):
        return f"{path.name} cannot be loaded: it needs the Python module {error.name}, which is not installed here"
    if version and here and version != here:
        return (f"{path.name} was saved by scikit-learn {version} and cannot be loaded by {here} ({reason}); "
                f"pip install scikit-learn=={version}, or save the model again")
    return f"{path.name} cannot be loaded: {reason}"


def _read_skops(path: Path) -> Any:
    defer_statistics()
    try:
        from skops import io as skops_io
    except ImportError:
        raise CannotLoad(f"{path.name} needs the package skops, which is not installed here; pip install 'serveplane[skops]'") from None
    try:
        untrusted = skops_io.get_untrusted_types(file=path)
        if not untrusted:
            return skops_io.load(path, trusted=[])
    except Exception as error:
        raise CannotLoad(_why(path, "", error)) from error
    raise CannotLoad(f"{path.name} holds types that skops does not trust: {', '.join(untrusted[:5])}")


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _column_names(estimator: Any) -> list[str] | None:
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _allows_nan(estimator: Any) -> bool:
    try:
        return bool(estimator.__sklearn_tags__().input_tags.allow_nan)
    except Exception:   # older estimators and foreign ones do not say
        return False
