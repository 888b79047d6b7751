"""The arithmetic of linear models, scalers and support vector machines, from the arrays that scikit-learn saved."""
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from serveplane.dataplane.modelserver.tensors import Array

CHUNK = 1 << 18   # values of one intermediate array; keeps memory bounded whatever the batch, and near the processor
TABLED = 10       # duels between classes whose outcomes are worth a table: up to five classes


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


Kernel = Callable[[Array], Array]


@dataclass(frozen=True)
class SupportVectors:
    """Weighted kernel values against the support vectors: one column per decision."""

    kernel: Kernel      # rows to (rows, vectors)
    weights: Array      # (vectors, decisions)
    intercept: Array
    step: int           # rows judged at once

    def decisions(self, rows: Array) -> Array:
        step = self.step
        if len(rows) <= step:
            return self.kernel(rows).dot(self.weights) + self.intercept
        parts = [self.kernel(rows[start:start + step]).dot(self.weights) for start in range(0, len(rows), step)]
        return np.concatenate(parts) + self.intercept


def support_vectors(vectors: Array, kernel: Kernel, weights: Array, intercept: Array) -> SupportVectors:
    return SupportVectors(kernel, weights, intercept, max(1, CHUNK // max(1, vectors.size)))


@dataclass(frozen=True)
class VectorRegressor:
    machine: SupportVectors

    def predict(self, rows: Array) -> Array:
        return self.machine.decisions(rows.astype(np.float64, copy=False))[:, 0]


@dataclass(frozen=True)
class VectorClassifier:
    """Every pair of classes holds a duel; most wins takes the row, the first of equals.

    With few classes every possible outcome of the duels is judged beforehand, so a row costs one look into a table.
    """

    machine: SupportVectors
    votes: Array        # (duels, classes): what a positive decision changes in the votes
    start: Array        # (classes,): the votes if every decision is negative
    classes: Array
    places: Array | None = None    # (duels,): powers of two
    outcomes: Array | None = None  # the class for every number that the duels can spell

    def predict(self, rows: Array) -> Array:
        positive = self.machine.decisions(rows.astype(np.float64, copy=False)) > 0
        if self.outcomes is not None:
            return self.outcomes.take(positive.dot(self.places))
        return self.classes[self._most_votes(positive)]

    def _most_votes(self, positive: Array) -> Array:
        return (positive.dot(self.votes) + self.start).argmax(axis=1)


def vector_classifier(vectors: Array, counts: Array, dual: Array, intercept: Array, kernel: Kernel, classes: Array) -> VectorClassifier:
    """From libsvm's layout: the vectors of class after class; row j-1 of `dual` for class i weighs i's vectors against class j."""
    starts = np.concatenate([[0], np.cumsum(counts)])
    pairs = [(i, j) for i in range(len(counts)) for j in range(i + 1, len(counts))]
    weights, votes, start = np.zeros((len(vectors), len(pairs))), np.zeros((len(pairs), len(counts))), np.zeros(len(counts))
    for column, (i, j) in enumerate(pairs):
        of_i, of_j = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        weights[of_i, column] = dual[j - 1, of_i]
        weights[of_j, column] = dual[i, of_j]
        votes[column, i], votes[column, j] = 1.0, -1.0
        start[j] += 1.0
    judge = VectorClassifier(support_vectors(vectors, kernel, weights, intercept), votes, start, classes)
    return judge if len(pairs) > TABLED else _tabled(judge, len(pairs))


def _tabled(judge: VectorClassifier, duels: int) -> VectorClassifier:
    spelled = np.arange(1 << duels)[:, None] >> np.arange(duels) & 1 == 1
    return replace(judge, places=1 << np.arange(duels), outcomes=judge.classes[judge._most_votes(spelled)])


def kernel(name: Any, vectors: Array, gamma: float, degree: int, constant: float) -> Kernel | None:
    across = vectors.T
    if name == "rbf":
        return _radial(vectors, gamma)
    if name == "linear":
        return lambda rows: rows.dot(across)
    if name == "poly":
        return lambda rows: (gamma * rows.dot(across) + constant) ** degree
    if name == "sigmoid":
        return lambda rows: np.tanh(gamma * rows.dot(across) + constant)
    return None


def _radial(vectors: Array, gamma: float) -> Kernel:
    """Differences first, then squares, as libsvm does it: the textbook expansion would lose digits. The features come first in
    memory, so that the sum over them adds whole planes."""
    planes = np.ascontiguousarray(vectors.T)[:, None, :]

    def values(rows: Array) -> Array:
        apart = rows.T[:, :, None] - planes
        apart *= apart
        distances = np.add.reduce(apart, axis=0)
        distances *= -gamma
        return np.exp(distances, out=distances)
    return values


def _logistic(values: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-np.clip(values, -709.0, 709.0)))   # beyond that exp overflows, and the answer is 0 or 1
