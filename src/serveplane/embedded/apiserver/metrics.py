"""`metrics.k8s.io`: what nodes and pods use now, for `kubectl top`. Nothing is stored: every answer is asked of the nodes."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from serveplane import http
from serveplane.clock import timestamp
from serveplane.embedded.apiserver import errors, nodes, representation
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.apiserver.selecting import selection
from serveplane.embedded.store import Key
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
WINDOW = "5s"  # between two looks of a node at its processes
VERBS = frozenset(("get", "list"))


def offer(core: "Core") -> None:
    """Serve the group from now on."""
    for plural, kind, namespaced in (("nodes", "NodeMetrics", False), ("pods", "PodMetrics", True)):
        resource = Resource(
            GROUP,
            VERSION,
            plural,
            kind,
            namespaced,
            verbs=VERBS,
            bucket=f"{plural}.{GROUP}",
            list_kind=f"{kind}List",
        )
        core.registry.replace_group_resource(GROUP, plural, [resource])
        core.virtual[GROUP, VERSION, plural] = answer


async def answer(core: "Core", request: Request, resource: Resource) -> Answer:
    """One object or all of them, as asked."""
    readings = await _readings(core)
    kind = _nodes if resource.plural == "nodes" else _pods
    found = list(kind(core, request, resource, readings))
    form = representation.negotiated(request.headers, core.clock)
    if request.target.name:
        if not found:
            raise errors.not_found(resource.plural, GROUP, request.target.name)
        return Answer(200, representation.one(form, resource, errors.encoded(found[0])))
    items = map(errors.encoded, found)
    return Answer(200, representation.many(form, resource, items, {"resourceVersion": ""}))


async def _readings(core: "Core") -> dict[str, list[Json]]:
    """What each node tells of its pods; one that cannot be reached tells nothing."""
    found: dict[str, list[Json]] = {}
    for record in core.store.records("nodes"):
        name = record.key.name
        try:
            host, port = nodes.address(core, name)
            response = await core.nodes.request("GET", f"https://{host}:{port}/stats/summary", timeout=5.0)
            text = await response.read()
            told: Json = msgspec.json.decode(text) if response.status == 200 else {}
        except (http.HttpError, OSError, msgspec.DecodeError, errors.Refusal):
            continue
        found[name] = told.get("pods") or []
    return found


def _nodes(core: "Core", request: Request, resource: Resource, readings: dict[str, list[Json]]) -> Iterator[Json]:
    chosen = selection(request, resource)
    for name, pods in sorted(readings.items()):
        record = core.store.get("nodes", Key("", name))
        if record is None or request.target.name not in ("", name) or not chosen.matches(record):
            continue
        containers = [container for pod in pods for container in pod.get("containers") or ()]
        yield _object(core, resource, {"name": name, "labels": dict(record.labels)}) | {"usage": _usage(containers)}


def _pods(core: "Core", request: Request, resource: Resource, readings: dict[str, list[Json]]) -> Iterator[Json]:
    chosen = selection(request, resource)
    pods = {
        (pod["podRef"]["namespace"], pod["podRef"]["name"]): pod for listed in readings.values() for pod in listed
    }
    for key, pod in sorted(pods.items()):
        record = core.store.get("pods", Key(*key))
        if record is None or request.target.name not in ("", key[1]) or not chosen.matches(record):
            continue
        told = [container for container in pod.get("containers") or () if "usageNanoCores" in container["cpu"]]
        if told:  # one look is not enough to know what a processor is used for
            metadata = {"name": key[1], "namespace": key[0], "labels": dict(record.labels)}
            containers = [{"name": container["name"], "usage": _usage([container])} for container in told]
            yield _object(core, resource, metadata) | {"containers": containers}


def _object(core: "Core", resource: Resource, metadata: Json) -> Json:
    now = timestamp(core.clock.now())
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {**metadata, "creationTimestamp": now},
        "timestamp": now,
        "window": WINDOW,
    }


def _usage(containers: Iterable[Json]) -> Json:
    listed = list(containers)
    cores = sum(container["cpu"].get("usageNanoCores", 0) for container in listed)
    memory = sum(container["memory"]["workingSetBytes"] for container in listed)
    return {"cpu": f"{cores}n", "memory": f"{memory // 1024}Ki"}
