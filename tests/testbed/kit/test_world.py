"""The played world: what it says of a pod must be what a kubelet would have said, and the real controllers must believe it."""
import asyncio
from typing import Any

import pytest

from tests.counts import COUNTS
from tests.kit.api import Api
from tests.kit.testbed import Testbed
from tests.kit.waiting import eventually
from tests.kit.world import OFF, Outcome, Rule, annotation

pytestmark = pytest.mark.testbed
Json = dict[str, Any]


def deployment(name: str, **pod: Any) -> Json:
    containers = [{"name": "main", "image": "example.com/none"}, {"name": "side", "image": "example.com/none"}]
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers, **pod}}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


async def told(api: Api, namespace: str, *rules: Rule) -> None:
    await noted(api, namespace, annotation(*rules))


async def noted(api: Api, namespace: str, annotations: dict[str, str]) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await api.patch(space, {"metadata": {"annotations": annotations}})


async def pod_of(api: Api, namespace: str) -> Json:
    """The one pod, as soon as somebody has written its status."""
    async def found() -> Json | None:
        pods = await api.list("v1", "Pod", namespace)
        return pods[0] if pods and pods[0]["status"].get("conditions") else None
    found_pod = await eventually(found)
    assert found_pod
    return found_pod


async def is_available(api: Api, namespace: str, name: str) -> bool:
    found = await api.get("apps/v1", "Deployment", name, namespace)
    return bool(found and found.get("status", {}).get("availableReplicas"))


async def test_pods_become_ready_and_deployments_available(world: Testbed, api: Api, namespace: str) -> None:
    await api.create(deployment("web", initContainers=[{"name": "first", "image": "i"}]), namespace)
    await eventually(lambda: is_available(api, namespace, "web"))
    status = (await pod_of(api, namespace))["status"]
    assert [state["state"]["terminated"]["exitCode"] for state in status["initContainerStatuses"]] == [0]
    assert all(state["ready"] for state in status["containerStatuses"])


@pytest.mark.parametrize(("rule", "where", "reason"), [
    (Rule(Outcome.IMAGE_PULL), "waiting", "ImagePullBackOff"),
    (Rule(Outcome.CONFIG_ERROR), "waiting", "CreateContainerConfigError"),
    (Rule(Outcome.CRASH_LOOP, container="side", exit_code=7, message="no weights"), "waiting", "CrashLoopBackOff"),
    (Rule(Outcome.OUT_OF_MEMORY), "waiting", "CrashLoopBackOff"),
    (Rule(Outcome.PROBE_FAILING), "running", None),
], ids=lambda value: value.outcome if isinstance(value, Rule) else "")
async def test_a_container_fails_as_the_namespace_says(
        world: Testbed, api: Api, namespace: str, rule: Rule, where: str, reason: str | None) -> None:
    await told(api, namespace, rule)
    await api.create(deployment("web"), namespace)
    status = (await pod_of(api, namespace))["status"]
    failing = next(state for state in status["containerStatuses"] if state["name"] == (rule.container or "main"))
    assert failing["state"][where].get("reason") == reason
    assert not failing["ready"]
    if rule.outcome is Outcome.CRASH_LOOP:
        assert (failing["lastState"]["terminated"]["exitCode"], failing["lastState"]["terminated"]["message"]) == (7, "no weights")
    if rule.outcome is Outcome.OUT_OF_MEMORY:
        assert (failing["lastState"]["terminated"]["exitCode"], failing["lastState"]["terminated"]["reason"]) == (137, "OOMKilled")


@pytest.mark.parametrize("outcome", [Outcome.UNSCHEDULABLE, Outcome.UNBOUND_CLAIM])
async def test_a_pod_finds_no_node(world: Testbed, api: Api, namespace: str, outcome: Outcome) -> None:
    await told(api, namespace, Rule(outcome))
    await api.create(deployment("web"), namespace)
    [condition] = (await pod_of(api, namespace))["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")


