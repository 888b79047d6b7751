"""Kill -9 of the whole cluster while it serves, then `up` again: same objects, same answers, no orphan."""
import signal
import threading
from pathlib import Path

import requests

from tests.e2e.cluster.one_machine import OneMachine, eventually, is_ready

FLOWER = [[6.8, 2.8, 4.8, 1.4]]
ISVC = "/apis/serving.kserve.io/v1beta1/namespaces/default/inferenceservices/iris"


def test_kill_9_under_load(tmp_path: Path, model_url: str) -> None:
    machine = OneMachine(tmp_path / "data")
    machine.up()
    stop = threading.Event()
    try:
        model = {"modelFormat": {"name": "sklearn"}, "storageUri": f"{model_url}/iris/model.joblib"}
        machine.apply({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "iris"},
                       "spec": {"predictor": {"model": model}}})
        eventually("it is ready", lambda: is_ready(machine.get(ISVC)))
        before, old = machine.get(ISVC), set(machine.processes())
        gateway = machine.state["gateway"]
        load = threading.Thread(target=_ask, args=(gateway, stop))
        load.start()
        eventually("it answers", lambda: machine.predict("iris", FLOWER).ok)
        machine.stop(signal.SIGKILL)
        machine.up()
        eventually("it answers again", lambda: machine.predict("iris", FLOWER).json() == {"predictions": [1]})
        after = machine.get(ISVC)
        assert machine.state["gateway"] == gateway
        assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
        assert not old & set(machine.processes()), "an old process is still there"
        eventually("it is ready again", lambda: is_ready(machine.get(ISVC)))
    finally:
        stop.set()
        if machine.process is not None and machine.process.poll() is None:
            machine.stop()
    eventually("no process is left", lambda: not machine.processes(), 30)


def _ask(gateway: str, stop: threading.Event) -> None:
    while not stop.wait(0.02):
        try:
            requests.post(f"{gateway}/serving/default/iris/v1/models/iris:predict", json={"instances": FLOWER}, timeout=5)
        except requests.RequestException:
            continue
