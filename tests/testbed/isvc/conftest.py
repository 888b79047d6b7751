"""A running kserve manager on the real control plane, with a gateway that its routes can attach to."""
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.kit.api import Api, condition
from tests.kit.installation import Installation
from tests.kit.waiting import eventually

Json = dict[str, Any]
SERVICE = ("serving.kserve.io/v1beta1", "InferenceService")
GATEWAY: Json = {
    "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "kserve-ingress-gateway", "namespace": "kserve"},
    "spec": {"gatewayClassName": "world", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP",
                                                          "allowedRoutes": {"namespaces": {"from": "All"}}}]}}


def iris(name: str = "iris", **predictor: Any) -> Json:
    model = {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://acme/iris"}
    return {"apiVersion": SERVICE[0], "kind": SERVICE[1], "metadata": {"name": name}, "spec": {"predictor": {"model": model, **predictor}}}


class Cluster:
    """What the tests here ask for again and again."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api, self.namespace = api, namespace

    async def service(self, name: str = "iris") -> Json:
        return await self.api.get(*SERVICE, name, self.namespace) or {}

    async def told(self, kind: str, name: str = "iris") -> Json:
        found = [item for item in ((await self.service(name)).get("status") or {}).get("conditions") or [] if item["type"] == kind]
        return found[0] if found else {}

    async def ready(self, name: str = "iris", seconds: float = 120) -> Json:
        async def is_ready() -> Json | None:
            service = await self.service(name)
            return service if condition(service, "Ready") else None
        return await eventually(is_ready, seconds, f"{name} is ready") or {}

    async def child(self, api_version: str, kind: str, name: str) -> Json | None:
        return await self.api.get(api_version, kind, name, self.namespace)

    async def deployment(self, name: str = "iris-predictor") -> Json:
        return await self.child("apps/v1", "Deployment", name) or {}

    async def children(self) -> list[str]:
        kinds = (("apps/v1", "Deployment"), ("v1", "Service"), ("autoscaling/v2", "HorizontalPodAutoscaler"),
                 ("gateway.networking.k8s.io/v1", "HTTPRoute"), ("networking.k8s.io/v1", "Ingress"), ("keda.sh/v1alpha1", "ScaledObject"))
        found = [(kind, await self.api.list(version, kind, self.namespace)) for version, kind in kinds]
        return sorted(f"{kind} {obj['metadata']['name']}" for kind, objects in found for obj in objects
                      if obj["metadata"].get("ownerReferences"))

    async def until(self, question: Callable[[], Awaitable[Any]], otherwise: str = "") -> Any:
        return await eventually(question, 120, otherwise)


@pytest.fixture
async def cluster(api: Api, namespace: str, manager: Installation) -> Cluster:
    await api.discover()
    await api.apply(GATEWAY)
    return Cluster(api, namespace)
