"""A user's Python file as the model: a subclass of `Model`, or any class or function called predict.

    class Doubled(Model):                         class Doubled:                        def predict(rows):
        def predict(self, payload, headers): …        def predict(self, rows): …            return rows * 2

The two short forms get the rows as an array and give one result per row, so they are batched like any other model.
"""
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver.errors import CannotLoad
from serveplane.dataplane.modelserver.formats.array_model import ArrayModel
from serveplane.dataplane.modelserver.limits import BatchLimits
from serveplane.dataplane.modelserver.model import Model
from serveplane.dataplane.modelserver.tensors import Array


def python_model(name: str, path: Path, pickle_rule: str = "any", limits: BatchLimits | None = None) -> Model:
    """What the file defines. Running it is running code, so the same rule as for pickles holds."""
    if pickle_rule != "any":
        raise CannotLoad(f"{path.name} is code, and --pickle={pickle_rule} refuses to run any")
    module = _imported(name, path)
    classes = [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__]
    models = [each for each in classes if issubclass(each, Model)]
    if len(models) == 1:
        return _made(models[0], name, path)
    predictors = [each for each in classes if callable(getattr(each, "predict", None))]
    if not models and len(predictors) == 1:
        return _Wrapped(name, limits, path, kind=predictors[0])
    function = getattr(module, "predict", None)
    if not models and not predictors and inspect.isfunction(function):
        return _Wrapped(name, limits, path, function=function)
    raise CannotLoad(f"{path.name} must define exactly one subclass of Model, one class with a predict method, or a function predict")


class _Wrapped(ArrayModel):
    """Rows in, results out, by a class or function that knows nothing of protocols."""

    def __init__(self, name: str, limits: BatchLimits | None, path: Path, kind: type | None = None, function: Any = None) -> None:
        super().__init__(name, limits)
        self._kind, self._path, self._function = kind, path, function
        self._object: Any = None

    def load(self) -> bool:
        if self._kind is not None:
            self._object = _instance(self._kind, self._path)
            loader = getattr(self._object, "load", None)
            if callable(loader):
                loader()
            self._function = self._object.predict
        self.ready = True
        return True

    def results(self, rows: Array) -> Array:
        return np.asarray(self._function(rows))


def _instance(kind: type, path: Path) -> Any:
    """With the model's folder, if the constructor takes an argument."""
    takes = [parameter for parameter in inspect.signature(kind).parameters.values()
             if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
    return kind(str(path.parent)) if takes else kind()


def _made(kind: type[Model], name: str, path: Path) -> Model:
    model = kind(name)
    model.folder = str(path.parent)  # type: ignore[attr-defined]
    return model


def _imported(name: str, path: Path) -> ModuleType:
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)   # so that the file may import its neighbours
    spec = importlib.util.spec_from_file_location(f"serveplane_user_model_{abs(hash((name, str(path))))}", path)
    if spec is None or spec.loader is None:
        raise CannotLoad(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(spec.name, None)
        raise CannotLoad(f"{path.name} failed when it was imported: {type(error).__name__}: {error}") from error
    return module
