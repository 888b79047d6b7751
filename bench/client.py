"""Server-side applies through our client, lightkube and kubernetes_asyncio: requests per second and client CPU per request.

usage: python -m bench.client [COUNT] [--peers FOLDER]

    pip install --target FOLDER lightkube kubernetes_asyncio      (they are no dependencies of ours, so they live apart)

Every client applies COUNT (default 1000) Deployments of about 2 KB, 16 at a time, against the real API server of
testbed/, each in a process of its own on a fresh namespace. CPU is the client process's own, user and system, imports
and warm-up aside.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]
CLIENTS = ("serveplane", "lightkube", "kubernetes_asyncio")
AT_ONCE = 16
WARM_UP = 50
Apply = Callable[[Json], Awaitable[Any]]


def deployment(name: str, namespace: str) -> Json:
    """About what an InferenceService's predictor looks like."""
    labels = {"app": name, "serving.kserve.io/inferenceservice": name, "component": "predictor"}
    container = {
        "name": "kserve-container",
        "image": "kserve/sklearnserver:v0.20",
        "args": [f"--model_name={name}", "--model_dir=/mnt/models", "--http_port=8080"],
        "env": [{"name": f"SETTING_{n}", "value": f"value number {n}"} for n in range(12)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "1", "memory": "2Gi"}},
        "readinessProbe": {
            "tcpSocket": {"port": 8080},
            "periodSeconds": 10,
            "failureThreshold": 3,
            "timeoutSeconds": 1,
        },
        "volumeMounts": [{"name": "models", "mountPath": "/mnt/models", "readOnly": True}],
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": "models", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 300,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": {"n": "0"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


async def ours(kubeconfig: str) -> tuple[Apply, Callable[[], Awaitable[None]]]:
    from serveplane.kube import Client
    from serveplane.kube.config import load_config
    from serveplane.kube.http_transport import HttpTransport

    client = Client(HttpTransport(load_config(kubeconfig)))
    return lambda obj: client.apply(obj, "bench"), client.close


async def lightkubes(kubeconfig: str) -> tuple[Apply, Callable[[], Awaitable[None]]]:
    from lightkube import AsyncClient, KubeConfig
    from lightkube.resources.apps_v1 import Deployment

    client = AsyncClient(config=KubeConfig.from_file(kubeconfig), field_manager="bench")

    async def nothing() -> None: ...

    return lambda obj: client.apply(Deployment.from_dict(obj), force=True), nothing


async def asyncios(kubeconfig: str) -> tuple[Apply, Callable[[], Awaitable[None]]]:
    from kubernetes_asyncio import client as generated
    from kubernetes_asyncio import config

    await config.load_kube_config(kubeconfig)
    api = generated.ApiClient()
    apps = generated.AppsV1Api(api)

    def apply(obj: Json) -> Awaitable[Any]:
        metadata = obj["metadata"]
        return apps.patch_namespaced_deployment(
            metadata["name"],
            metadata["namespace"],
            obj,
            field_manager="bench",
            force=True,
            _content_type="application/apply-patch+yaml",
        )

    return apply, api.close


async def measured(which: str, kubeconfig: str, namespace: str, count: int) -> Json:
    apply, close = await {"serveplane": ours, "lightkube": lightkubes, "kubernetes_asyncio": asyncios}[which](
        kubeconfig
    )
    objects = [deployment(f"d{n}", namespace) for n in range(count + WARM_UP)]
    await each(apply, objects[:WARM_UP])
    cpu, wall = time.process_time(), time.perf_counter()
    await each(apply, objects[WARM_UP:])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    await close()
    return {
        "client": which,
        "requests/s": round(count / wall),
        "CPU ms/request": round(cpu / count * 1000, 3),
        "bytes": len(json.dumps(objects[0], separators=(",", ":"))),
    }


async def each(apply: Apply, objects: list[Json]) -> None:
    waiting = iter(objects)

    async def worker() -> None:
        for obj in waiting:
            await apply(obj)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=1000)
    parser.add_argument("--peers", default="", help="folder with lightkube and kubernetes_asyncio")
    parser.add_argument("--one", nargs=3, metavar=("CLIENT", "KUBECONFIG", "NAMESPACE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        from serveplane.http.loop import run  # all three on the same loop

        print(json.dumps(run(measured(*args.one, args.count))))
        return 0
    return compare(args.count, args.peers)


def compare(count: int, peers: str) -> int:
    from tests.kit.testbed import start_testbed

    bed = start_testbed()
    try:
        rows = [row for which in CLIENTS if (row := one(bed, which, count, peers))]
    finally:
        bed.stop()
    print(f"\n{count} applies of {rows[0]['bytes']} bytes, {AT_ONCE} at a time\n")
    print("| client | requests/s | client CPU per request |\n|---|---|---|")
    for row in rows:
        print(f"| {row['client']} | {row['requests/s']} | {row['CPU ms/request']:.2f} ms |")
    cheapest = min((row["CPU ms/request"] for row in rows[1:]), default=0)
    if cheapest:
        print(f"\nours costs {cheapest / rows[0]['CPU ms/request']:.1f} times less CPU than the cheaper of the others")
    return 0


def one(bed: Any, which: str, count: int, peers: str) -> Json | None:
    namespace = f"bench-{which.replace('_', '-')}"
    bed.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), "" if which == "serveplane" else peers]))
    command = [sys.executable, "-m", "bench.client", str(count), "--one", which, str(bed.kubeconfig), namespace]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        print(
            f"{which}: not measured ({last}); install it with pip install --target FOLDER and pass --peers FOLDER",
            file=sys.stderr,
        )
        return None
    row: Json = json.loads(done.stdout.splitlines()[-1])
    print(row, file=sys.stderr)
    return row


if __name__ == "__main__":
    sys.exit(main())
