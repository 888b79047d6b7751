"""Which file in a model's folder is the model, and what reads it."""
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from serveplane.dataplane.modelserver.errors import CannotLoad
from serveplane.dataplane.modelserver.limits import BatchLimits
from serveplane.dataplane.modelserver.model import Model

SKLEARN, XGBOOST, LIGHTGBM, ONNX, PYTHON = "sklearn", "xgboost", "lightgbm", "onnx", "python"
_BY_SUFFIX = {
    ".joblib": SKLEARN, ".pkl": SKLEARN, ".pickle": SKLEARN, ".skops": SKLEARN,
    ".bst": XGBOOST, ".ubj": XGBOOST, ".json": XGBOOST, ".xgb": XGBOOST,
    ".txt": LIGHTGBM, ".lgb": LIGHTGBM, ".onnx": ONNX, ".py": PYTHON,
}
_NOT_MODELS = ("model-settings.json", "settings.json", "config.json", "metadata.json", "input_example.json", "requirements.txt")


class FormatOptions(NamedTuple):
    """What the flags say about reading models."""

    framework: str = ""      # "" decides by the file
    pickle: str = "any"
    threads: int = 1
    limits: BatchLimits = BatchLimits()
    own_arithmetic: bool = True


def open_model(name: str, folder: Path, options: FormatOptions) -> Model:
    """The model in this folder (or file), not loaded yet."""
    path = model_file(folder, options.framework)
    framework = options.framework or framework_of(path)
    return _OPENERS[framework](name, path, options)


def model_file(folder: Path, framework: str = "") -> Path:
    """The one file that is a model; none or several is an error that lists what is there."""
    if folder.is_file():
        return folder
    if not folder.is_dir():
        raise CannotLoad(f"{folder} does not exist")
    found = sorted(path for path in folder.iterdir() if path.is_file() and _fits(path, framework))
    if len(found) == 1:
        return found[0]
    if not found:
        there = ", ".join(sorted(path.name for path in folder.iterdir())[:10]) or "nothing"
        raise CannotLoad(f"no {framework or 'known'} model file in {folder.name}: it holds {there}")
    raise CannotLoad(f"more than one model file in {folder.name}: {', '.join(path.name for path in found[:10])}")


def framework_of(path: Path) -> str:
    """By the suffix, and by the first bytes where two frameworks share one (`.bst`, `.txt`)."""
    framework = _BY_SUFFIX.get(path.suffix.casefold())
    if framework is None:
        raise CannotLoad(f"{path.name}: no model format has the suffix {path.suffix or '(none)'}")
    if framework in (XGBOOST, LIGHTGBM):
        with path.open("rb") as file:
            return LIGHTGBM if file.read(4) == b"tree" else XGBOOST
    return framework


def _fits(path: Path, framework: str) -> bool:
    suffix = path.suffix.casefold()
    if path.name.startswith(".") or path.name in _NOT_MODELS or suffix not in _BY_SUFFIX:
        return False
    if not framework or _BY_SUFFIX[suffix] == framework:
        return True
    return {framework, _BY_SUFFIX[suffix]} == {XGBOOST, LIGHTGBM}


def _sklearn(name: str, path: Path, options: FormatOptions) -> Model:
    from serveplane.dataplane.modelserver.formats.sklearn import PickleRule, SklearnModel
    return SklearnModel(name, path, PickleRule(options.pickle), options.limits, options.own_arithmetic)


def _xgboost(name: str, path: Path, options: FormatOptions) -> Model:
    from serveplane.dataplane.modelserver.formats.xgboost import XgboostModel
    return XgboostModel(name, path, options.threads, options.limits)


def _lightgbm(name: str, path: Path, options: FormatOptions) -> Model:
    from serveplane.dataplane.modelserver.formats.lightgbm import LightgbmModel
    return LightgbmModel(name, path, options.threads, options.limits)


def _onnx(name: str, path: Path, options: FormatOptions) -> Model:
    from serveplane.dataplane.modelserver.formats.onnx import OnnxModel
    return OnnxModel(name, path, options.threads, options.limits)


def _python(name: str, path: Path, options: FormatOptions) -> Model:
    from serveplane.dataplane.modelserver.formats.python import python_model
    return python_model(name, path, options.pickle, options.limits)


_OPENERS: dict[str, Callable[[str, Path, FormatOptions], Model]] = {
    SKLEARN: _sklearn, XGBOOST: _xgboost, LIGHTGBM: _lightgbm, ONNX: _onnx, PYTHON: _python,
}
FRAMEWORKS = tuple(_OPENERS)
