"""What a review costs: CPU of the InferenceService defaulter, its validator and the pod mutator, from request bytes
to answer bytes.

usage: python -m bench.admission [--reviews N] [--busy]

With --busy the webhook server answers over TLS while another thread of the same process plans services without a
pause, as a
manager does that has much to reconcile; the 99th percentile is set beside that of an idle process.
"""

import argparse
import asyncio
import copy
import datetime
import json
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from serveplane.api.admission import Context, mutate, validate
from serveplane.api.inferenceservice import inference_service
from serveplane.cli.offline import surroundings
from serveplane.kube.admission import AdmissionRequest, Handler, answer_review, mutating, parse_review, validating
from serveplane.kube.keypairs import authority, load_into, server_pair
from serveplane.kube.webhook import WebhookServer
from serveplane.render.pods.mutate import mutated

Json = dict[str, Any]
LIMIT_MS = 0.5
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
            answer_review(version, request, decision if not hasattr(decision, "__await__") else await decision)

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


async def latency(count: int, burn: Callable[[], object] | None) -> tuple[float, float]:
    """99th percentile and median in milliseconds of the validator over TLS, seen by another process."""
    server = WebhookServer("127.0.0.1", 0)
    for path, (handler, _) in handlers().items():
        server.admit(path, handler)
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    load_into(server.tls, server_pair(authority("bench", now - day, 3 * day), ["bench"], now - day, 2 * day))
    server.tls.verify_mode = ssl.CERT_NONE
    await server.start()
    stop = threading.Event()
    worker = threading.Thread(target=lambda: _burn(burn, stop)) if burn else None
    if worker:
        worker.start()
    command = [sys.executable, "-c", CLIENT, str(server.port), str(count), "/validate"]
    done = await asyncio.to_thread(
        subprocess.run, command, input=review(mutate(SERVICE)), capture_output=True, check=True
    )
    stop.set()
    if worker:
        worker.join()
    await server.stop()
    p99, median = (float(word) for word in done.stdout.split())
    return p99, median


def _burn(work: Callable[[], object], stop: threading.Event) -> None:
    while not stop.is_set():
        work()


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
        context = Context()
        idle = asyncio.run(latency(args.reviews, None))
        busy = asyncio.run(
            latency(args.reviews, lambda: validate(mutate(copy.deepcopy(SERVICE), context), None, context))
        )
        print(
            f"p99 over TLS: idle {idle[0]:.2f} ms, while planning {busy[0]:.2f} ms ({busy[0] / idle[0]:.2f}x); "
            f"median {idle[1]:.2f} and {busy[1]:.2f} ms"
        )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
