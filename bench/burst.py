"""N InferenceServices at once: how long until all are Ready, and what that costs, beside the least that any controller could cost.

usage: python -m bench.burst [N …]          (default 200; each N twice: the floor, then our manager, on fresh control planes)
       python -m bench.burst --json FILE N
       python -m bench.burst --foreign 20000 N   (only our manager, beside that many ConfigMaps and Services of other people)

The floor is a bare script that server-side-applies the same five children and writes one status, with the same webhooks
answered by a server that allows everything. Both runs have the real API server, etcd and kube-controller-manager of
testbed/, pods that are ready at once, and this machine. Requests are counted in the API server's audit log. A namespace
gets 1,000 services at most.
"""
import argparse
import asyncio
import base64
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.processes import cpu_seconds, mapped_kilobytes, tree

from tests.kit.api import Api, condition, documents, install
from tests.kit.audit import AuditLog
from tests.kit.credentials import Authority
from tests.kit.installation import NAMESPACE, PROGRAMS, WEBHOOKS, Installation, Manager, shipped
from tests.kit.plugin import NEIGHBOURS
from tests.kit.processes import free_ports, start, stop
from tests.kit.testbed import Testbed, Unavailable, start_testbed

Json = dict[str, Any]
SERVICES, DEPLOYMENTS = "/apis/serving.kserve.io/v1beta1/{}inferenceservices", "/apis/apps/v1/deployments"
USERS = 32             # requests under way while the user creates the services
APPLYING = 16          # services that the floor script works on at a time
LIMIT = 1800.0
SHARING = 1000         # services in a namespace: kube-controller-manager looks through a whole one for each object in it
APART = {"events", "leases"}     # counted in rows of their own
# KServe v0.20's Go manager on the machine that the project was begun on (2 cores): seconds, requests, CPU ms, RSS MB.
KSERVE = {200: (31.9, 36.5, 37, 104), 1000: (259.0, 30.8, 52, 197)}


@dataclass
class Outcome:
    services: int
    created_seconds: float = 0.0
    ready_seconds: float = 0.0
    requests: dict[str, float] = field(default_factory=dict)      # "patch deployments" -> per service
    apart: dict[str, int] = field(default_factory=dict)           # events and leases, in all
    cpu_ms: float = 0.0                                           # of the manager, per service
    rss_mb: int = 0
    idle_requests: int = 0                                        # of the manager, in the seconds after

    @property
    def requests_per_service(self) -> float:
        return sum(self.requests.values())


def service(name: str) -> Json:
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}}
    model = {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://bucket/model", "resources": resources}
    return {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": name, "namespace": space(name)},
            "spec": {"predictor": {"model": model}}}


def space(name: str) -> str:
    return f"burst-{int(name.removeprefix('m')) // SHARING}"


def named(number: int) -> str:
    return f"m{number:05d}"


@asynccontextmanager
async def cluster(count: int) -> AsyncIterator[tuple[Testbed, Api]]:
    """A fresh control plane with the neighbours' definitions, our manifests without webhooks, and a played world."""
    bed = await asyncio.to_thread(start_testbed)
    world = start([sys.executable, "-m", "tests.kit.world", bed.kubeconfig], bed.folder / "world.log")
    try:
        async with Api(bed.kubeconfig, agent="burst") as api:
            await install(api, [definition for file in sorted(NEIGHBOURS.glob("*.yaml")) for definition in documents(file)])
            await Installation(bed).put(webhooks=False)
            for gateway in gateways():
                await api.apply(gateway)
            for namespace in sorted({space(named(number)) for number in range(count)}):
                await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            await asyncio.sleep(2)        # let the machine come to rest
            yield bed, api
    finally:
        stop(world)
        bed.stop()


def gateways() -> list[Json]:
    listener = {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}
    return [{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
             "metadata": {"name": "kserve-ingress-gateway", "namespace": NAMESPACE},
             "spec": {"gatewayClassName": "world", "listeners": [listener]}}]


async def measured(count: int, foreign: int = 0) -> Outcome:
    """Our manager, as installed."""
    async with cluster(count) as (bed, api):
        installation = Installation(bed)
        await _each(foreign, USERS, lambda name: _crowd(api, name))
        await installation.put(webhooks=True)
        manager = installation.run("kserve", "--leader-elect")
        try:
            await asyncio.to_thread(manager.await_ready)
            await installation.await_defaults()
            await asyncio.sleep(2)
            return await _burst(count, bed, api, manager)
        finally:
            installation.stop()


async def _burst(count: int, bed: Testbed, api: Api, manager: Manager) -> Outcome:
    assert bed.audit
    outcome, mark, cpu = Outcome(count), bed.audit.mark(), cpu_seconds(*tree(manager.process.pid))
    started = time.monotonic()
    ready = asyncio.create_task(_watch(api, SERVICES.format(""), count, lambda obj: condition(obj, "Ready")))
    await _each(count, USERS, lambda name: api.create(service(name)))
    outcome.created_seconds = time.monotonic() - started
    await asyncio.wait_for(ready, LIMIT)
    outcome.ready_seconds = time.monotonic() - started
    outcome.cpu_ms = (cpu_seconds(*tree(manager.process.pid)) - cpu) * 1000 / count
    outcome.rss_mb = resident_mb(manager.process.pid)
    await asyncio.sleep(3)                       # what trails behind still belongs to the burst
    _count(outcome, bed.audit, mark, manager.account)
    mark = bed.audit.mark()
    await asyncio.sleep(5)
    outcome.idle_requests = sum(not r.is_lease and r.verb != "watch" for r in bed.audit.requests(mark, user=manager.account))
    return outcome


async def _crowd(api: Api, name: str) -> None:
    """A ConfigMap and a Service that are nobody's business here."""
    meta = {"name": f"foreign-{name}", "namespace": "default", "labels": {"app": name, "team": "somebody"}}
    await api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"settings.yaml": "key: value\n" * 150}})
    spec = {"clusterIP": "None", "selector": {"app": name}, "ports": [{"port": 80}]}
    await api.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})


