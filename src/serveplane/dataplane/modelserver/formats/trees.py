"""The arithmetic of decision trees and forests, from the node arrays that scikit-learn saved.

All trees of a forest are walked at once: one step moves every row one level down in every tree, so the cost in numpy
calls is the depth, not the number of trees.
"""
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from serveplane.dataplane.modelserver.tensors import Array

CHUNK = 1 << 20   # rows x trees walked at once


class Tree(NamedTuple):
    """One tree: children (-1 at a leaf), the feature and threshold asked, and the value of each node."""

    left: Array
    right: Array
    feature: Array
    threshold: Array
    missing_left: Array | None
    values: Array       # (nodes, outputs)


@dataclass(frozen=True)
class Forest:
    """Trees laid end to end; `roots` says where each begins. A leaf leads to itself."""

    roots: Array
    left: Array
    right: Array
    feature: Array
    threshold: Array
    missing_left: Array | None
    values: Array
    depth: int

    def leaves(self, rows: Array) -> Array:
        """The leaf of each row in each tree."""
        rows = rows.astype(np.float32)   # as scikit-learn compares: single precision against double thresholds
        nodes = np.broadcast_to(self.roots, (len(rows), len(self.roots)))
        index = np.arange(len(rows))[:, None]
        for _ in range(self.depth):
            values = rows[index, self.feature[nodes]]
            goes_left = values <= self.threshold[nodes]
            if self.missing_left is not None:
                goes_left |= np.isnan(values) & self.missing_left[nodes]
            nodes = np.where(goes_left, self.left[nodes], self.right[nodes])
        return nodes

    def mean(self, rows: Array) -> Array:
        """The average over the trees of the values at the leaves: (rows, outputs)."""
        step = max(1, CHUNK // len(self.roots))
        parts = [self._sum(rows[start:start + step]) for start in range(0, len(rows), step)]
        return np.concatenate(parts) / len(self.roots)

    def _sum(self, rows: Array) -> Array:
        nodes = self.leaves(rows)
        total = self.values[nodes[:, 0]]
        for tree in range(1, nodes.shape[1]):   # in order, so that sums round as scikit-learn's do
            total = total + self.values[nodes[:, tree]]
        return total


@dataclass(frozen=True)
class TreeRegressor:
    forest: Forest

    def predict(self, rows: Array) -> Array:
        return self.forest.mean(rows)[:, 0]


@dataclass(frozen=True)
class TreeClassifier:
    forest: Forest
    classes: Array

    def predict(self, rows: Array) -> Array:
        return self.classes[self.forest.mean(rows).argmax(axis=1)]

    def predict_proba(self, rows: Array) -> Array:
        return self.forest.mean(rows)


@dataclass(frozen=True)
class Boosted:
    """Trees whose leaves add up: `stages` x `outputs` of them, stage by stage."""

    forest: Forest
    start: Array        # (outputs,)
    rate: float

    def scores(self, rows: Array) -> Array:
        step = max(1, CHUNK // len(self.forest.roots))
        return np.concatenate([self._scores(rows[start:start + step]) for start in range(0, len(rows), step)])

    def _scores(self, rows: Array) -> Array:
        nodes = self.forest.leaves(rows)
        scores = np.tile(self.start, (len(rows), 1))
        for tree in range(nodes.shape[1]):
            scores[:, tree % len(self.start)] += self.rate * self.forest.values[nodes[:, tree], 0]
        return scores


@dataclass(frozen=True)
class BoostedRegressor:
    boosted: Boosted

    def predict(self, rows: Array) -> Array:
        return self.boosted.scores(rows)[:, 0]


@dataclass(frozen=True)
class BoostedClassifier:
    boosted: Boosted
    classes: Array

    def predict(self, rows: Array) -> Array:
        scores = self.boosted.scores(rows)
        if scores.shape[1] == 1:
            return self.classes[(scores[:, 0] >= 0).astype(np.intp)]
        return self.classes[scores.argmax(axis=1)]

    def predict_proba(self, rows: Array) -> Array:
        scores = self.boosted.scores(rows)
        if scores.shape[1] == 1:
            positive = 1.0 / (1.0 + np.exp(-np.clip(scores[:, 0], -709.0, 709.0)))
            return np.stack([1 - positive, positive], axis=1)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)


def forest(trees: Sequence[Tree]) -> Forest:
    offsets = np.cumsum([0, *(len(tree.left) for tree in trees)])[:-1]
    parts = [_laid(tree, offset) for tree, offset in zip(trees, offsets, strict=True)]
    left, right, feature, threshold = (np.concatenate(column) for column in zip(*parts, strict=True))
    missing = [tree.missing_left for tree in trees]
    known = None if any(each is None for each in missing) else np.concatenate(missing).astype(bool)
    return Forest(offsets, left, right, feature, threshold, known,
                  np.concatenate([tree.values for tree in trees]), max(_depth(tree) for tree in trees))


def _laid(tree: Tree, offset: int) -> tuple[Array, Array, Array, Array]:
    """The tree's arrays with absolute indices."""
    own: Array = np.arange(len(tree.left)) + offset
    leaf = tree.left < 0
    return (np.where(leaf, own, tree.left + offset), np.where(leaf, own, tree.right + offset),
            np.where(leaf, 0, tree.feature), np.where(leaf, np.inf, tree.threshold))


def _depth(tree: Tree) -> int:
    """Levels below the root. Children must lie after their parent, as scikit-learn writes them; this also rules out circles."""
    nodes: Array = np.zeros(1, np.intp)
    depth = 0
    inner = tree.left >= 0
    own: Array = np.arange(len(tree.left))
    if ((tree.left[inner] <= own[inner]) | (tree.right[inner] <= own[inner])).any() or max(tree.left.max(), tree.right.max()) >= len(own):
        raise ValueError("not a tree")
    while True:
        nodes = nodes[inner[nodes]]
        if not len(nodes):
            return depth
        nodes, depth = np.unique(np.concatenate([tree.left[nodes], tree.right[nodes]])), depth + 1
