"""One cluster for all tests that leave it as they found it, and a web server with models."""
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.one_machine import OneMachine


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneMachine]:
    machine = OneMachine(tmp_path_factory.mktemp("one machine") / "data")   # the space is meant
    try:
        machine.up()
        yield machine
    finally:
        if machine.process is not None and machine.process.poll() is None:
            machine.stop()
    assert machine.processes() == [], "processes were left behind"


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of the same flowers: one that learned them, one that learned shuffled labels."""
    joblib = pytest.importorskip("joblib", reason="scikit-learn is not installed")
    from sklearn import datasets, svm
    folder = tmp_path_factory.mktemp("models")
    iris = datasets.load_iris()
    for name, labels in (("iris", iris.target), ("shuffled", (iris.target + 1) % 3)):
        (folder / name).mkdir()
        joblib.dump(svm.SVC(gamma="scale").fit(iris.data, labels), folder / name / "model.joblib")
    return folder


@pytest.fixture(scope="session")
def model_url(models: Path) -> Iterator[str]:
    """Where a pod downloads the models from."""
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(models))  # type: ignore[arg-type]

        def log_message(self, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
