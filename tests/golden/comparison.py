"""Equal but for what the API server fills in.

Every leaf that we render must stand in the observed object with the same meaning, and every leaf that we do not render must be a
default that the API server (or a neighbour's CRD) is known to write.
"""
import re
from collections.abc import Iterator
from typing import Any

from serveplane.objects import Json
from serveplane.objects.equality import same_leaf
from serveplane.objects.schema import Shape, shape_for

ABSENT = object()
IGNORED = (r"metadata\.ownerReferences.*", r"metadata\.generateName", r"status.*")
DEFAULTS: list[tuple[str, Any]] = [
    (r".*\.ports\[\d+\]\.protocol", "TCP"), (r".*\.fieldRef\.apiVersion", "v1"), (r".*\.httpGet\.scheme", "HTTP"),
    (r".*Probe\.failureThreshold", 3), (r".*Probe\.periodSeconds", 10), (r".*Probe\.successThreshold", 1), (r".*Probe\.timeoutSeconds", 1),
    (r".*\.terminationMessagePath", "/dev/termination-log"), (r".*\.terminationMessagePolicy", "File"),
    (r".*\.imagePullPolicy", ABSENT), (r".*\.defaultMode", 420), (r".*\.serviceAccount", ABSENT), (r".*\.strategy\.type", "RollingUpdate"),
    (r"spec\.replicas", ABSENT), (r"spec\.revisionHistoryLimit", 10), (r"spec\.progressDeadlineSeconds", 600),
    (r"spec\.(internalTrafficPolicy|ipFamilyPolicy|sessionAffinity|type)", ABSENT), (r"spec\.(ipFamilies|clusterIPs).*", ABSENT),
    (r"spec\.behavior.*", ABSENT), (r".*\.backendRefs\[\d+\]\.weight", 1), (r".*\.parentRefs\[\d+\]\.(group|kind)", ABSENT),
    (r"spec\.(configVersions|managementState|ipFamilyPolicy|daemonSetUpdateStrategy|deploymentUpdateStrategy).*", ABSENT),
    (r"spec\.(ingress|observability|podDnsConfig|targetAllocator).*", ABSENT), (r".*\.scalingModifiers", {}),
    (r"spec\.(enableServiceLinks|preemptionPolicy|priority|nodeName)", ABSENT), (r"spec\.tolerations\[\d+\]", ABSENT),
    (r".*\.(schedulerName|dnsPolicy|restartPolicy|terminationGracePeriodSeconds)", ABSENT),
    (r"metadata\.name", ABSENT), (r".*\.type", "ClusterIP"),
]


def differences(ours: Json, theirs: Json) -> list[str]:
    """What differs, each as a line with its path."""
    return list(_compare(ours, theirs, shape_for(theirs), ""))


def _compare(ours: Any, theirs: Any, shape: Shape, path: str) -> Iterator[str]:
    if any(re.fullmatch(pattern, path) for pattern in IGNORED):
        return
    if ours is ABSENT:
        yield from _unexpected(theirs, path)
    elif theirs is ABSENT:
        if ours not in ({}, [], None, ""):
            yield f"{path}: we render {ours!r}, KServe has nothing"
    elif isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            step = f"{path}.{key}" if path else key
            yield from _compare(ours.get(key, ABSENT), theirs.get(key, ABSENT), shape.child(key), step)
    elif isinstance(ours, list) and isinstance(theirs, list):
        yield from _compare_lists(ours, theirs, shape, path)
    elif not same_leaf(ours, theirs, shape):
        yield f"{path}: we render {ours!r}, KServe {theirs!r}"


def _compare_lists(ours: list[Any], theirs: list[Any], shape: Shape, path: str) -> Iterator[str]:
    if path == "spec.tolerations":
        theirs = [item for item in theirs if item.get("key", "").startswith("node.kubernetes.io/") is False]
    for index in range(max(len(ours), len(theirs))):
        pair = (items[index] if index < len(items) else ABSENT for items in (ours, theirs))
        yield from _compare(*pair, shape.items, f"{path}[{index}]")


def _unexpected(theirs: Any, path: str) -> Iterator[str]:
    if theirs in ({}, [], None, ""):
        return
    for pattern, value in DEFAULTS:
        if re.fullmatch(pattern, path) and (value is ABSENT or value == theirs):
            return
    if isinstance(theirs, dict):
        for key, value in theirs.items():
            yield from _unexpected(value, f"{path}.{key}")
    elif isinstance(theirs, list):
        for index, value in enumerate(theirs):
            yield from _unexpected(value, f"{path}[{index}]")
    else:
        yield f"{path}: KServe has {theirs!r}, we render nothing"
