"""What a review costs: CPU of the InferenceService defaulter, its validator and the pod mutator, from request bytes to answer bytes.

usage: python -m bench.admission [--reviews N] [--busy]

With --busy the webhook process of a manager answers over TLS while the manager itself plans services without a pause, as one does
that has much to reconcile; the 99th percentile is set beside that of an idle manager. Rounds alternate; medians are told.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from serveplane.api.admission import Context, mutate, validate
from serveplane.api.inferenceservice import inference_service
from serveplane.cli.offline import surroundings
from serveplane.kube.admission import AdmissionRequest, Handler, answer_review, mutating, parse_review, validating
from serveplane.render.pods.mutate import mutated

Json = dict[str, Any]
LIMIT_MS = 0.5
LIMIT_RATIO = 1.2
ROUNDS = 5
SERVICE: Json = {
    "apiVersion": "serving.kserve.io/v1beta1",
    "kind": "InferenceService",
    "metadata": {
        "name": "iris",
        "namespace": "default",
        "labels": {"team": "vision"},
        "annotations": {"acme/owner": "me"},
    },
    "spec": {
        "predictor": {
            "minReplicas": 1,
            "maxReplicas": 4,
            "serviceAccountName": "models",
            "logger": {"mode": "all", "url": "http://message-dumper.default/"},
            "model": {
                "modelFormat": {"name": "sklearn"},
                "storageUri": "gs://acme-models/sklearn/iris",
                "env": [{"name": f"SETTING_{number}", "value": str(number)} for number in range(8)],
                "resources": {"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "1", "memory": "2Gi"}},
            },
        },
        "transformer": {"containers": [{"name": "kserve-container", "image": "acme/transformer:1"}]},
    },
}
POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "iris-predictor-abc",
        "namespace": "default",
        "labels": {
            "serving.kserve.io/inferenceservice": "iris",
            "component": "predictor",
            "app": "isvc.iris-predictor",
        },
        "annotations": {
            "internal.serving.kserve.io/storage-initializer-sourceuri": "gs://acme-models/sklearn/iris",
            "internal.serving.kserve.io/logger": "true",
            "internal.serving.kserve.io/logger-mode": "all",
        },
    },
    "spec": {
        "containers": [
            {"name": "kserve-container", "image": "kserve/sklearnserver:latest", "args": ["--model_name=iris"]}
        ]
    },
}


def handlers() -> dict[str, tuple[Handler, Json]]:
    """Every handler under its path, with the object that is sent to it."""
    around = surroundings(argparse.Namespace(given=[], namespace="default", settings=None), [])
    context: Context = around.context()
    stored = mutate(SERVICE, context)
    service, facts = inference_service(stored), around.facts("default")

    def pod(request: AdmissionRequest) -> Json:
        return mutated(request.object, request.namespace, service, facts)

    return {
        "/default": (mutating(lambda request: mutate(request.object, context)), SERVICE),
        "/validate": (validating(lambda request: validate(request.object, request.old or None, context)), stored),
        "/mutate-pods": (mutating(pod), POD),
    }


def review(obj: Json) -> bytes:
    group, _, version = obj["apiVersion"].rpartition("/")
    request = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "resource": {"group": group, "version": version, "resource": obj["kind"].lower() + "s"},
        "name": obj["metadata"]["name"],
        "namespace": "default",
        "object": obj,
        "userInfo": {"username": "bench"},
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def cpu_per_review(handler: Handler, obj: Json, count: int) -> float:
    """Milliseconds of this process for one review, reading and writing included."""
    body = review(obj)

    async def answer() -> None:
        for _ in range(count):
            version, request = parse_review(body)
            decision = handler(request)
            answer_review(version, request.uid, decision if not hasattr(decision, "__await__") else await decision)

    asyncio.run(answer())
    started = time.process_time()
    asyncio.run(answer())
    return (time.process_time() - started) / count * 1000


CLIENT = """
import http.client, ssl, sys, time
port, count, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
body = sys.stdin.buffer.read()
context = ssl._create_unverified_context()
line = http.client.HTTPSConnection("127.0.0.1", port, context=context)
took = []
for number in range(count + 20):
    started = time.perf_counter()
    line.request("POST", path, body, {"Content-Type": "application/json"})
    answer = line.getresponse()
    answer.read()
    took.append(time.perf_counter() - started)
    assert answer.status == 200, answer.status
    time.sleep(0.002)
print(sorted(took[20:])[int(count * 0.99)] * 1000, sorted(took[20:])[count // 2] * 1000)
"""


def latencies(count: int) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Rounds of (99th percentile, median) in milliseconds of the validator over TLS, seen by a third process: idle, and busy."""
    command = [sys.executable, str(Path(__file__).with_name("admission_manager.py"))]
    idle, busy = [], []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as manager:
        assert manager.stdin
        assert manager.stdout
        port = manager.stdout.readline().strip()
        for _ in range(ROUNDS):
            for word, rounds in (("idle", idle), ("busy", busy)):
                manager.stdin.write(f"{word}\n")
                manager.stdin.flush()
                time.sleep(0.2)
                rounds.append(_round(port, count))
        manager.stdin.close()
    return idle, busy


def _round(port: str, count: int) -> tuple[float, float]:
    """Reviews one after the other, by a client of its own."""
    command = [sys.executable, "-c", CLIENT, port, str(count), "/validate"]
    done = subprocess.run(command, input=review(mutate(SERVICE)), capture_output=True, check=True)
    p99, median = (float(word) for word in done.stdout.split())
    return p99, median


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reviews", type=int, default=2000)
    parser.add_argument("--busy", action="store_true")
    args = parser.parse_args()
    slow = 0
    for path, (handler, obj) in handlers().items():
        took = statistics.median(cpu_per_review(handler, obj, args.reviews) for _ in range(3))
        slow += took > LIMIT_MS
        print(f"{path:<14}{took:7.3f} ms CPU per review   (limit {LIMIT_MS})")
    if args.busy:
        idle, busy = latencies(args.reviews)
        (quiet, usual), (loaded, later) = (
            tuple(statistics.median(values) for values in zip(*rounds, strict=True)) for rounds in (idle, busy))
        slow += loaded > LIMIT_RATIO * quiet
        print(f"p99 over TLS: idle {quiet:.2f} ms, while the manager computes {loaded:.2f} ms ({loaded / quiet:.2f}x, "
              f"limit {LIMIT_RATIO}); median {usual:.2f} and {later:.2f} ms")
        for name, rounds in (("idle", idle), ("busy", busy)):
            print(f"  {name}: p99 {', '.join(f'{p99:.2f}' for p99, _ in sorted(rounds))}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
