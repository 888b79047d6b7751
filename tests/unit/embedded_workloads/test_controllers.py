"""The controllers together on an API server in this process; the test plays the node."""
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from serveplane.clock import SYSTEM
from serveplane.embedded.testing import api_server
from serveplane.embedded.workloads.cluster import (
    BUDGET,
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    NODE,
    POD,
    REPLICA_SET,
)
from serveplane.embedded.workloads.controllers import run_controllers
from serveplane.kube.client import Client
from serveplane.kube.kind import controller_of, controller_reference
from serveplane.objects import Json


@asynccontextmanager
async def controllers() -> AsyncIterator[Client]:
    async with api_server() as server:
        client = Client(server.transport(), SYSTEM)
        await client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}})
        room = {"cpu": "8", "memory": "8Gi", "pods": "100"}
        status = {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(NODE, "n", None, {"status": status}, subresource="status")
        ready = asyncio.Event()
        running = asyncio.create_task(run_controllers(client, SYSTEM, b"ca", ready.set))
        await ready.wait()
        try:
            yield client
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def eventually(check: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(20):
        while not await check():  # noqa: ASYNC110 - the API is what is asked, as users do
            await asyncio.sleep(0.02)


def workload(kind: str, image: str = "a", **spec: object) -> Json:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template, **spec}}


async def start_pods(client: Client, count: int, image: str) -> bool:
    """Let the pods of an image run, once there are so many."""
    pods = [pod for pod in await client.list(POD, "default")
            if pod["spec"]["containers"][0]["image"] == image and pod["spec"].get("nodeName")]
    if len(pods) != count:
        return False
    for pod in pods:
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(POD, pod["metadata"]["name"], "default", {"status": status}, subresource="status")
    return True


async def test_recreate_waits_for_the_last_pod_and_goes_on() -> None:
    async with controllers() as client:
        await client.create(workload("Deployment", replicas=2, strategy={"type": "Recreate"}))
        await client.create({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
                             "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}})
        await eventually(lambda: start_pods(client, 2, "a"))

        async def allowed() -> bool:
            budget = await client.get(BUDGET, "b", "default")
            return bool((budget.get("status") or {}).get("disruptionsAllowed") == 1)
        await eventually(allowed)
        await client.apply(workload("Deployment", "b", replicas=2, strategy={"type": "Recreate"}), "test")

        async def ending() -> bool:
            return all(pod["metadata"].get("deletionTimestamp") for pod in await client.list(POD, "default"))
        await eventually(ending)
        await asyncio.sleep(0.1)   # by now all has been said of the old set
        for pod in await client.list(POD, "default"):
            assert pod["spec"]["containers"][0]["image"] == "a", "nothing new beside the old"
            await client.delete(POD, pod["metadata"]["name"], "default", grace_seconds=0)
        await eventually(lambda: start_pods(client, 2, "b"))

        async def done() -> bool:
            return bool((await client.get(DEPLOYMENT, "x", "default"))["status"].get("availableReplicas") == 2)
        await eventually(done)


async def test_a_paused_deployment_makes_nothing_new_but_follows_its_number() -> None:
    async with controllers() as client:
        await client.create(workload("Deployment", paused=True))

        async def told() -> bool:
            conditions = ((await client.get(DEPLOYMENT, "x", "default")).get("status") or {}).get("conditions") or ()
            return any(one["reason"] == "DeploymentPaused" for one in conditions)
        await eventually(told)
        assert await client.list(REPLICA_SET, "default") == []
        await client.patch(DEPLOYMENT, "x", "default", {"spec": {"paused": False}})
        await eventually(lambda: start_pods(client, 1, "a"))
        await client.apply(workload("Deployment", "b", paused=True, replicas=2), "test")
        await eventually(lambda: start_pods(client, 2, "a"))
        assert len(await client.list(REPLICA_SET, "default")) == 1
        await client.patch(DEPLOYMENT, "x", "default", {"spec": {"paused": False}})

        async def new_ones() -> bool:
            return await start_pods(client, 1, "b") or await start_pods(client, 2, "b")
        await eventually(new_ones)


async def left_alone(client: Client) -> Json:
    """The set of a Deployment that was deleted without it."""
    await client.create(workload("Deployment", replicas=1))
    await eventually(lambda: start_pods(client, 1, "a"))
    await client.delete(DEPLOYMENT, "x", "default", propagation="Orphan")

    async def gone() -> bool:
        return await client.find(DEPLOYMENT, "x", "default") is None
    await eventually(gone)
    [left] = await client.list(REPLICA_SET, "default")
    assert not left["metadata"].get("ownerReferences")
    return left


async def test_a_deployment_takes_up_what_another_of_its_name_left() -> None:
    async with controllers() as client:
        left = await left_alone(client)
        again = await client.create(workload("Deployment", replicas=1))

        async def taken_up() -> bool:
            found = controller_of(await client.get(REPLICA_SET, left["metadata"]["name"], "default"))
            return found is not None and found["uid"] == again["metadata"]["uid"]
        await eventually(taken_up)
        assert len(await client.list(POD, "default")) == 1


async def test_a_deployment_chooses_another_name_for_its_set() -> None:
    async with controllers() as client:
        left = await left_alone(client)
        other = await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "default"}})
        owned = {"metadata": {"ownerReferences": [controller_reference(other)]}}
        await client.patch(REPLICA_SET, left["metadata"]["name"], "default", owned)
        await client.create(workload("Deployment", replicas=1))

        async def both() -> bool:
            return len(await client.list(REPLICA_SET, "default")) == 2
        await eventually(both)
        assert (await client.get(DEPLOYMENT, "x", "default"))["status"]["collisionCount"] == 1


async def test_a_daemon_set_remembers_its_templates() -> None:
    async with controllers() as client:
        for image in ("a", "b", "a"):
            await client.apply(workload("DaemonSet", image), "test")

            async def seen() -> bool:
                daemon = await client.get(DAEMON_SET, "x", "default")
                return bool((daemon.get("status") or {}).get("observedGeneration") == daemon["metadata"]["generation"])
            await eventually(seen)
        kept = {one["data"]["spec"]["template"]["spec"]["containers"][0]["image"]: one["revision"]
                for one in await client.list(CONTROLLER_REVISION, "default")}
        assert kept == {"a": 3, "b": 2}, "what was rolled back to is the latest again"


async def test_a_stateful_set_mounts_its_claims() -> None:
    async with controllers() as client:
        claim = {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        wanted = workload("StatefulSet", serviceName="x", replicas=1, volumeClaimTemplates=[claim])
        wanted["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
        await client.create(wanted)
        await eventually(lambda: start_pods(client, 1, "a"))
        volumes = (await client.get(POD, "x-0", "default"))["spec"]["volumes"]
        assert {"name": "v", "persistentVolumeClaim": {"claimName": "v-x-0"}} in volumes
