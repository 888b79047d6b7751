"""Ranges and quotas: what is given to pods, what is refused, what is written down."""

import time
from typing import Any

from tests.embedded.scenarios.telling import Seen, scenario
from tests.embedded.servers import MERGE, Api

NOTICED_SECONDS = 1.5
"""The real server reads ranges and quotas from a cache of its own."""
CONTAINER = {
    "type": "Container",
    "max": {"cpu": "2", "memory": "2Gi"},
    "min": {"cpu": "50m"},
    "default": {"cpu": "1"},
    "defaultRequest": {"cpu": "100m"},
    "maxLimitRequestRatio": {"memory": "4"},
}
RANGE = [
    CONTAINER,
    {"type": "Pod", "max": {"cpu": "3"}},
    {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},
]


def pod(name: str, *containers: Any, **spec: Any) -> dict[str, Any]:
    listed = [{"name": f"c{number}", "image": "x", "resources": resources} for number, resources in enumerate(containers or ({},))]
    return {"metadata": {"name": name}, "spec": {"containers": listed, **spec}}


def claim(name: str, size: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}}


@scenario
def a_range_gives_and_refuses(api: Api, space: str) -> Seen:
    path = f"/api/v1/namespaces/{space}"
    seen = [api.call("POST", f"{path}/limitranges", {"metadata": {"name": "r"}, "spec": {"limits": RANGE}})]
    time.sleep(NOTICED_SECONDS)
    init = [{"name": "i", "image": "x", "resources": {"limits": {"memory": "1Gi"}}}]
    pods = [
        pod("given"),
        pod("given-some", {"requests": {"cpu": "200m"}}, initContainers=init),
        pod("too-much", {"limits": {"cpu": "3"}}),
        pod("too-little", {"requests": {"cpu": "10m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}),
        pod("too-far-apart", {"requests": {"memory": "100Mi"}, "limits": {"memory": "1Gi"}}),
        pod("together", *[{"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"memory": "1Gi"}}] * 2),
    ]
    seen += [api.call("POST", f"{path}/pods", one) for one in pods]
    seen += [api.call("POST", f"{path}/persistentvolumeclaims", claim(f"c{size.lower()}", size)) for size in ("500Mi", "2Gi", "3Gi")]
    seen.append(api.call("PATCH", f"{path}/pods/given", {"metadata": {"labels": {"a": "b"}}}, MERGE))
    return seen


def _quota(api: Api, space: str, name: str, hard: dict[str, str], **spec: Any) -> None:
    """A quota whose use was counted, by whoever does that on this server."""
    path = f"/api/v1/namespaces/{space}/resourcequotas"
    api.call("POST", path, {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})
    time.sleep(0.2)
    api.call("PATCH", f"{path}/{name}/status", {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}, MERGE)


def _used(api: Api, space: str, name: str) -> Any:
    return api.call("GET", f"/api/v1/namespaces/{space}/resourcequotas/{name}").value["status"]


@scenario
def a_quota_is_used_up(api: Api, space: str) -> Seen:
    path = f"/api/v1/namespaces/{space}"
    _quota(api, space, "q", {"pods": "3", "requests.cpu": "1", "limits.memory": "2Gi", "count/pods": "10", "requests.example.com/gpu": "1"})
    _quota(api, space, "best", {"pods": "1"}, scopes=["BestEffort"])
    time.sleep(NOTICED_SECONDS)
    full = {"requests": {"cpu": "400m"}, "limits": {"memory": "512Mi"}}
    gpu = {"requests": {**full["requests"], "example.com/gpu": "1"}, "limits": {**full["limits"], "example.com/gpu": "1"}}
    seen: list[Any] = [api.call("POST", f"{path}/pods", pod("silent"))]
    seen.append(api.call("POST", f"{path}/pods", pod("dry", full), dryRun="All"))
    seen += [api.call("POST", f"{path}/pods", pod(name, full)) for name in ("a", "b", "c")]
    seen.append(api.call("POST", f"{path}/pods", pod("big", {"requests": {"cpu": "1m"}, "limits": {"memory": "3Gi"}})))
    seen.append(api.call("POST", f"{path}/pods", pod("small", {"requests": {"cpu": "1m"}, "limits": {"memory": "1Mi"}})))
    seen.append(api.call("POST", f"{path}/pods", pod("gpu", gpu)))
    return [*seen, _used(api, space, "q"), _used(api, space, "best")]


@scenario
def a_quota_of_everything_else(api: Api, space: str) -> Seen:
    path = f"/api/v1/namespaces/{space}"
    hard = {
        "services": "2", "services.nodeports": "2", "services.loadbalancers": "1", "persistentvolumeclaims": "2", "requests.storage": "3Gi",
        "fast.storageclass.storage.k8s.io/requests.storage": "1Gi", "count/widgets.suite.example.com": "1", "secrets": "1",
    }  # fmt: skip
    _quota(api, space, "q", hard)
    time.sleep(NOTICED_SECONDS)
    ports = {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}
    widgets = f"/apis/suite.example.com/v1/namespaces/{space}/widgets"
    seen = [
        api.call("POST", f"{path}/services", {"metadata": {"name": "s"}, "spec": ports}),
        api.call("PATCH", f"{path}/services/s", {"spec": {"type": "NodePort"}}, MERGE),
        api.call("POST", f"{path}/services", {"metadata": {"name": "t"}, "spec": {**ports, "type": "LoadBalancer"}}),
        api.call("POST", f"{path}/persistentvolumeclaims", claim("c", "1Gi", storageClassName="fast")),
        api.call("POST", f"{path}/persistentvolumeclaims", claim("d", "1Gi", storageClassName="fast")),
        api.call("POST", f"{path}/persistentvolumeclaims", claim("e", "3Gi")),
        api.call("POST", f"{path}/secrets", {"metadata": {"name": "one"}}),
        api.call("POST", f"{path}/secrets", {"metadata": {"name": "two"}}),
    ]
    typed = {"apiVersion": "suite.example.com/v1", "kind": "Widget", "spec": {"size": 1}}
    seen += [api.call("POST", widgets, {**typed, "metadata": {"name": name}}) for name in ("v", "w")]
    return [*seen, _used(api, space, "q")]
