"""Finding and reading model files, and what is said when that fails."""
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn import compose, linear_model, neighbors, preprocessing

from serveplane.dataplane.modelserver.errors import CannotLoad
from serveplane.dataplane.modelserver.formats import FormatOptions, framework_of, model_file, open_model
from serveplane.dataplane.modelserver.formats.sklearn import PickleRule, SklearnModel, _why
from serveplane.dataplane.modelserver.rpc.protobuf import Writer
from tests.unit.dataplane import models
from tests.unit.dataplane.serving import Server

ROWS = models.rows()


def message(*fields: tuple[int, Any]) -> bytes:
    writer = Writer()
    for number, value in fields:
        if isinstance(value, int):
            writer.varint(number, value)
        else:
            writer.raw(number, value if isinstance(value, bytes) else value.encode())
    return writer.done()


def onnx_tensor(name: str, *shape: int | str) -> bytes:
    """A ValueInfoProto of floats."""
    sizes = [(1, message((1, size) if isinstance(size, int) else (2, size))) for size in shape]
    return message((1, name), (2, message((1, message((1, 1), (2, message(*sizes)))))))


def onnx_model(path: Path, inputs: int = 1) -> Path:
    """y = x · w, or y = a + b, written by hand: the smallest ONNX files there are."""
    path.mkdir(parents=True, exist_ok=True)
    weights = message((1, 4), (1, 2), (2, 1), (8, "w"), (9, np.arange(8, dtype="<f4").tobytes()))
    if inputs == 1:
        graph = message(
            (1, message((1, "x"), (1, "w"), (2, "y"), (4, "MatMul"))),
            (2, "g"),
            (5, weights),
            (11, onnx_tensor("x", "n", 4)),
            (12, onnx_tensor("y", "n", 2)),
        )
    else:
        graph = message(
            (1, message((1, "a"), (1, "b"), (2, "y"), (4, "Add"))),
            (2, "g"),
            (11, onnx_tensor("a", "n", 2)),
            (11, onnx_tensor("b", "n", 2)),
            (12, onnx_tensor("y", "n", 2)),
        )
    (path / "model.onnx").write_bytes(message((1, 8), (7, graph), (8, message((2, 13)))))
    return path