async def test_an_init_container_fails(world: Testbed, api: Api, namespace: str) -> None:
    await told(api, namespace, Rule(Outcome.INIT_ERROR, container="second", exit_code=2, message="404 for s3://models"))
    inits = [{"name": name, "image": "i"} for name in ("first", "second", "third")]
    await api.create(deployment("web", initContainers=inits), namespace)
    status = (await pod_of(api, namespace))["status"]
    states = [next(iter(state["state"])) for state in status["initContainerStatuses"]]
    assert states == ["terminated", "waiting", "waiting"]
    assert status["initContainerStatuses"][1]["lastState"]["terminated"]["message"] == "404 for s3://models"
    assert status["phase"] == "Pending"


async def test_what_failed_can_heal(world: Testbed, api: Api, namespace: str) -> None:
    await told(api, namespace, Rule(Outcome.CRASH_LOOP))
    await api.create(deployment("web"), namespace)
    await pod_of(api, namespace)
    assert not await is_available(api, namespace, "web")
    await told(api, namespace)
    await eventually(lambda: is_available(api, namespace, "web"))


async def test_jobs_complete_or_fail(world: Testbed, api: Api, namespace: str) -> None:
    await told(api, namespace, Rule(Outcome.FAILED, name="bad-*", exit_code=3))
    for name in ("good", "bad"):
        spec = {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
        await api.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}, namespace)

    async def ends() -> bool:
        jobs = {job["metadata"]["name"]: job["status"] for job in await api.list("batch/v1", "Job", namespace)}
        return bool(jobs["good"].get("succeeded") and jobs["bad"].get("failed"))
    await eventually(ends)


async def test_nothing_is_played_where_the_world_is_off(world: Testbed, api: Api, namespace: str) -> None:
    await noted(api, namespace, {OFF: "true"})
    await asyncio.sleep(0.2)
    await api.create(deployment("web"), namespace)

    async def created() -> list[Json]:
        return await api.list("v1", "Pod", namespace)
    await eventually(created)
    await asyncio.sleep(1)
    assert (await created())[0]["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_routes_are_accepted_or_refused(world: Testbed, api: Api, namespace: str) -> None:
    await told(api, namespace, Rule(Outcome.REFUSED, kind="HTTPRoute", name="bad", message="no listener for this host"))
    for name in ("good", "bad"):
        await api.create({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": name},
                          "spec": {"parentRefs": [{"name": "g"}], "rules": []}}, namespace)

    async def verdict(name: str) -> str:
        route = await api.get("gateway.networking.k8s.io/v1", "HTTPRoute", name, namespace)
        parents = (route or {}).get("status", {}).get("parents") or []
        return parents[0]["conditions"][0]["status"] if parents else ""
    assert await eventually(lambda: verdict("good")) == "True"
    assert await eventually(lambda: verdict("bad")) == "False"


async def test_the_neighbours_report_success(world: Testbed, api: Api, namespace: str) -> None:
    objects = [
        {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "k"}, "spec": {"template": {}}},
        {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "l"},
         "spec": {"replicas": 2, "leaderWorkerTemplate": {"workerTemplate": {}}}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g"},
         "spec": {"gatewayClassName": "c", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}},
    ]
    for obj in objects:
        await api.create(obj, namespace)

    async def all_well() -> bool:
        found = [await api.get(obj["apiVersion"], obj["kind"], obj["metadata"]["name"], namespace) for obj in objects]
        return all(obj and obj.get("status", {}).get("conditions", [{"status": "no"}])[-1]["status"] == "True" for obj in found)
    await eventually(all_well)


@pytest.mark.stress
async def test_it_keeps_up_with_a_burst(world: Testbed, api: Api, namespace: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await asyncio.gather(*(api.create({**pod, "metadata": {"name": f"p{n}"}}, namespace) for n in range(COUNTS.burst)))

    async def all_ready() -> bool:
        return all(pod["status"]["phase"] == "Running" for pod in await api.list("v1", "Pod", namespace))
    await eventually(all_ready, 300)
