"""Autoscalers in both of their versions."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from serveplane.embedded.apiserver.autoscalers import newer, older
from serveplane.embedded.testing import api_server
from tests.unit.embedded_apiserver.calling import Caller

Json = dict[str, Any]
FIRST, SECOND = (f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers" for version in ("v1", "v2"))
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}


@pytest.fixture
async def call() -> AsyncIterator[Caller]:
    async with api_server() as server:
        yield Caller(server)


def test_nothing_is_lost_between_the_versions() -> None:
    whole: Json = {
        "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2", "metadata": {"name": "a", "annotations": {"k": "v"}},
        "spec": {
            "scaleTargetRef": TARGET, "maxReplicas": 3, "metrics": [MEMORY, CPU],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}},
        },
        "status": {"currentReplicas": 1, "desiredReplicas": 2, "conditions": [{"type": "AbleToScale", "status": "True"}]},
    }  # fmt: skip
    told = older(whole)
    assert told["spec"] == {"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    assert newer(told) == whole


async def test_what_is_written_in_one_version_is_read_in_the_other(call: Caller) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}}
    status, made = await call("POST", FIRST, body)
    assert (status, made["apiVersion"], made["spec"]["minReplicas"]) == (201, "autoscaling/v1", 1)
    assert (await call("GET", f"{SECOND}/a"))[1]["spec"]["metrics"] == [CPU]
    change = {"spec": {"targetCPUUtilizationPercentage": 70}}
    assert (await call("PATCH", f"{FIRST}/a", change, "application/merge-patch+json"))[1]["spec"]["targetCPUUtilizationPercentage"] == 70
    found = (await call("GET", f"{SECOND}/a"))[1]
    assert found["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
    live = (await call("GET", f"{FIRST}/a"))[1]
    live["spec"]["maxReplicas"] = 9
    assert (await call("PUT", f"{FIRST}/a", live))[1]["spec"]["maxReplicas"] == 9
    listed = (await call("GET", FIRST))[1]
    assert (listed["apiVersion"], listed["items"][0]["spec"]["targetCPUUtilizationPercentage"]) == ("autoscaling/v1", 70)
    status, refused = await call("POST", FIRST, {**body, "spec": {**body["spec"], "maxReplicas": 0}, "metadata": {"name": "b"}})
    assert (status, refused["details"]["causes"][0]["field"]) == (422, "spec.maxReplicas")
