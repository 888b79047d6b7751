"""LimitRanges: defaults for containers that say nothing, bounds for containers, pods and claims."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import errors
from serveplane.objects import Json, quantity
from serveplane.objects.amounts import of_pod

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write

BUCKET, PODS, CLAIMS = "limitranges", "pods", "persistentvolumeclaims"
ANNOTATION = "kubernetes.io/limit-ranger"


def mutate(core: "Core", write: "Write") -> None:
    """Give what the ranges have as defaults, and write down what was given."""
    if write.resource.bucket != PODS or write.live or write.subresource:
        return
    for limits in _ranges(core, write):
        requests, most = _defaults(limits)
        given = [
            told
            for field, kind in (("containers", "container"), ("initContainers", "init container"))
            for container in write.value["spec"].get(field) or ()
            for told in _give(container, kind, requests, most)
        ]
        if given:
            annotations = write.value["metadata"].setdefault("annotations", {})
            annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(given)}"


def check(core: "Core", write: "Write") -> None:
    """Raise unless the object keeps to every range of its namespace."""
    if not _concerns(write):
        return
    for limits in _ranges(core, write):
        find = _claim_problems if write.resource.bucket == CLAIMS else _pod_problems
        found = [*dict.fromkeys(problem for limit in limits for problem in find(limit, write.value["spec"]))]
        if found:
            why = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
            raise errors.forbidden(write.resource.plural, "", write.value["metadata"].get("name", ""), why)


def _concerns(write: "Write") -> bool:
    bucket = write.resource.bucket
    if bucket not in (PODS, CLAIMS) or (write.live and "deletionTimestamp" in write.live["metadata"]):
        return False
    if write.subresource:
        return bucket == PODS and write.subresource == "resize"
    return bucket == CLAIMS or not write.live


def _ranges(core: "Core", write: "Write") -> Iterator[list[Json]]:
    for record in core.store.records(BUCKET, write.value["metadata"].get("namespace", "")):
        yield (record.value().get("spec") or {}).get("limits") or []


def _defaults(limits: list[Json]) -> tuple[Json, Json]:
    requests: Json = {}
    most: Json = {}
    for limit in limits:
        if limit.get("type") == "Container":
            requests.update(limit.get("defaultRequest") or {})
            most.update(limit.get("default") or {})
    return requests, most


def _give(container: Json, kind: str, requests: Json, most: Json) -> Iterator[str]:
    resources = container["resources"]
    missing = {
        side: sorted(name for name in wanted if name not in (resources.get(side) or {}))
        for side, wanted in (("requests", requests), ("limits", most))
    }
    for side, word, wanted in (("requests", "request", requests), ("limits", "limit", most)):
        if missing[side]:
            resources[side] = {**(resources.get(side) or {}), **{name: wanted[name] for name in missing[side]}}
            yield f"{', '.join(missing[side])} {word} for {kind} {container['name']}"


def _claim_problems(limit: Json, spec: Json) -> Iterator[str]:
    if limit.get("type") != "PersistentVolumeClaim":
        return
    requests = (spec.get("resources") or {}).get("requests") or {}
    for name, bound in sorted((limit.get("min") or {}).items()):
        yield from _too_little("PersistentVolumeClaim", name, bound, requests, {})
    for name, bound in sorted((limit.get("max") or {}).items()):
        told = f"maximum {name} usage per PersistentVolumeClaim is {bound}"
        if name not in requests:
            yield f"{told}.  No request is specified"
        elif quantity.parse(requests[name]) > quantity.parse(bound):
            yield f"{told}, but request is {requests[name]}"


def _pod_problems(limit: Json, spec: Json) -> Iterator[str]:
    if limit.get("type") == "Container":
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            resources = container.get("resources") or {}
            yield from _outside(limit, resources.get("requests") or {}, resources.get("limits") or {})
    elif limit.get("type") == "Pod":
        yield from _outside(limit, of_pod(spec, "requests"), of_pod(spec, "limits"))


def _outside(limit: Json, requests: Mapping[str, str], limits: Mapping[str, str]) -> Iterator[str]:
    kind = limit["type"]
    for name, bound in sorted((limit.get("min") or {}).items()):
        yield from _too_little(kind, name, bound, requests, limits)
    for name, bound in sorted((limit.get("max") or {}).items()):
        yield from _too_much(kind, name, bound, requests, limits)
    for name, bound in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        yield from _too_far_apart(kind, name, bound, requests, limits)


def _too_little(kind: str, name: str, bound: str, requests: Mapping[str, str], limits: Mapping[str, str]) -> Iterator[str]:
    told = f"minimum {name} usage per {kind} is {bound}"
    if name not in requests:
        yield f"{told}.  No request is specified"
    elif quantity.parse(requests[name]) < quantity.parse(bound):
        yield f"{told}, but request is {requests[name]}"
    elif name in limits and quantity.parse(limits[name]) < quantity.parse(bound):
        yield f"{told}, but limit is {limits[name]}"


def _too_much(kind: str, name: str, bound: str, requests: Mapping[str, str], limits: Mapping[str, str]) -> Iterator[str]:
    told = f"maximum {name} usage per {kind} is {bound}"
    if name not in limits:
        yield f"{told}.  No limit is specified"
    elif quantity.parse(limits[name]) > quantity.parse(bound):
        yield f"{told}, but limit is {limits[name]}"
    elif name in requests and quantity.parse(requests[name]) > quantity.parse(bound):
        yield f"{told}, but request is {requests[name]}"


def _too_far_apart(kind: str, name: str, bound: str, requests: Mapping[str, str], limits: Mapping[str, str]) -> Iterator[str]:
    told = f"{name} max limit to request ratio per {kind} is {bound}"
    least, most = (quantity.parse(amounts.get(name, "0")) for amounts in (requests, limits))
    if not least:
        yield f"{told}, but no request is specified or request is 0"
    elif not most:
        yield f"{told}, but no limit is specified or limit is 0"
    elif most / least > quantity.parse(bound):
        yield f"{told}, but provided ratio is {float(most / least):.6f}"
