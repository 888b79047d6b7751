"""The arithmetic of linear models, scalers and support vector machines, from the arrays that scikit-learn saved."""
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver.tensors import Array

CHUNK = 1 << 21   # values of one intermediate array; keeps memory bounded whatever the batch


@dataclass(frozen=True)
class LinearRegressor:
    weights: Array      # (features,) or (features, targets)
    intercept: Any

    def predict(self, rows: Array) -> Array:
        return rows @ self.weights + self.intercept


@dataclass(frozen=True)
class LinearClassifier:
    """One score per class, or a single score whose sign decides between two."""

    weights: Array      # (features, scores)
    intercept: Array
    classes: Array
    one_against_rest: bool = False

    def predict(self, rows: Array) -> Array:
        scores = self._scores(rows)
        if scores.shape[1] == 1:
            return self.classes[(scores[:, 0] > 0).astype(np.intp)]
        return self.classes[scores.argmax(axis=1)]

    def predict_proba(self, rows: Array) -> Array:
        scores = self._scores(rows)
        if scores.shape[1] == 1:
            positive = _logistic(scores[:, 0])
            return np.stack([1 - positive, positive], axis=1)
        if self.one_against_rest:
            each = _logistic(scores)
            return each / each.sum(axis=1, keepdims=True)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def _scores(self, rows: Array) -> Array:
        return rows @ self.weights + self.intercept


@dataclass(frozen=True)
class Scaler:
    """Centred and scaled; either may be absent. `bounds` clips the result, as MinMaxScaler can."""

    minus: Array | None = None
    times: Array | None = None
    divided: Array | None = None
    plus: Array | None = None
    bounds: tuple[float, float] | None = None

    def transform(self, rows: Array) -> Array:
        rows = rows if rows.dtype.kind == "f" else rows.astype(np.float64)
        for function, operand in ((np.subtract, self.minus), (np.divide, self.divided), (np.multiply, self.times), (np.add, self.plus)):
            if operand is not None:
                rows = function(rows, operand)
        return rows if self.bounds is None else np.clip(rows, *self.bounds)


Kernel = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class SupportVectors:
    """Weighted kernel values against the support vectors: one column per decision."""

    vectors: Array
    kernel: Kernel
    weights: Array      # (vectors, decisions)
    intercept: Array

    def decisions(self, rows: Array) -> Array:
        step = max(1, CHUNK // max(1, self.vectors.size))
        parts = [self.kernel(rows[start:start + step], self.vectors) @ self.weights for start in range(0, len(rows), step)]
        return np.concatenate(parts) + self.intercept


@dataclass(frozen=True)
class VectorRegressor:
    machine: SupportVectors

    def predict(self, rows: Array) -> Array:
        return self.machine.decisions(rows.astype(np.float64))[:, 0]


@dataclass(frozen=True)
class VectorClassifier:
    """Every pair of classes holds a duel; most wins takes the row, the first of equals."""

    machine: SupportVectors
    winners: Array      # (pairs, classes): the class that a positive decision votes for
    losers: Array
    classes: Array

    def predict(self, rows: Array) -> Array:
        positive = self.machine.decisions(rows.astype(np.float64)) > 0
        votes = positive @ self.winners + ~positive @ self.losers
        return self.classes[votes.argmax(axis=1)]


def vector_classifier(vectors: Array, counts: Array, dual: Array, intercept: Array, kernel: Kernel, classes: Array) -> VectorClassifier:
    """From libsvm's layout: the vectors of class after class; row j-1 of `dual` for class i weighs i's vectors against class j."""
    starts = np.concatenate([[0], np.cumsum(counts)])
    pairs = [(i, j) for i in range(len(counts)) for j in range(i + 1, len(counts))]
    weights = np.zeros((len(vectors), len(pairs)))
    winners: Array = np.zeros((len(pairs), len(counts)), np.intp)
    losers: Array = np.zeros_like(winners)
    for column, (i, j) in enumerate(pairs):
        of_i, of_j = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        weights[of_i, column] = dual[j - 1, of_i]
        weights[of_j, column] = dual[i, of_j]
        winners[column, i] = losers[column, j] = 1
    return VectorClassifier(SupportVectors(vectors, kernel, weights, intercept), winners, losers, classes)


def kernel(name: Any, gamma: float, degree: int, constant: float) -> Kernel | None:
    if name == "rbf":
        return lambda rows, vectors: np.exp(-gamma * np.square(rows[:, None, :] - vectors).sum(axis=2))
    if name == "linear":
        return lambda rows, vectors: rows @ vectors.T
    if name == "poly":
        return lambda rows, vectors: (gamma * (rows @ vectors.T) + constant) ** degree
    if name == "sigmoid":
        return lambda rows, vectors: np.tanh(gamma * (rows @ vectors.T) + constant)
    return None


def _logistic(values: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-np.clip(values, -709.0, 709.0)))   # beyond that exp overflows, and the answer is 0 or 1
