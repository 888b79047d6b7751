"""Limits and quotas: what is given, what is refused, what is counted."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from serveplane.embedded.apiserver import ADMIN, ApiServer
from serveplane.embedded.testing import api_server

Json = dict[str, Any]
SPACE = "/api/v1/namespaces/default"


class Caller:
    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def __call__(self, method: str, path: str, body: Any = None, query: str = "") -> tuple[int, Json]:
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = b"" if body is None else msgspec.json.encode(body)
        status, _, answer = await self.server.handle(method, f"{SPACE}/{path}", query, {"content-type": content}, data, ADMIN)
        assert isinstance(answer, bytes)
        return status, msgspec.json.decode(answer)

    async def used(self, name: str, wanted: Json) -> None:
        for _ in range(400):
            _, quota = await self("GET", f"resourcequotas/{name}")
            if (quota.get("status") or {}).get("used") == wanted:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"{name} tells {quota.get('status')}, not {wanted}")


@pytest.fixture
async def call() -> AsyncIterator[Caller]:
    async with api_server() as server:
        caller = Caller(server)
        await caller("POST", "serviceaccounts", {"metadata": {"name": "default"}})
        yield caller


def pod(name: str, **resources: Json) -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x", "resources": resources}]}}


def quota(**hard: str) -> Json:
    return {"metadata": {"name": "q"}, "spec": {"hard": {name.replace("_", "."): amount for name, amount in hard.items()}}}


async def test_containers_get_the_defaults_of_a_range(call: Caller) -> None:
    limits = [{"type": "Container", "max": {"cpu": "2"}, "default": {"memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}]
    await call("POST", "limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    _, made = await call("POST", "pods", pod("a"))
    resources = made["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "1Gi"}}
    told = made["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert told == "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c"


@pytest.mark.parametrize(
    ("kind", "bound", "resources", "told"),
    [
        ("Container", {"max": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, "maximum cpu usage per Container is 1, but limit is 2"),
        ("Container", {"min": {"cpu": "1"}}, {"requests": {"cpu": "1m"}}, "minimum cpu usage per Container is 1, but request is 1m"),
        ("Pod", {"max": {"memory": "1Gi"}}, {}, "maximum memory usage per Pod is 1Gi.  No limit is specified"),
        (
            "Container",
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
    ],
)
async def test_pods_outside_of_a_range_are_refused(call: Caller, kind: str, bound: Json, resources: Json, told: str) -> None:
    await call("POST", "limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [{"type": kind, **bound}]}})
    status, refusal = await call("POST", "pods", pod("a", **resources))
    assert (status, refusal["message"]) == (403, f'pods "a" is forbidden: {told}')


async def test_claims_outside_of_a_range_are_refused(call: Caller) -> None:
    limits = [{"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}}]
    await call("POST", "limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}})
    status, refusal = await call("POST", "persistentvolumeclaims", claim("a", "3Gi"))
    assert status == 403
    assert refusal["message"].endswith("maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi")


def claim(name: str, size: str) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name}, "spec": spec}


async def test_what_is_made_is_charged_and_what_goes_is_given_back(call: Caller) -> None:
    await call("POST", "resourcequotas", quota(pods="2", requests_cpu="1"))
    await call.used("q", {"pods": "0", "requests.cpu": "0"})
    for name in ("a", "b"):
        assert (await call("POST", "pods", pod(name, requests={"cpu": "300m"})))[0] == 201
    await call.used("q", {"pods": "2", "requests.cpu": "600m"})
    status, refusal = await call("POST", "pods", pod("c", requests={"cpu": "500m"}))
    told = "exceeded quota: q, requested: pods=1,requests.cpu=500m, used: pods=2,requests.cpu=600m, limited: pods=2,requests.cpu=1"
    assert (status, refusal["message"]) == (403, f'pods "c" is forbidden: {told}')
    await call("DELETE", "pods/a", query="gracePeriodSeconds=0")
    await call.used("q", {"pods": "1", "requests.cpu": "300m"})
    assert (await call("POST", "pods", pod("c", requests={"cpu": "500m"})))[0] == 201


async def test_a_container_must_say_what_is_counted(call: Caller) -> None:
    await call("POST", "resourcequotas", quota(limits_memory="1Gi"))
    await call.used("q", {"limits.memory": "0"})
    status, refusal = await call("POST", "pods", pod("a"))
    assert (status, refusal["message"]) == (403, 'pods "a" is forbidden: failed quota: q: must specify limits.memory for: c')


async def test_writers_at_once_cannot_share_what_is_left_for_one(call: Caller) -> None:
    await call("POST", "resourcequotas", quota(**{"count/configmaps": "3"}))
    await call.used("q", {"count/configmaps": "0"})
    answers = await asyncio.gather(*(call("POST", "configmaps", {"metadata": {"name": f"m{number}"}}) for number in range(10)))
    assert sorted(status for status, _ in answers) == [201] * 3 + [403] * 7
    await call.used("q", {"count/configmaps": "3"})


async def test_dry_runs_and_refused_writes_use_nothing(call: Caller) -> None:
    # the namespace has one Service to begin with
    await call("POST", "resourcequotas", quota(services="3", **{"services.nodeports": "1"}))
    await call.used("q", {"services": "1", "services.nodeports": "0"})
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "type": "NodePort"}}
    assert (await call("POST", "services", service, "dryRun=All"))[0] == 201
    assert (await call("POST", "services", service))[0] == 201
    assert (await call("POST", "services", service))[0] == 403  # the real server, too, asks the quota first
    await call.used("q", {"services": "2", "services.nodeports": "1"})
    await call("PATCH", "services/s", {"spec": {"type": "ClusterIP"}})
    await call.used("q", {"services": "2", "services.nodeports": "0"})


async def test_finished_pods_use_nothing(call: Caller) -> None:
    await call("POST", "resourcequotas", quota(pods="1", **{"count/pods": "5"}))
    await call.used("q", {"count/pods": "0", "pods": "0"})
    await call("POST", "pods", pod("a"))
    await call("PATCH", "pods/a/status", {"status": {"phase": "Succeeded"}})
    await call.used("q", {"count/pods": "1", "pods": "0"})


async def test_a_quota_for_best_effort_pods_counts_no_others(call: Caller) -> None:
    await call("POST", "resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}})
    await call.used("q", {"pods": "0"})
    await call("POST", "pods", pod("a", requests={"cpu": "1"}))
    await call.used("q", {"pods": "0"})
    await call("POST", "pods", pod("b"))
    await call.used("q", {"pods": "1"})