def _count(outcome: Outcome, audit: AuditLog, mark: int, user: str) -> None:
    rows: Counter[str] = Counter()
    for (_, verb, resource), number in audit.counts(mark, user=user).items():
        if resource.split("/")[0] in APART:
            outcome.apart[f"{verb} {resource}"] = number
        elif verb != "watch":
            rows[f"{verb} {resource}"] += number
    outcome.requests = {row: number / outcome.services for row, number in rows.most_common()}


async def floor(count: int) -> Outcome:
    """The least any controller could do."""
    async with cluster(count) as (bed, api):
        server = await _allow_all(bed, api)
        try:
            outcome, started = Outcome(count), time.monotonic()
            available = asyncio.create_task(_finish_when_available(api, count))
            await _each(count, APPLYING, lambda name: _make(api, name))
            outcome.created_seconds = time.monotonic() - started
            await asyncio.wait_for(available, LIMIT)
            outcome.ready_seconds = time.monotonic() - started
            return outcome
        finally:
            stop(server)


async def _make(api: Api, name: str) -> None:
    owner = await api.create(service(name))
    for child in children(name, owner["metadata"]["uid"]):
        await api.apply(child, manager="floor")


async def _finish_when_available(api: Api, count: int) -> None:
    """One status write per service, as soon as its Deployment is available."""
    writes = []

    def seen(deployment: Json) -> bool:
        if not (deployment.get("status") or {}).get("availableReplicas"):
            return False
        name = deployment["metadata"]["name"].removesuffix("-predictor")
        path = SERVICES.format(f"namespaces/{space(name)}/")
        status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        writes.append(asyncio.create_task(api.call("PATCH", f"{path}/{name}/status", status, "application/merge-patch+json")))
        return True
    await _watch(api, DEPLOYMENTS, count, seen)
    await asyncio.gather(*writes)


async def _allow_all(bed: Testbed, api: Api) -> Any:
    """The webhooks of the installation in force, answered by a server that only says yes."""
    [port] = free_ports(1)
    hooks = PROGRAMS["kserve"].webhook_service
    folder = bed.folder / "allow-all"
    folder.mkdir()
    authority = Authority(folder)
    pair = authority.server("allow-all", [f"{hooks}.{NAMESPACE}.svc"])
    server = start([sys.executable, "-m", "tests.kit.allow_all", str(port), pair.certificate, pair.key], bed.folder / "allow-all.log")
    bed.expose(NAMESPACE, hooks, port)
    bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
    await asyncio.sleep(1)
    for configuration in shipped():
        if configuration["kind"] in WEBHOOKS:
            for webhook in configuration["webhooks"]:
                webhook["clientConfig"]["caBundle"] = bundle
            await api.apply(configuration)
    await asyncio.sleep(2)
    return server


async def _each(count: int, at_once: int, work: Callable[[str], Awaitable[Any]]) -> None:
    turns = asyncio.Semaphore(at_once)

    async def one(number: int) -> None:
        async with turns:
            await work(named(number))
    await asyncio.gather(*map(one, range(count)))


async def _watch(api: Api, path: str, count: int, is_done: Callable[[Json], bool]) -> None:
    """Until `is_done` has said yes to that many objects; it is asked no more about those it said yes to."""
    done: set[str] = set()
    while len(done) < count:
        everything = await api.call("GET", path)
        done |= {obj["metadata"]["name"] for obj in everything["items"] if obj["metadata"]["name"] not in done and is_done(obj)}
        if len(done) >= count:
            return
        async for event, obj in api.watch(path, everything["metadata"]["resourceVersion"]):
            if event in ("ADDED", "MODIFIED") and obj["metadata"]["name"] not in done and is_done(obj):
                done.add(obj["metadata"]["name"])
            if event == "ERROR" or len(done) >= count:
                break


