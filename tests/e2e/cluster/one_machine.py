"""A one-machine cluster for tests: started by the command a user types, spoken to over its own HTTPS."""
import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests
import yaml

from tests.kit.processes import marked

Json = dict[str, Any]
SERVEPLANE = [sys.executable, "-m", "serveplane.cli.main"]
PATIENCE = 150.0


def eventually(what: str, check: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Wait until the check gives something true; what it gave last is in the failure."""
    deadline, last = time.monotonic() + patience, None
    while time.monotonic() < deadline:
        try:
            last = check()
        except (requests.RequestException, KeyError, IndexError, AssertionError) as problem:
            last = problem
        else:
            if last:
                return last
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {patience:.0f} s; last: {str(last)[:2000]}")


class OneMachine:
    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None
        self._session: requests.Session | None = None

    # ---- life

    def up(self, *more: str) -> None:
        """In the foreground of a process of ours, so that a signal can be sent to it."""
        self.output = self.data.with_suffix(".out")
        with self.output.open("wb") as out:
            self.process = subprocess.Popen([*SERVEPLANE, "up", "--data", str(self.data), *self.options, *more],
                                            stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        eventually("the cluster is ready", self._is_ready, 240)
        self._session = None

    def _is_ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(f"up ended with {self.process.returncode}: {self.output.read_text()}")
        return "The cluster is ready" in self.output.read_text()

    def stop(self, number: int = signal.SIGINT) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(120)

    @property
    def state(self) -> Json:
        state: Json = json.loads((self.data / "state.json").read_text())
        return state

    def processes(self) -> list[int]:
        """Every process that carries this cluster's mark."""
        return marked(self.data / "node")

    # ---- talking to it

    def cli(self, command: str, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([*SERVEPLANE, command, "--data", str(self.data), *words], capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL, timeout=120)
        if check and done.returncode:
            raise AssertionError(f"serveplane {command} {' '.join(words)}: {done.stdout}{done.stderr}")
        return done

    @property
    def session(self) -> requests.Session:
        if self._session is None:
            config = yaml.safe_load((self.data / "kubeconfig").read_text())
            user = config["users"][0]["user"]
            files = {name: self.data.parent / f"{self.data.name}-{name}.pem" for name in ("crt", "key", "ca")}
            for name, text in (("crt", user["client-certificate-data"]), ("key", user["client-key-data"]),
                               ("ca", config["clusters"][0]["cluster"]["certificate-authority-data"])):
                files[name].write_bytes(base64.b64decode(text))
                files[name].chmod(0o600)
            self._session = requests.Session()
            self._session.trust_env = False
            self._session.cert = (str(files["crt"]), str(files["key"]))
            self._session.verify = str(files["ca"])
        return self._session

    def get(self, path: str) -> Json:
        answer = self.session.get(self.state["api"] + path, timeout=10)
        answer.raise_for_status()
        body: Json = answer.json()
        return body

    def patch(self, path: str, body: Json) -> Json:
        answer = self.session.patch(self.state["api"] + path, data=json.dumps(body), timeout=10,
                                    headers={"Content-Type": "application/merge-patch+json"})
        assert answer.ok, answer.text
        changed: Json = answer.json()
        return changed

    def delete(self, path: str) -> None:
        self.session.delete(self.state["api"] + path, timeout=10)

    def apply(self, *objects: Json) -> None:
        file = self.data.parent / f"apply-{os.getpid()}.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        self.cli("apply", "-f", str(file))

    def pods(self, labels: str, namespace: str = "default") -> list[Json]:
        items: list[Json] = self.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={labels}")["items"]
        return items

    def predict(self, name: str, instances: list[list[float]], timeout: float = 10) -> requests.Response:
        url = f"{self.state['gateway']}/serving/default/{name}/v1/models/{name}:predict"
        return requests.post(url, json={"instances": instances}, timeout=timeout, proxies={"http": "", "https": ""})


def is_ready(obj: Json, kind: str = "Ready") -> bool:
    return any(entry["type"] == kind and entry["status"] == "True"
               for entry in (obj.get("status") or {}).get("conditions") or ())
