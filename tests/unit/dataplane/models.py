"""Small trained models for tests: everything is fitted here, nothing is downloaded."""
import functools
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn import datasets, svm


@functools.cache
def iris() -> tuple[Any, Any]:
    return datasets.load_iris(return_X_y=True)


@functools.cache
def classifier() -> Any:
    """The model of KServe's own example."""
    return svm.SVC(gamma="scale").fit(*iris())


def save(model: Any, folder: Path, name: str = "model.joblib", **options: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    if name.endswith(".joblib"):
        joblib.dump(model, path, **options)
    else:
        path.write_bytes(pickle.dumps(model, **options))
    return path


def rows(count: int = 2) -> list[list[float]]:
    """KServe's example rows, repeated."""
    return [[[6.8, 2.8, 4.8, 1.4], [6.0, 3.4, 4.5, 1.6]][index % 2] for index in range(count)]


def noise(shape: tuple[int, ...], seed: int = 1) -> Any:
    return np.random.default_rng(seed).normal(size=shape)
