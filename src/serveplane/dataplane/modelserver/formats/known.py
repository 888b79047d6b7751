"""Which scikit-learn estimators we can compute ourselves, and how their saved state becomes arithmetic.

Only what is recognised to the last attribute that matters is taken; anything else gives None, and scikit-learn itself
is asked. So this module may be timid, never wrong.
"""
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

import numpy as np

from serveplane.dataplane.modelserver.formats import linear, trees
from serveplane.dataplane.modelserver.formats.inert import Inert
from serveplane.dataplane.modelserver.tensors import Array

_SIGN_CLASSIFIERS = ("RidgeClassifier", "RidgeClassifierCV", "LinearSVC", "SGDClassifier", "Perceptron", "PassiveAggressiveClassifier")
_LOGISTIC = ("LogisticRegression", "LogisticRegressionCV")
_REGRESSORS = (
    "LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV", "BayesianRidge",
    "HuberRegressor", "SGDRegressor", "LinearSVR", "Lars", "LassoLars",
)
_FORESTS = ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor")
_TREES = ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor")


class Step(Protocol):
    def transform(self, rows: Array) -> Array: ...


@dataclass(frozen=True)
class Known:
    """A model of ours: scaled by the steps, then judged by the last."""

    kind: str                    # the estimator's class name
    width: int
    features: list[str] | None   # names of the columns, if it was fitted on named ones
    version: str                 # of the scikit-learn that saved it
    steps: tuple[Step, ...]
    final: Any

    @property
    def accepts_missing(self) -> bool:
        """Trees of recent versions say at every node where a missing value goes."""
        final = self.final
        return not self.steps and isinstance(final, trees.TreeRegressor | trees.TreeClassifier) and final.forest.missing_left is not None

    @property
    def has_probabilities(self) -> bool:
        return hasattr(self.final, "predict_proba") and self.kind not in _SIGN_CLASSIFIERS

    def predict(self, rows: Array) -> Array:
        return self.final.predict(self._prepared(rows))

    def predict_proba(self, rows: Array) -> Array:
        return self.final.predict_proba(self._prepared(rows))

    def _prepared(self, rows: Array) -> Array:
        rows = rows if rows.dtype == np.float32 else rows.astype(np.float64, copy=False)   # single precision stays, as in scikit-learn
        if not isfinite(np.vdot(rows, rows)):   # one quick number; only if it is odd does the reason matter
            self._judge(rows)
        for step in self.steps:
            rows = step.transform(rows)
        return rows

    def _judge(self, rows: Array) -> None:
        if not (np.isfinite(rows) | np.isnan(rows) if self.accepts_missing else np.isfinite(rows)).all():
            raise ValueError("Input contains NaN or infinity, which this model does not accept.")


def known(model: Any) -> Known | None:
    """The arithmetic of this estimator, or None if it is not one we are sure of."""
    try:
        return _known(model)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):   # a state of another shape than expected is not known
        return None


def saved_by(model: Any) -> str:
    """The version of scikit-learn that saved this, if it says so."""
    version = model.get("_sklearn_version") if isinstance(model, Inert) else None
    return version if isinstance(version, str) else ""


def _known(model: Any) -> Known | None:
    if not _is_estimator(model):
        return None
    steps: list[Step] = []
    last, first = model, model
    if model.name == "Pipeline":
        parts = [part for _, part in model.state["steps"] if part not in (None, "passthrough")]
        *transformers, last = parts
        first = parts[0]
        steps = [_scaler(transformer) for transformer in transformers]
    builder = _BUILDERS.get(last.name) if _is_estimator(last) else None
    final = builder(last) if builder else None
    if final is None:
        return None
    names = first.get("feature_names_in_")
    return Known(last.name, int(first.state["n_features_in_"]), None if names is None else [str(name) for name in names], saved_by(model),
                 tuple(steps), final)


def _is_estimator(model: Any) -> bool:
    return isinstance(model, Inert) and model.module.startswith("sklearn.") and isinstance(model.state, dict)


def _scaler(model: Any) -> Step:
    if not _is_estimator(model):
        raise TypeError("no estimator")
    state = model.state
    if model.name == "StandardScaler":
        return linear.Scaler(minus=state["mean_"] if state["with_mean"] else None, divided=state["scale_"] if state["with_std"] else None)
    if model.name == "MinMaxScaler":
        return linear.Scaler(times=state["scale_"], plus=state["min_"], bounds=state["feature_range"] if state.get("clip") else None)
    if model.name == "MaxAbsScaler" and not state.get("clip"):
        return linear.Scaler(divided=state["scale_"])
    raise TypeError("no scaler of ours")


def _numeric(array: Any) -> Array:
    array = np.asarray(array)
    if array.dtype.kind not in "fiu":
        raise TypeError("no numbers")
    return array


def _classes(model: Inert) -> Array:
    classes = model.state["classes_"]
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or len(classes) < 2:
        raise TypeError("more than one target, or none")
    return classes


def _regressor(model: Inert) -> Any:
    return linear.LinearRegressor(_numeric(model.state["coef_"]).T, _scalar_if_single(model.state["intercept_"], model.state["coef_"]))


def _scalar_if_single(intercept: Any, weights: Array) -> Any:
    intercept = _numeric(intercept)
    return intercept.reshape(())[()] if weights.ndim == 1 and intercept.size == 1 else intercept


def _sign_classifier(model: Inert) -> Any:
    if model.name in ("RidgeClassifier", "RidgeClassifierCV") and "_label_binarizer" in model.state:
        binarizer = model.state["_label_binarizer"]
        classes = binarizer.state["classes_"]
        if binarizer.state["y_type_"].startswith("multilabel"):
            return None
    else:
        classes = _classes(model)
    return _linear_classifier(model, classes)


