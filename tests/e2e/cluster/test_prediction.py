"""The promise: the same YAML as in production gives a prediction, from a process whose command came from the image."""
import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.e2e.cluster.one_machine import Json, OneMachine, eventually, is_ready

FLOWER = [[6.8, 2.8, 4.8, 1.4]]
ISVC = "/apis/serving.kserve.io/v1beta1/namespaces/default/inferenceservices"
NAME = "iris-e2e"
LABEL = f"serving.kserve.io/inferenceservice={NAME}"


def service(uri: str, name: str = NAME, **predictor: Any) -> Json:
    model = {"modelFormat": {"name": "sklearn"}, "storageUri": uri}
    return {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": name},
            "spec": {"predictor": {"model": model, **predictor}}}


@pytest.fixture(scope="module")
def iris(cluster: OneMachine, model_url: str) -> Iterator[OneMachine]:
    cluster.apply(service(f"{model_url}/iris/model.joblib", minReplicas=1))
    eventually("the service is ready", lambda: is_ready(cluster.get(f"{ISVC}/{NAME}")))
    yield cluster
    cluster.delete(f"{ISVC}/{NAME}")
    eventually("its pods are gone", lambda: not cluster.pods(LABEL))


def predicted(machine: OneMachine) -> list[int] | None:
    answer = machine.predict(NAME, FLOWER)
    return answer.json()["predictions"] if answer.ok else None


def serving_processes(machine: OneMachine) -> set[int]:
    """Model servers of the service, found by their command line among the cluster's processes."""
    found = set()
    for pid in machine.processes():
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
        if b"modelserver" in words and any(NAME.encode() in word for word in words):
            found.add(pid)
    return found


def test_a_prediction_crosses_the_gateway(iris: OneMachine) -> None:
    assert predicted(iris) == [1]
    host = f"{NAME}-default.localhost"
    url = f"{iris.state['gateway']}/v1/models/{NAME}:predict"
    by_host = requests.post(url, json={"instances": FLOWER}, headers={"Host": host}, timeout=10)
    assert by_host.json() == {"predictions": [1]}
    assert len(serving_processes(iris)) == 1


def test_every_printed_url_works(iris: OneMachine, tmp_path: Path) -> None:
    """What a status and the verbs tell works as it is, from Python, from curl, and the way KServe's pages use it."""
    status = iris.get(f"{ISVC}/{NAME}")["status"]
    body = json.dumps({"instances": FLOWER})
    file = tmp_path / "request.json"
    file.write_text(body)
    told = (status["url"], status["components"]["predictor"]["url"])
    curls = [["curl", "-sS", f"{base}/v1/models/{NAME}:predict", "-d", body] for base in told]
    host = status["url"].split("/")[2]   # cut -d "/" -f 3
    curls.append(["curl", "-sS", "-H", f"Host: {host}", f"{iris.state['gateway']}/v1/models/{NAME}:predict", "-d", body])
    printed = iris.cli("predict", NAME, "-d", str(file)).stderr.strip().removeprefix("$ ")
    curls.append(shlex.split(printed))
    assert status["url"] in iris.cli("get", "isvc", NAME).stdout
    for words in curls:
        if shutil.which("curl"):
            done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False, env={"PATH": os.environ["PATH"]})
            assert done.stdout == '{"predictions":[1]}', (words, done)
    with urllib.request.urlopen(f"{status['url']}/v1/models/{NAME}", timeout=10) as answer:
        assert json.load(answer)["ready"] is True
    explained = iris.cli("explain", f"isvc/{NAME}").stdout
    assert "kserve-sklearnserver" in explained


def test_a_stopped_process_is_missed_and_comes_back(iris: OneMachine) -> None:
    victim = serving_processes(iris).pop()
    os.kill(victim, signal.SIGKILL)
    eventually("the gateway says 503", lambda: iris.predict(NAME, FLOWER).status_code == 503)
    eventually("the service recovers", lambda: predicted(iris) == [1])
    assert victim not in serving_processes(iris)
    status = iris.pods(LABEL)[0]["status"]["containerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 137


def test_two_replicas_both_answer(iris: OneMachine) -> None:
    iris.patch(f"{ISVC}/{NAME}", {"spec": {"predictor": {"minReplicas": 2, "maxReplicas": 2}}})
    eventually("two pods are ready", lambda: sum(map(is_ready, iris.pods(LABEL))) == 2)
    addresses = {pod["status"]["podIP"] for pod in iris.pods(LABEL)}
    assert len(addresses) == 2
    assert len(serving_processes(iris)) == 2
    before = {pid: _requests_seen(pid) for pid in serving_processes(iris)}
    for _ in range(10):
        assert predicted(iris) == [1]
    assert all(_requests_seen(pid) > before[pid] for pid in before), "one of the two got nothing"


def _requests_seen(pid: int) -> int:
    """Bytes that a process has read: grows with every request it answers."""
    with open(f"/proc/{pid}/io") as file:
        return int(next(line for line in file if line.startswith("rchar")).split()[1])


def test_no_request_fails_while_the_model_changes(iris: OneMachine, model_url: str) -> None:
    with _asking(iris) as answers:
        spec = {"spec": {"predictor": {"model": {"storageUri": f"{model_url}/shuffled/model.joblib"}}}}
        iris.patch(f"{ISVC}/{NAME}", spec)
        eventually("the other model answers", lambda: predicted(iris) == [2])
        eventually("the old pods are gone", lambda: len(iris.pods(LABEL)) == 2)
        time.sleep(1)
    assert {code for code, _ in answers} == {200}, [answer for answer in answers if answer[0] != 200][:5]
    assert {str(value) for _, value in answers} == {"[1]", "[2]"}


@contextmanager
def _asking(machine: OneMachine) -> Iterator[list[tuple[int, Any]]]:
    """Keep asking from two clients, each on a connection it keeps open."""
    answers: list[tuple[int, Any]] = []
    stop = threading.Event()
    url = f"{machine.state['gateway']}/serving/default/{NAME}/v1/models/{NAME}:predict"

    def ask() -> None:
        with requests.Session() as session:
            session.trust_env = False
            while not stop.is_set():
                answer = session.post(url, json={"instances": FLOWER}, timeout=20)
                answers.append((answer.status_code, answer.json()["predictions"] if answer.ok else answer.text))
                time.sleep(0.01)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        stop.set()
        for thread in threads:
            thread.join()