async def test_onnx_with_one_input_is_batched(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    server = await Server(tmp_path).add(open_model("m", onnx_model(tmp_path / "m"), FormatOptions()))
    assert await server.post("/v1/models/m:predict", {"instances": [[1, 0, 0, 1]]}) == (200, {"predictions": [[6.0, 8.0]]})
    body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP64", "data": [0, 1, 0, 0]}]}
    status, answer = await server.post("/v2/models/m/infer", body)
    assert (status, answer["outputs"][0]) == (
        200,
        {"name": "y", "shape": [1, 2], "datatype": "FP32", "parameters": None, "data": [2.0, 3.0]},
    )
    status, metadata = await server.get("/v2/models/m")
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert (await server.post("/v1/models/m:predict", {"instances": [[1, 2]]}))[0] == 400
    assert (await server.post("/v1/models/m:predict", {"instances": ["x"]}))[0] == 400


async def test_onnx_with_several_inputs(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    server = await Server(tmp_path).add(open_model("m", onnx_model(tmp_path / "m", 2), FormatOptions()))
    tensors = [{"name": name, "shape": [1, 2], "datatype": "FP32", "data": data} for name, data in (("b", [1, 2]), ("a", [10, 20]))]
    status, answer = await server.post("/v2/models/m/infer", {"inputs": tensors})
    assert (status, answer["outputs"][0]["data"]) == (200, [11.0, 22.0])
    assert await server.post("/v1/models/m:predict", {"inputs": {"a": [[1, 1]], "b": [[2, 2]]}}) == (200, {"predictions": [[3.0, 3.0]]})
    status, answer = await server.post("/v2/models/m/infer", {"inputs": tensors[:1]})
    assert (status, answer["error"]) == (400, "inputs: input 'a' is missing; the model takes a, b")


def test_a_broken_onnx_file_says_so(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "model.onnx").write_bytes(b"nonsense")
    with pytest.raises(CannotLoad, match=r"model\.onnx cannot be loaded by onnxruntime"):
        open_model("m", tmp_path, FormatOptions()).load()


@pytest.mark.parametrize(("files", "part"), [
    ({}, "no known model file in m: it holds nothing"), ({"readme.md": b""}, "no known model file in m: it holds readme.md"),
    ({"a.joblib": b"", "b.pkl": b""}, "more than one model file in m: a.joblib, b.pkl")])
def test_a_folder_holds_exactly_one_model(tmp_path: Path, files: dict[str, bytes], part: str) -> None:
    (tmp_path / "m").mkdir()
    for name, content in files.items():
        (tmp_path / "m" / name).write_bytes(content)
    with pytest.raises(CannotLoad, match=part):
        model_file(tmp_path / "m")


def test_the_framework_is_told_by_suffix_and_first_bytes(tmp_path: Path) -> None:
    for name, content, framework in (
        ("a.joblib", b"", "sklearn"),
        ("a.bst", b"tree\nversion=v4", "lightgbm"),
        ("a.bst", b"{L\0", "xgboost"),
        ("a.onnx", b"", "onnx"),
    ):
        (tmp_path / name).write_bytes(content)
        assert framework_of(tmp_path / name) == framework


def test_another_version_of_scikit_learn_is_named_with_the_way_out() -> None:
    sentence = _why(Path("model.joblib"), "0.20.3", AttributeError("no attribute '_old'"))
    assert sentence.startswith("model.joblib was saved by scikit-learn 0.20.3 and cannot be loaded by ")
    assert sentence.endswith("pip install scikit-learn==0.20.3, or save the model again")
    assert "needs the Python module mylib" in _why(Path("m.pkl"), "1.0", ModuleNotFoundError("no", name="mylib"))


def test_a_file_of_an_old_scikit_learn_says_which_one_would_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As 0.20 wrote them: by a module that is long gone."""
    old = type("LogisticRegression", (), {"__module__": "sklearn.linear_model.logistic"})
    monkeypatch.setitem(sys.modules, "sklearn.linear_model.logistic", SimpleNamespace(LogisticRegression=old))
    model = old()
    vars(model).update(C=1.0, _sklearn_version="0.20.3")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model, 2))
    monkeypatch.undo()
    with pytest.raises(CannotLoad, match=r"saved by scikit-learn 0\.20\.3 and cannot be loaded by \d.*pip install scikit-learn==0\.20\.3"):
        open_model("m", tmp_path, FormatOptions()).load()


def test_rules_for_pickles(tmp_path: Path) -> None:
    known, other = (
        models.save(models.classifier(), tmp_path / "a"),
        models.save(neighbors.KNeighborsClassifier().fit(*models.iris()), tmp_path / "b"),
    )
    for path, rule, read_by in (
        (known, PickleRule.KNOWN, "own arithmetic"),
        (known, PickleRule.ANY, "own arithmetic"),
        (other, PickleRule.ANY, "pickle"),
    ):
        model = SklearnModel("m", path, rule)
        assert model.load()
        assert model.read_by == read_by
    for path, rule in ((other, PickleRule.KNOWN), (known, PickleRule.NEVER)):
        with pytest.raises(CannotLoad):
            SklearnModel("m", path, rule).load()


async def test_skops_is_read_whatever_the_rule_for_pickles(tmp_path: Path) -> None:
    skops_io = pytest.importorskip("skops.io")
    skops_io.dump(models.classifier(), tmp_path / "model.skops")
    server = await Server(tmp_path).add(open_model("m", tmp_path, FormatOptions(pickle="never")))
    assert await server.post("/v1/models/m:predict", {"instances": ROWS}) == (200, {"predictions": [1, 1]})
    assert server.repository.get("m").read_by == "skops"


def test_skops_files_that_are_not_trusted_or_not_readable_say_so(tmp_path: Path) -> None:
    skops_io = pytest.importorskip("skops.io")
    skops_io.dump(preprocessing.FunctionTransformer(models.classifier), tmp_path / "model.skops")
    with pytest.raises(CannotLoad, match=r"holds types that skops does not trust: .*models\.classifier"):
        open_model("m", tmp_path, FormatOptions()).load()
    (tmp_path / "model.skops").write_bytes(b"nonsense")
    with pytest.raises(CannotLoad, match=r"model\.skops cannot be loaded: BadZipFile"):
        open_model("m", tmp_path, FormatOptions()).load()


async def test_probabilities_by_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREDICT_PROBA", "true")
    model = linear_model.LogisticRegression(max_iter=300).fit(*models.iris())
    server = await Server(tmp_path).add(SklearnModel("m", models.save(model, tmp_path / "m")))
    _, answer = await server.post("/v1/models/m:predict", {"instances": ROWS})
    np.testing.assert_allclose(answer["predictions"], model.predict_proba(np.array(ROWS)))


NAMED = [dict(zip("abcd", row, strict=True)) for row in ROWS]


async def test_rows_by_column_name(tmp_path: Path) -> None:
    model = linear_model.LogisticRegression(max_iter=300).fit(*models.iris())
    model.feature_names_in_ = np.array(list("abcd"), dtype=object)
    server = await Server(tmp_path).add(SklearnModel("m", models.save(model, tmp_path / "m")))
    shuffled = [{name: row[name] for name in "dbca"} for row in NAMED]
    assert await server.post("/v1/models/m:predict", {"instances": shuffled}) == (200, {"predictions": [1, 1]})
    columns = {name: [row[name] for row in NAMED] for name in "abcd"}
    assert await server.post("/v1/models/m:predict", {"instances": [columns]}) == (200, {"predictions": [1, 1]})
    status, answer = await server.post("/v1/models/m:predict", {"instances": [{"a": 1, "b": 2, "c": 3}]})
    assert (status, answer["error"]) == (400, "instances[0]: column 'd' is missing")


async def test_pipelines_over_named_columns_get_a_frame(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"colour": ["red", "blue", "red", "blue"], "size": [1.0, 2.0, 3.0, 4.0]})
    columns = compose.make_column_transformer((preprocessing.OneHotEncoder(), ["colour"]), remainder="passthrough")
    from sklearn.pipeline import make_pipeline
    model = make_pipeline(columns, linear_model.LinearRegression()).fit(frame, [1.0, 2.0, 3.0, 4.0])
    server = await Server(tmp_path).add(SklearnModel("m", models.save(model, tmp_path / "m")))
    status, answer = await server.post("/v1/models/m:predict", {"instances": [{"colour": "red", "size": 3.0}]})
    assert (status, round(answer["predictions"][0], 6)) == (200, 3.0)
