"""A settled estimator answers, and refuses, as it did before."""
import copy
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn import ensemble, impute, linear_model, neighbors, pipeline, preprocessing, svm, tree

from serveplane.dataplane.modelserver.formats.settled import _NoFrame, settle
from tests.unit.dataplane import models

ESTIMATORS = [
    svm.SVC(),
    neighbors.KNeighborsClassifier(),
    ensemble.RandomForestClassifier(3, random_state=0),
    ensemble.GradientBoostingClassifier(n_estimators=2, random_state=0),
    ensemble.VotingClassifier([("tree", tree.DecisionTreeClassifier(random_state=0)), ("line", linear_model.RidgeClassifier())]),
    ensemble.BaggingClassifier(tree.DecisionTreeClassifier(random_state=0), 2, random_state=0),
    pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()),
    pipeline.make_pipeline(impute.SimpleImputer(), svm.LinearSVC()),
]


def told(estimator: Any, rows: Any) -> Any:
    try:
        return estimator.predict(rows).tolist()
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.filterwarnings("ignore")
def test_same_answers_and_same_refusals(estimator: Any) -> None:
    rows, labels = models.iris()
    plain = copy.deepcopy(estimator).fit(rows, labels)
    settled = copy.deepcopy(plain)
    settle(settled)
    hole = rows[:2].copy()
    hole[0, 0] = np.nan
    for given in (rows, rows.astype(np.float32), rows[:1], hole, rows[:, :2], rows[0], rows[:0], [[1.0]], rows[:2].tolist()):
        assert told(settled, given) == told(plain, given)
    assert told(pickle.loads(pickle.dumps(settled)), rows) == told(plain, rows)


def test_what_is_not_fitted_or_not_scikit_learns_is_left_alone() -> None:
    raw = svm.SVC()
    settle(raw)
    assert "__sklearn_tags__" not in vars(raw)
    other = object()
    settle(other)


def test_frames_are_still_asked_about() -> None:
    seen: list[Any] = []
    question = _NoFrame(lambda value: seen.append(value) or True)  # type: ignore[func-returns-value]
    assert question("a frame") is True
    assert question(np.zeros(2)) is False
    assert seen == ["a frame"]
