"""Our own arithmetic gives what scikit-learn gives, from files of every kind, and gives way where it is not sure."""
import functools
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import datasets, ensemble, linear_model, neighbors, pipeline, preprocessing, svm, tree

from serveplane.dataplane.modelserver.formats import inert
from serveplane.dataplane.modelserver.formats.known import Known, known
from tests.unit.dataplane import models

CLASSIFIERS = [
    linear_model.LogisticRegression(max_iter=200),
    linear_model.SGDClassifier(random_state=0),
    linear_model.RidgeClassifier(),
    svm.LinearSVC(),
    svm.SVC(gamma="scale"),
    svm.SVC(kernel="poly"),
    svm.SVC(kernel="linear"),
    svm.SVC(kernel="sigmoid"),
    svm.NuSVC(nu=0.1),
    tree.DecisionTreeClassifier(random_state=0),
    ensemble.RandomForestClassifier(8, random_state=0),
    ensemble.ExtraTreesClassifier(5, random_state=0),
    ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0),
    pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()),
    pipeline.make_pipeline(preprocessing.MinMaxScaler(clip=True), svm.SVC()),
    pipeline.make_pipeline(
        preprocessing.MaxAbsScaler(), "passthrough", ensemble.RandomForestClassifier(3, random_state=0)
    ),
]
REGRESSORS = [
    linear_model.LinearRegression(), linear_model.Ridge(), linear_model.Lasso(), svm.SVR(), svm.LinearSVR(random_state=0),
    tree.DecisionTreeRegressor(random_state=0), ensemble.RandomForestRegressor(5, random_state=0),
    ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0),
]


@functools.cache
def data(name: str) -> tuple[Any, Any]:
    if name == "words":
        rows, labels = models.iris()
        return rows, np.array(["setosa", "versicolor", "virginica"])[labels]
    rows, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
    return (rows[::4], labels[::4]) if len(rows) > 200 else (rows, labels)


def agrees(model: Any, rows: Any, path: Path) -> None:
    ours = known(inert.read(path))
    assert ours is not None
    expected, got = model.predict(rows), ours.predict(rows)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    else:
        assert (got == expected).all()
    if ours.has_probabilities and hasattr(model, "predict_proba"):
        np.testing.assert_allclose(ours.predict_proba(rows), model.predict_proba(rows), atol=1e-12)


@pytest.mark.parametrize("dataset", ["iris", "breast_cancer", "words"])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: repr(model).replace("\n", "")[:50])
@pytest.mark.filterwarnings("ignore")
def test_classifiers_agree(model: Any, dataset: str, tmp_path: Path) -> None:
    rows, labels = data(dataset)
    agrees(fitted := model.fit(rows, labels), rows, models.save(fitted, tmp_path))


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda model: type(model).__name__)
@pytest.mark.filterwarnings("ignore")
def test_regressors_agree(model: Any, tmp_path: Path) -> None:
    rows, values = data("diabetes")
    agrees(fitted := model.fit(rows, values), rows, models.save(fitted, tmp_path))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("m.joblib", {}),
        ("m.joblib", {"compress": ("zlib", 3)}),
        ("m.joblib", {"compress": ("gzip", 3)}),
        ("m.joblib", {"compress": ("bz2", 3)}),
        ("m.joblib", {"compress": ("xz", 3)}),
        *(("m.pkl", {"protocol": protocol}) for protocol in range(6)),
    ],
)
def test_every_way_of_saving_is_read(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = ensemble.RandomForestClassifier(3, random_state=0).fit(*models.iris())
    agrees(model, models.iris()[0], models.save(model, tmp_path, name, **options))


def test_missing_values_go_where_scikit_learn_sends_them(tmp_path: Path) -> None:
    rows, labels = models.iris()
    holes = np.where(models.noise(rows.shape) > 1, np.nan, rows)
    model = ensemble.RandomForestClassifier(8, random_state=0).fit(holes, labels)
    agrees(model, holes, models.save(model, tmp_path))


@pytest.mark.parametrize(
    "model",
    [
        neighbors.KNeighborsClassifier(),
        ensemble.HistGradientBoostingClassifier(max_iter=2),
        svm.SVC(break_ties=True, decision_function_shape="ovr"),
        pipeline.make_pipeline(preprocessing.PolynomialFeatures(), svm.SVC()),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_not_known_is_left_to_scikit_learn(model: Any, tmp_path: Path) -> None:
    assert known(inert.read(models.save(model.fit(*models.iris()), tmp_path))) is None


def test_column_names_and_version_are_kept(tmp_path: Path) -> None:
    model = linear_model.LinearRegression().fit(*models.iris())
    model.feature_names_in_ = np.array(["a", "b", "c", "d"], dtype=object)
    ours = known(inert.read(models.save(model, tmp_path)))
    assert isinstance(ours, Known)
    assert (ours.features, ours.width) == (["a", "b", "c", "d"], 4)
    assert ours.version == model._sklearn_version if hasattr(model, "_sklearn_version") else ours.version


class Bomb:
    def __reduce__(self) -> Any:
        return os.system, ("touch " + str(self.path),)  # type: ignore[attr-defined]


@pytest.mark.parametrize("protocol", range(6))
def test_reading_runs_nothing(protocol: int, tmp_path: Path) -> None:
    bomb = Bomb()
    bomb.path = tmp_path / "ran"  # type: ignore[attr-defined]
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(bomb, protocol=protocol))
    seen = inert.read(tmp_path / "m.pkl")
    assert (seen.module, seen.name) in {("posix", "system"), ("os", "system")}
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("raw", [
    b"", b"\x80", b"garbage", b"\x80\x04N", b"(" * 20_000, b"\x80\x04" + b"]" * 20_000, b"cos\nsystem\n.", b"\x78\x9c broken",
    b"\x80\x04\x8e" + b"\xff" * 8 + b".", b"\x80\x04B\xff\xff\xff\x7f.", b"\x1f\x8b\x00", b"\x80\x04\x82\x01.", b"P1\n.",
])
def test_broken_files_are_refused(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.pkl").write_bytes(raw)
    try:
        result = inert.read(tmp_path / "m.pkl")
    except inert.NotReadable:
        return
    assert known(result() if isinstance(result, type) else result) is None


def test_a_tree_with_a_circle_is_not_known(tmp_path: Path) -> None:
    model = tree.DecisionTreeClassifier(random_state=0).fit(*models.iris())
    state = model.tree_.__getstate__()
    state["nodes"]["left_child"][0] = 0
    model.tree_.__setstate__(state)
    seen = inert.read(models.save(model, tmp_path))
    seen.state["tree_"].state["nodes"] = seen.state["tree_"].state["nodes"].copy()
    seen.state["tree_"].state["nodes"]["left_child"][0] = 0
    assert known(seen) is None