def _linear_classifier(model: Inert, classes: Array, one_against_rest: bool = False) -> Any:
    weights, intercept = np.atleast_2d(_numeric(model.state["coef_"])), _numeric(model.state["intercept_"])
    if weights.ndim != 2 or weights.shape[0] not in (len(classes), 1) or (weights.shape[0] == 1) != (len(classes) == 2):
        return None
    return linear.LinearClassifier(weights.T, intercept.reshape(-1), classes, one_against_rest)


def _logistic(model: Inert) -> Any:
    state = model.state
    one_against_rest = state.get("solver") == "liblinear" or state.get("multi_class") in ("ovr", "warn")
    if state.get("multi_class") == "multinomial" and len(_classes(model)) == 2:
        return None   # older versions apply a softmax to a single score here; left to them
    return _linear_classifier(model, _classes(model), one_against_rest)


def _kernel(state: dict[str, Any]) -> linear.Kernel | None:
    vectors = _numeric(state["support_vectors_"])
    return linear.kernel(state["kernel"], vectors, float(state["_gamma"]), int(state["degree"]), float(state["coef0"]))


def _vector_classifier(model: Inert) -> Any:
    state, kernel = model.state, _kernel(model.state)
    if kernel is None or state.get("_sparse") or state.get("break_ties"):
        return None
    return linear.vector_classifier(_numeric(state["support_vectors_"]), _numeric(state["_n_support"]), _numeric(state["_dual_coef_"]),
                                    _numeric(state["_intercept_"]), kernel, _classes(model))


def _vector_regressor(model: Inert) -> Any:
    state, kernel = model.state, _kernel(model.state)
    if kernel is None or state.get("_sparse"):
        return None
    return linear.VectorRegressor(linear.support_vectors(
        _numeric(state["support_vectors_"]), kernel, _numeric(state["_dual_coef_"]).T, _numeric(state["_intercept_"])))


def _tree(model: Any, normalised: bool) -> trees.Tree:
    """One decision tree's arrays, checked: everything indexes within bounds."""
    tree = model.state["tree_"]
    width, _, outputs = tree.args
    nodes, values = tree.state["nodes"], _numeric(tree.state["values"])
    if outputs != 1 or len(nodes) == 0 or len(values) != len(nodes) or values.shape[1] != 1:
        raise TypeError("more than one target")
    inner = nodes["left_child"] >= 0
    if (nodes["feature"][inner] < 0).any() or (nodes["feature"][inner] >= width).any() or (nodes["right_child"][inner] < 0).any():
        raise ValueError("not a tree")
    values = values[:, 0, :]
    if normalised:
        total = values.sum(axis=1, keepdims=True)
        values = values / np.where(total == 0.0, 1.0, total)
    missing = nodes["missing_go_to_left"] if "missing_go_to_left" in nodes.dtype.names else None
    return trees.Tree(nodes["left_child"], nodes["right_child"], nodes["feature"], nodes["threshold"], missing, values)


def _counts_samples(model: Inert) -> bool:
    """Before 1.3 a classifier's leaves held sample counts rather than shares."""
    major, minor = [*saved_by(model).split("."), "0", "0"][:2]
    return model.name.endswith("Classifier") and (int(major), int(minor)) < (1, 3)


def _tree_model(model: Inert) -> Any:
    members = model.state["estimators_"] if model.name in _FORESTS else [model]
    forest = trees.forest([_tree(member, _counts_samples(model)) for member in members])
    if model.name.endswith("Regressor"):
        return trees.TreeRegressor(forest) if model.get("criterion") != "poisson_log" else None
    return trees.TreeClassifier(forest, _classes(model))


def _boosted(model: Inert) -> Any:
    state = model.state
    stages, start = state["estimators_"], _boosting_start(model)
    if not isinstance(stages, np.ndarray) or stages.dtype != object or start is None or stages.shape[1] != len(start):
        return None
    forest = trees.forest([_tree(tree, False) for tree in stages.ravel()])
    boosted = trees.Boosted(forest, start, float(state["learning_rate"]))
    return trees.BoostedRegressor(boosted) if model.name.endswith("Regressor") else trees.BoostedClassifier(boosted, _classes(model))


def _boosting_start(model: Inert) -> Array | None:
    """What the first guess adds before any tree; only the built-in guesses of the default losses."""
    state, first = model.state, model.state["init_"]
    if first == "zero" or not isinstance(first, Inert):
        return None
    if first.name == "DummyRegressor" and state["loss"] == "squared_error":
        return np.asarray(first.state["constant_"], dtype=np.float64).reshape(-1)
    if first.name != "DummyClassifier" or state["loss"] != "log_loss":
        return None
    shares = np.clip(np.asarray(first.state["class_prior_"]), np.finfo(np.float32).eps, 1 - np.finfo(np.float32).eps)
    if len(shares) == 2:
        return np.log(shares[1:] / (1 - shares[1:]))
    logs = np.log(shares)
    return logs - logs.mean()


_BUILDERS: dict[str, Callable[[Inert], Any]] = {
    **dict.fromkeys(_REGRESSORS, _regressor),
    **dict.fromkeys(_SIGN_CLASSIFIERS, _sign_classifier),
    **dict.fromkeys(_LOGISTIC, _logistic),
    **dict.fromkeys((*_TREES, *_FORESTS), _tree_model),
    **dict.fromkeys(("SVC", "NuSVC"), _vector_classifier),
    **dict.fromkeys(("SVR", "NuSVR"), _vector_regressor),
    **dict.fromkeys(("GradientBoostingClassifier", "GradientBoostingRegressor"), _boosted),
}