def children(name: str, uid: str) -> list[Json]:
    """What an sklearn service becomes, in KServe's shape and size."""
    predictor = f"{name}-predictor"
    labels = {"app": f"isvc.{predictor}", "component": "predictor", "serving.kserve.io/inferenceservice": name}
    notes = {"internal.serving.kserve.io/storage-initializer-sourceuri": "gs://bucket/model", "prometheus.kserve.io/path": "/metrics",
             "prometheus.kserve.io/port": "8080", "serving.kserve.io/deploymentMode": "Standard"}
    owner = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": name, "uid": uid,
             "controller": True, "blockOwnerDeletion": True}
    meta = {"name": predictor, "namespace": space(name), "labels": labels, "annotations": notes, "ownerReferences": [owner]}
    return [_deployment(name, meta), _service(predictor, meta), _autoscaler(predictor, meta),
            *(_route(host, predictor, name, {**meta, "name": host, "labels": {}}) for host in (name, predictor))]


def _deployment(name: str, meta: Json) -> Json:
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
    security = {"allowPrivilegeEscalation": False, "privileged": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
    times = {"periodSeconds": 10, "failureThreshold": 3, "successThreshold": 1, "timeoutSeconds": 1}
    container = {
        "name": "kserve-container", "image": "kserve/sklearnserver:latest", "imagePullPolicy": "IfNotPresent",
        "args": [f"--model_name={name}", "--model_dir=/mnt/models", "--http_port=8080"],
        "env": [{"name": "INFERENCE_SERVICE_NAME", "value": name}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, **times}, "resources": resources, "securityContext": security}
    template = {"metadata": {"labels": meta["labels"], "annotations": meta["annotations"]}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": meta["labels"]["app"]}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def _service(predictor: str, meta: Json) -> Json:
    port = {"name": predictor, "port": 80, "targetPort": 8080, "protocol": "TCP"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": {"app": meta["labels"]["app"]}, "ports": [port]}}


def _autoscaler(predictor: str, meta: Json) -> Json:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": predictor}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 1, "metrics": [metric]}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": meta, "spec": spec}


def _route(host: str, predictor: str, name: str, meta: Json) -> Json:
    headers = [{"name": "KServe-Isvc-Name", "value": name}, {"name": "KServe-Isvc-Namespace", "value": space(name)}]
    rule = {"matches": [{"path": {"type": "RegularExpression", "value": "^/.*$"}}], "timeouts": {"request": "60s"},
            "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": headers}}],
            "backendRefs": [{"group": "", "kind": "Service", "name": predictor, "namespace": space(name), "port": 80}]}
    gateway = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "kserve-ingress-gateway", "namespace": NAMESPACE}
    spec = {"hostnames": [f"{host}-{space(name)}.example.com"], "parentRefs": [gateway], "rules": [rule]}
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": meta, "spec": spec}


def resident_mb(pid: int) -> int:
    """Of a process and those it has started. Program pages that they share are counted once, as a container's limit counts them."""
    first, *others = map(mapped_kilobytes, tree(pid))
    return (first["Rss"] + sum(own["Rss"] - own["Shared_Clean"] for own in others)) // 1024


def table(ours: Outcome, least: Outcome | None) -> str:
    beside = f", {ours.ready_seconds / least.ready_seconds:.2f} of the floor, which is {least.ready_seconds:.1f} s" if least else ""
    lines = [f"{ours.services} services at once", f"  all Ready       {ours.ready_seconds:8.1f} s{beside}",
             f"  API requests    {ours.requests_per_service:8.2f} per service", f"  CPU             {ours.cpu_ms:8.1f} ms per service",
             f"  memory          {ours.rss_mb:8d} MB", f"  at rest         {ours.idle_requests:8d} requests in 5 s"]
    if ours.services in KSERVE:
        seconds, requests, cpu, memory = KSERVE[ours.services]
        lines.append(f"  (KServe's Go manager on the reference machine: {seconds} s, {requests} requests, {cpu} ms, {memory} MB)")
    lines += [f"    {number:6.2f} {row}" for row, number in ours.requests.items()]
    return "\n".join([*lines, *(f"    {number:6d} {row} in all" for row, number in ours.apart.items())])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", nargs="*", type=int, metavar="N")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--foreign", type=int, default=0, help="ConfigMaps and Services of other people; then without the floor")
    options = parser.parse_args()
    figures = []
    try:
        for count in options.counts or [200]:
            least = None if options.foreign else asyncio.run(floor(count))
            ours = asyncio.run(measured(count, options.foreign))
            print(table(ours, least), flush=True)
            figures.append({"floor": least and asdict(least), "measured": asdict(ours)})
    except Unavailable as reason:
        print(f"no real control plane: {reason}", file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
