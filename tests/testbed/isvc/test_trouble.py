"""The API server misbehaves, and KServe was here before: nothing is left behind, nothing rolls."""
import asyncio
from typing import Any

import pytest

from tests.counts import SEED
from tests.kit.faults import FaultProxy, Faults
from tests.kit.installation import NAMESPACE, PROGRAMS, Installation
from tests.kit.processes import tail
from tests.kit.testbed import Testbed
from tests.testbed.isvc.conftest import Cluster, iris

pytestmark = pytest.mark.testbed
Json = dict[str, Any]
FLAKY = Faults(errors=0.05, busy=0.05, conflicts=0.05, lost=0.03, watch_seconds=3)


async def test_a_flaky_api_server_leaves_nothing_behind(cluster: Cluster, world: Testbed, installation: Installation) -> None:
    """A second manager, alone at work behind a proxy that loses, delays and refuses; the usual one hands over meanwhile."""
    usual = installation.managers[0]
    await asyncio.to_thread(usual.stop)
    try:
        token = await asyncio.to_thread(_token, world)
        async with FaultProxy(world.kubeconfig, FLAKY, SEED) as proxy:
            flaky = installation.run("kserve", "--leader-elect", kubeconfig=proxy.kubeconfig_for(token))
            try:
                await asyncio.to_thread(flaky.await_ready, 90)
                for number in range(3):
                    await cluster.api.create(iris(f"s{number}"), cluster.namespace)
                for number in range(3):
                    await cluster.ready(f"s{number}", seconds=240)
                for number in range(3):
                    await cluster.api.delete(iris(f"s{number}"), cluster.namespace)

                async def is_gone() -> bool:
                    left = [await cluster.service(f"s{number}") for number in range(3)]
                    return not any(left) and await cluster.children() == []
                assert await cluster.until(is_gone, "services and children are gone")
            finally:
                print(proxy.counts, tail(flaky.log, 60), sep="\n")       # shown if the test fails
                await asyncio.to_thread(flaky.stop)
    finally:
        again = installation.run("kserve", "--leader-elect")
        await asyncio.to_thread(again.await_ready, 90)


def _token(world: Testbed) -> str:
    import yaml
    config = yaml.safe_load(world.service_account(NAMESPACE, PROGRAMS["kserve"].account).read_text())
    token: str = config["users"][0]["user"]["token"]
    return token


RUNTIME: Json = {
    "apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "metadata": {"name": "house"},
    "spec": {"supportedModelFormats": [{"name": "sklearn"}], "containers": [{"name": "kserve-container", "image": "acme/house:1"}]}}


async def test_what_kserve_made_is_taken_over_without_a_roll(cluster: Cluster) -> None:
    """A Deployment as KServe's manager writes it (POST under its own field manager): adopted, and later removals take effect."""
    service = iris()
    service["spec"]["predictor"]["model"] |= {"env": [{"name": "EXTRA", "value": "1"}], "runtime": "house"}
    created = await cluster.api.create(service, cluster.namespace)
    await cluster.until(lambda: cluster.told("Ready"), "the manager waits for the runtime")
    theirs = await _as_kserve_would(cluster, created)
    await cluster.api.create(RUNTIME, cluster.namespace)
    await cluster.ready()
    ours = await cluster.deployment()
    assert ours["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert ours["spec"]["template"] == theirs["spec"]["template"]
    assert ours["metadata"]["generation"] == theirs["metadata"]["generation"]
    writers = {(entry["manager"], entry["operation"]) for entry in ours["metadata"]["managedFields"] if not entry.get("subresource")}
    assert ("manager", "Update") not in writers
    await cluster.api.patch(service, {"spec": {"predictor": {"model": {"env": None}}}}, cluster.namespace)

    async def is_removed() -> bool:
        container = (await cluster.deployment())["spec"]["template"]["spec"]["containers"][0]
        return all(item["name"] != "EXTRA" for item in container["env"])
    assert await cluster.until(is_removed, "the variable is gone")


async def _as_kserve_would(cluster: Cluster, service: Json) -> Json:
    """The Deployment of this service, written by POST under KServe's field manager."""
    from serveplane.cli.offline import Surroundings
    from serveplane.clock import SYSTEM
    from serveplane.controllers.inferenceservice.decide import decide
    from serveplane.controllers.inferenceservice.world import World
    from serveplane.settings import settings_from
    config = await cluster.api.get("v1", "ConfigMap", "inferenceservice-config", NAMESPACE)
    runtime = {**RUNTIME, "metadata": {"name": "house", "namespace": cluster.namespace}}
    facts = Surroundings(settings_from(config), [runtime]).facts(cluster.namespace)
    plan = decide(World(raw=service, facts=facts, now=SYSTEM.now(), assume_healthy=True))
    found = [child for child in plan.children if child["kind"] == "Deployment"]
    assert found, f"{plan.failure}; mode {service['metadata'].get('annotations')}, settings {facts.settings.deploy}"
    wanted = found[0]
    owner = {"apiVersion": service["apiVersion"], "kind": service["kind"], "name": "iris", "uid": service["metadata"]["uid"],
             "controller": True, "blockOwnerDeletion": True}
    wanted["metadata"] = {**wanted["metadata"], "ownerReferences": [owner]}
    path = await cluster.api.collection_of(wanted, cluster.namespace)
    made: Json = await cluster.api.call("POST", f"{path}?fieldManager=manager", wanted)
    return made
