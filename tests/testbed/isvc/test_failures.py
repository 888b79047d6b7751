"""Each way to fail has its own reason and a sentence that names what is at fault; healing is told too."""
from typing import Any

import pytest

from tests.kit.installation import Installation
from tests.kit.testbed import Testbed
from tests.kit.world import Outcome, Rule, annotation
from tests.testbed.isvc.conftest import Cluster, iris

pytestmark = pytest.mark.testbed
Json = dict[str, Any]


async def break_by(cluster: Cluster, *rules: Rule) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.namespace}}
    await cluster.api.patch(space, {"metadata": {"annotations": annotation(*rules)}})


@pytest.mark.parametrize(("rule", "reason", "words"), [
    pytest.param(Rule(Outcome.IMAGE_PULL), "ImagePullFailed", ["kserve-container"], id="image pull"),
    pytest.param(Rule(Outcome.UNSCHEDULABLE), "Unschedulable", ["cannot be scheduled"], id="unschedulable"),
    pytest.param(Rule(Outcome.UNBOUND_CLAIM), "VolumeClaimPending", ["volume"], id="volume claim"),
    pytest.param(Rule(Outcome.INIT_ERROR, container="storage-initializer", exit_code=1, message="403 Forbidden: acme/iris"),
                 "ModelDownloadFailed", ["storage-initializer", "exit code 1", "403 Forbidden"], id="download"),
    pytest.param(Rule(Outcome.OUT_OF_MEMORY, container="kserve-container"), "OutOfMemory", ["memory"], id="out of memory"),
    pytest.param(Rule(Outcome.CRASH_LOOP, container="kserve-container", exit_code=3, message="ValueError: no such model"),
                 "CrashLoop", ["exit code 3", "ValueError: no such model"], id="crash loop"),
    pytest.param(Rule(Outcome.CONFIG_ERROR), "ContainerNotCreated", ["cannot be created"], id="configuration"),
])
async def test_pods_that_fail(cluster: Cluster, rule: Rule, reason: str, words: list[str]) -> None:
    await break_by(cluster, rule)
    await cluster.api.create(iris(), cluster.namespace)

    async def is_told() -> Json | None:
        told = await cluster.told("Ready")
        return told if told.get("reason") == reason else None
    told = await cluster.until(is_told, f"the reason {reason}")
    assert told["status"] == "False"
    assert all(word in told["message"] for word in words), told["message"]
    await break_by(cluster)
    await cluster.ready()


async def test_a_probe_that_never_succeeds(cluster: Cluster) -> None:
    await break_by(cluster, Rule(Outcome.PROBE_FAILING))
    service = iris()
    probe = {"httpGet": {"path": "/up", "port": 8080}, "periodSeconds": 1, "failureThreshold": 1}
    service["spec"]["predictor"]["model"]["readinessProbe"] = probe
    await cluster.api.create(service, cluster.namespace)

    async def is_told() -> bool:
        told = await cluster.told("Ready")
        return told.get("reason") == "ProbeFailing" and "HTTP GET /up on port 8080" in told["message"]
    assert await cluster.until(is_told, "ProbeFailing")


async def test_a_quota_that_leaves_no_room(cluster: Cluster) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    await cluster.api.create(quota, cluster.namespace)
    await cluster.api.create(iris(), cluster.namespace)

    async def is_told() -> bool:
        told = await cluster.told("Ready")
        return told.get("reason") == "QuotaExceeded" and "exceeded quota: none" in told["message"]
    assert await cluster.until(is_told, "QuotaExceeded")


async def test_a_route_that_the_gateway_refuses(cluster: Cluster) -> None:
    await break_by(cluster, Rule(Outcome.REFUSED, kind="HTTPRoute", message="no listener allows this namespace"))
    await cluster.api.create(iris(), cluster.namespace)

    async def is_told() -> bool:
        told = await cluster.told("IngressReady")
        return told.get("status") == "False" and "no listener allows this namespace" in told.get("message", "")
    assert await cluster.until(is_told, "the gateway's own words")
    assert (await cluster.told("PredictorReady"))["status"] == "True"


async def test_a_runtime_that_is_missing_and_then_comes(cluster: Cluster) -> None:
    service = iris()
    service["spec"]["predictor"]["model"] |= {"runtime": "house", "modelFormat": {"name": "housemodel"}}
    await cluster.api.create(service, cluster.namespace)

    async def is_told() -> bool:
        return (await cluster.told("Ready")).get("reason") == "RuntimeNotRecognized"
    assert await cluster.until(is_told, "RuntimeNotRecognized")
    assert "house" in (await cluster.told("Ready"))["message"]
    spec = {"supportedModelFormats": [{"name": "housemodel"}], "containers": [{"name": "kserve-container", "image": "acme/house:1"}]}
    runtime = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "metadata": {"name": "house"}, "spec": spec}
    await cluster.api.create(runtime, cluster.namespace)
    ready = await cluster.ready()
    assert ready["status"]["servingRuntimeName"] == "house"
    assert "lastFailureInfo" not in ready["status"]["modelStatus"]


async def test_runtimes_that_come_one_by_one_cost_few_status_writes(cluster: Cluster, world: Testbed, manager: Installation) -> None:
    """Each changes what there is to say on runtimes; only what lasts is said."""
    assert world.audit is not None
    mark, account = world.audit.mark(), manager.managers[-1].account
    service = iris()
    service["spec"]["predictor"]["model"]["modelFormat"] = {"name": "housemodel"}
    await cluster.api.create(service, cluster.namespace)
    for number in range(12):
        formats = [{"name": "housemodel", "autoSelect": number == 11}]
        spec = {"supportedModelFormats": formats, "containers": [{"name": "kserve-container", "image": "acme/house:1"}]}
        runtime = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "metadata": {"name": f"house-{number}"},
                   "spec": spec}
        await cluster.api.create(runtime, cluster.namespace)
    assert (await cluster.ready())["status"]["servingRuntimeName"] == "house-11"
    asked = world.audit.requests(mark, user=account, namespace=cluster.namespace, verbs={"patch"})
    assert sum(request.resource == "inferenceservices/status" for request in asked) <= 5
