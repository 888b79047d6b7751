"""What scikit-learn asks itself at every predict, answered once.

A loaded model is fitted and stays what it is, and what we hand it is an array. Yet two thirds of a small predict go into finding that
out again: whether the estimator is fitted, what its tags are (both protocols of scikit-learn that an object may answer itself),
and whether the array is a data frame of some library. Inputs are judged as before.
"""
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

DEEPEST = 8   # estimators within estimators


class _Always:
    """Gives the same answer for ever. A class, because estimators may be pickled to helper processes."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __call__(self) -> Any:
        return self._answer


class _NoFrame:
    """Wraps a question that is always false for an array."""

    def __init__(self, question: Callable[[Any], bool]) -> None:
        self._question = question

    def __call__(self, value: Any) -> bool:
        return type(value) is not np.ndarray and self._question(value)


def settle(estimator: Any, depth: int = 0) -> None:
    """Let this estimator of scikit-learn's, and those inside it, remember what cannot change any more."""
    if depth == 0:
        _tell_arrays_from_frames()
    if depth > DEEPEST or not type(estimator).__module__.startswith("sklearn."):
        return
    try:
        _remember(estimator)
    except Exception:   # not fitted, or of a version that works otherwise: then it goes on asking
        return
    for inner in _inside(estimator):
        settle(inner, depth + 1)


def _remember(estimator: Any) -> None:
    from sklearn.utils.validation import check_is_fitted
    tags = estimator.__sklearn_tags__()   # before those inside remember theirs: some are put together from them
    check_is_fitted(estimator)
    estimator.__sklearn_tags__, estimator.__sklearn_is_fitted__ = _Always(tags), _Always(True)


def _inside(estimator: Any) -> Iterator[Any]:
    held = vars(estimator)
    yield from (step for _, step in held.get("steps") or () if hasattr(step, "fit"))
    members = held.get("estimators_")
    if isinstance(members, np.ndarray):
        members = members.ravel().tolist()
    yield from members if isinstance(members, list) else ()
    if hasattr(held.get("estimator_"), "fit"):
        yield held["estimator_"]


def _tell_arrays_from_frames() -> None:
    validation = sys.modules.get("sklearn.utils.validation")
    asked = getattr(getattr(validation, "nw", None), "dependencies", None)
    for name in ("is_into_dataframe", "is_into_series"):
        question = getattr(asked, name, None)
        if question is not None and not isinstance(question, _NoFrame):
            setattr(asked, name, _NoFrame(question))
