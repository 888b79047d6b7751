"""`make demo`: a cluster, a model, a prediction, on this machine and nowhere else.

Everything lies in a temporary folder and listens on loopback only; the end (also by Ctrl-C, at any moment) leaves no process,
port or file behind. Every step is a command that works when typed by hand; this file only types them.
"""
import json
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVEPLANE = [sys.executable, "-m", "serveplane.cli.main"]
PATIENCE = 240.0


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="serveplane-demo-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    try:
        return demo(folder / "cluster", began)
    except KeyboardInterrupt:
        print("\nInterrupted; cleaning up.")
        return 130
    except Failed as problem:
        print(f"\nThe demo failed: {problem}", file=sys.stderr)
        tell_logs(folder / "cluster")
        return 1
    finally:
        clean_up(folder)


def demo(data: Path, began: float) -> int:
    print("A one-machine Kubernetes in a temporary folder; nothing is downloaded from here on.\n")
    run(data, "up", "--detach", quiet=True)
    state = json.loads((data / "state.json").read_text())
    print(f"API server {state['api']}, gateway {state['gateway']}\n")
    run(data, "apply", "-f", "examples/train-iris.yaml")
    wait_until("the model is trained", lambda: condition(data, "job/train-iris", "Complete") == "True")
    run(data, "apply", "-f", "examples/sklearn-iris.yaml")
    applied = time.monotonic()
    wait_until("the service is ready", lambda: condition(data, "isvc/sklearn-iris", "Ready") == "True")
    ready = time.monotonic()
    run(data, "get", "isvc")
    run(data, "predict", "sklearn-iris", "-d", "examples/iris-input.json")
    print(f"Ready {ready - applied:.1f} s after apply; {time.monotonic() - began:.1f} s in all. Stopping and cleaning up.")
    return 0


class Failed(Exception):
    """A step that did not do what it should."""


def run(data: Path, *words: str, quiet: bool = False) -> None:
    """Run one command and show it as a user would type it."""
    print(f"$ {shlex.join(['serveplane', *words])}", flush=True)
    done = subprocess.run(command(data, *words), cwd=ROOT, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Failed(f"`serveplane {words[0]}` ended with {done.returncode}: {(done.stdout + done.stderr).strip()}")
    if not quiet:
        print(done.stdout)


def command(data: Path, *words: str) -> list[str]:
    return [*SERVEPLANE, words[0], "--data", str(data), *words[1:]]


def condition(data: Path, target: str, kind: str) -> str:
    """The status of one condition of an object, as `kubectl get -o json` gives it."""
    done = subprocess.run(command(data, "get", target, "-o", "json"), cwd=ROOT, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        return ""
    entries = (json.loads(done.stdout).get("status") or {}).get("conditions") or []
    found = {entry["type"]: entry for entry in entries}
    if found.get("Failed", {}).get("status") == "True":
        raise Failed(f"{target}: {found['Failed'].get('message')}")
    return str(found.get(kind, {}).get("status", ""))


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > PATIENCE:
            raise Failed(f"{what}: not after {PATIENCE:.0f} s")
        time.sleep(0.2)
    print(f"  ... {what}\n")


def tell_logs(data: Path) -> None:
    for log in [data / "up.log", data / "node.log", *sorted((data / "node" / "logs").glob("*/*/*.log"))]:
        if log.exists():
            print(f"--- {log.name}: {log.parent}", *log.read_text(errors="replace").splitlines()[-15:], sep="\n",
                  file=sys.stderr)


def clean_up(folder: Path) -> None:
    """Stop the cluster if there is one, whatever state it is in, then remove the folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if (folder / "cluster").is_dir():
        subprocess.run([*SERVEPLANE, "down", "--data", str(folder / "cluster")], cwd=ROOT, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        print(f"{folder} could not be removed", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
