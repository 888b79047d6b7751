"""How long from nothing to a prediction, and what the system costs while idle.

    python bench/first_prediction.py [--runs 3] [--gateway]

Every run is a fresh data folder: `serveplane up`, a model trained beforehand, `apply` of the iris service, the first 200 through the
gateway. The split comes from what `up` prints and from the objects' own timestamps. `--gateway` also compares the gateway with
an aiohttp proxy doing the same, in the same run. Run it on an idle machine.
"""
import argparse
import asyncio
import itertools
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.processes import cpu_seconds, resident_bytes

from tests.kit.processes import marked

ROOT = Path(__file__).resolve().parent.parent
SERVEPLANE = [sys.executable, "-m", "serveplane.cli.main"]
STEP = re.compile(r"^\s+([0-9.]+) s  (.*)$", re.MULTILINE)
BODY = json.dumps({"instances": [[6.8, 2.8, 4.8, 1.4]]}).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="0 for nothing but --gateway")
    parser.add_argument("--idle", type=float, default=20.0, help="seconds over which idle processor time is measured")
    parser.add_argument("--gateway", action="store_true", help="compare the gateway with an aiohttp proxy")
    args = parser.parse_args()
    runs = [one_run(args.idle if number == 0 else 0) for number in range(args.runs)]
    for name in runs[0] if runs else ():
        values = [run[name] for run in runs if name in run]
        print(f"{name:<46}{statistics.median(values):>10.2f}   of {', '.join(f'{value:.2f}' for value in values)}")
    if args.gateway:
        asyncio.run(compare_gateways())


def one_run(idle: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="serveplane-bench-") as name:
        data, out = Path(name) / "data", Path(name) / "out"
        model = train(Path(name))
        began = time.monotonic()
        with out.open("wb") as file:
            process = subprocess.Popen([*SERVEPLANE, "up", "--data", str(data)], stdout=file, stderr=subprocess.STDOUT)
        try:
            wait_for(lambda: "The cluster is ready" in out.read_text(), process)
            figures = {"up: until it says ready (wall clock), s": time.monotonic() - began, **steps(out.read_text())}
            if idle:
                figures |= idle_cost(data, process.pid, idle)
            figures |= first_answer(data, model, Path(name), process)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.wait(60)
            return figures | {"down: until every process is gone, s": time.monotonic() - began}
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def steps(text: str) -> dict[str, float]:
    found = {words: float(seconds) for seconds, words in STEP.findall(text)}
    return {"up: API server listens, s": next(value for words, value in found.items() if words.startswith("API server")),
            "up: node ready, s": next(value for words, value in found.items() if words.startswith("node is ready")),
            "up: manifests applied, s": next(value for words, value in found.items() if "installation applied" in words),
            "up: all programs ready, s": next(value for words, value in found.items() if words.endswith(" ready"))}


def first_answer(data: Path, model: Path, folder: Path, process: subprocess.Popen[bytes]) -> dict[str, float]:
    gateway = json.loads((data / "state.json").read_text())["gateway"]
    service = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "iris"},
               "spec": {"predictor": {"model": {"modelFormat": {"name": "sklearn"}, "storageUri": f"file://{model}"}}}}
    file = folder / "iris.json"
    file.write_text(json.dumps(service))
    began = time.monotonic()
    subprocess.run([*SERVEPLANE, "apply", "--data", str(data), "-f", str(file)], check=True, capture_output=True)
    applied = time.monotonic()
    wait_for(lambda: answers(f"{gateway}/serving/default/iris/v1/models/iris:predict"), process, pause=0.02)
    return {"apply: the command itself, s": applied - began, "apply: until the first 200, s": time.monotonic() - began}


def answers(url: str) -> bool:
    request = urllib.request.Request(url, BODY, {"Content-Type": "application/json"})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def train(folder: Path) -> Path:
    script = ("import sys, joblib; from sklearn import datasets, svm; iris = datasets.load_iris();"
              "joblib.dump(svm.SVC(gamma='scale').fit(iris.data, iris.target), sys.argv[1])")
    subprocess.run([sys.executable, "-c", script, str(folder / "model.joblib")], check=True)
    return folder / "model.joblib"


def wait_for(check: "object", process: subprocess.Popen[bytes], pause: float = 0.02) -> None:
    deadline = time.monotonic() + 120
    while not check():  # type: ignore[operator]
        if time.monotonic() > deadline or process.poll() is not None:
            raise SystemExit("the cluster did not get there")
        time.sleep(pause)


def idle_cost(data: Path, pid: int, seconds: float) -> dict[str, float]:
    """Processor time and memory of all processes of the cluster while nothing happens."""
    time.sleep(5)
    members = [pid, *marked(data / "node")]
    before = cpu_seconds(*members)
    time.sleep(seconds)
    used = cpu_seconds(*members) - before
    return {"idle: processor, % of a core": 100 * used / seconds,
            "idle: RSS of the whole system, MB": resident_bytes(*members) / 2**20}


# ---- the gateway against an aiohttp proxy

async def compare_gateways(requests: int = 12_000, connections: int = 16, rounds: int = 5) -> None:
    """Each proxy is a process of its own in front of the same origin, in alternating rounds; what counts is processor time per request.

    Once with one request that repeats, which the gate is about, and once with an id in every request, so that no two heads are alike.
    """
    origin = await started("origin", 0)
    spent: dict[tuple[str, str], list[float]] = {(name, load): [] for load in ("", ", ids") for name in ("gateway", "aiohttp")}
    for _ in range(rounds):
        for (name, load), costs in spent.items():
            costs.append(await cost(name, origin[1], requests, connections, alike=not load))
    origin[0].terminate()
    await origin[0].wait()
    for (name, load), costs in spent.items():
        print(f"{name} proxy{load + ': processor per request, µs':<{46 - len(name) - 6}}{statistics.median(costs):>10.0f}   "
              f"of {', '.join(f'{one:.0f}' for one in costs)}")
    ratio = statistics.median(spent["gateway", ""]) / statistics.median(spent["aiohttp", ""])
    print(f"{'gateway: part of the aiohttp proxy (at most 0.25)':<50}{ratio:>6.2f}")


async def cost(name: str, origin: int, requests: int, connections: int, *, alike: bool) -> float:
    """Microseconds of processor per request of a fresh proxy, once it is warm."""
    process, port = await started(name, origin)
    await load(port, 500, connections, alike)
    before = cpu_seconds(process.pid)
    await load(port, requests, connections, alike)
    used = cpu_seconds(process.pid) - before
    process.terminate()
    await process.wait()
    return 1e6 * used / requests


async def started(role: str, port: int) -> tuple[asyncio.subprocess.Process, int]:
    process = await asyncio.create_subprocess_exec(sys.executable, str(ROOT / "bench" / "gateway_roles.py"), role, str(port),
                                                   stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    return process, int(await process.stdout.readline())


async def load(port: int, requests: int, connections: int, alike: bool) -> None:
    from serveplane.http import Client
    ids = itertools.repeat(1) if alike else itertools.count()
    async with Client() as client:
        async def one(count: int) -> None:
            for _ in range(count):
                answer = await client.request("POST", f"http://127.0.0.1:{port}/v1/models/iris:predict", body=BODY * 20, headers={
                    "Host": "iris.example.com", "Content-Type": "application/json", "X-Request-Id": f"{next(ids):016x}"})
                await answer.read()
                assert answer.status == 200, answer.status
        await asyncio.gather(*(one(requests // connections) for _ in range(connections)))


if __name__ == "__main__":
    main()
