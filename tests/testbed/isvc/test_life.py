"""A service through its life: changed, stopped, meddled with, switched over, deleted."""
import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.kit.installation import NAMESPACE, Installation
from tests.kit.testbed import Testbed
from tests.kit.world import Outcome, Rule, annotation
from tests.testbed.isvc.conftest import Cluster, iris

pytestmark = pytest.mark.testbed
Json = dict[str, Any]
STOP = "serving.kserve.io/stop"


async def edit(cluster: Cluster, change: Json) -> None:
    await cluster.api.patch(iris(), change, cluster.namespace)


async def test_stop_and_start_again(cluster: Cluster) -> None:
    await cluster.api.create(iris(), cluster.namespace)
    await cluster.ready()
    before = await cluster.children()
    await edit(cluster, {"metadata": {"annotations": {STOP: "true"}}})

    async def is_gone() -> bool:
        return await cluster.children() == [] and (await cluster.told("Stopped")).get("status") == "True"
    assert await cluster.until(is_gone, "all children gone")
    assert (await cluster.told("Ready"))["reason"] == "Stopped"
    await edit(cluster, {"metadata": {"annotations": {STOP: None}}})
    await cluster.ready()
    assert await cluster.children() == before


async def test_a_modelmesh_service_is_left_to_modelmesh(cluster: Cluster) -> None:
    service = iris()
    service["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": "ModelMesh"}
    await cluster.api.create(service, cluster.namespace)

    async def is_said() -> bool:
        return (await cluster.told("PredictorReady")).get("reason") == "LeftToModelMesh"
    assert await cluster.until(is_said, "the status says who serves it")
    assert await cluster.children() == []
    found = await cluster.service()
    path = f"/apis/serving.kserve.io/v1beta1/namespaces/{cluster.namespace}/inferenceservices/iris/status"
    theirs = {"conditions": [{"type": "Ready", "status": "True"}], "modelStatus": {"transitionStatus": "UpToDate"}}
    await cluster.api.call("PUT", path, {**found, "status": theirs})
    await edit(cluster, {"metadata": {"annotations": {"look": "again"}}})
    await asyncio.sleep(2)
    assert (await cluster.service())["status"]["conditions"] == theirs["conditions"]
    assert await cluster.children() == []


async def test_what_is_no_longer_wanted_goes(cluster: Cluster) -> None:
    service = iris()
    service["spec"]["transformer"] = {"containers": [{"name": "kserve-container", "image": "acme/pre:1"}]}
    await cluster.api.create(service, cluster.namespace)
    await cluster.ready()
    assert "Deployment iris-transformer" in await cluster.children()
    await edit(cluster, {"spec": {"transformer": None}, "metadata": {"annotations": {"serving.kserve.io/autoscalerClass": "keda"}}})

    async def is_switched() -> bool:
        children = await cluster.children()
        return not any("transformer" in child or "HorizontalPodAutoscaler" in child for child in children) \
            and "ScaledObject iris-predictor" in children
    assert await cluster.until(is_switched, "no transformer, no HPA, a ScaledObject")
    assert "transformer" not in (await cluster.ready())["status"]["components"]


async def test_meddling_is_undone_within_a_second_and_told(cluster: Cluster) -> None:
    """The quickest of some tries counts: how long the busy machine of a test run takes is not what is asked here."""
    await cluster.api.create(iris(), cluster.namespace)
    await cluster.ready()
    path = f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments/iris-predictor"
    deleting, editing = [], []
    for number in range(3):
        service = await cluster.child("v1", "Service", "iris-predictor")
        assert service is not None
        await cluster.api.delete(service, cluster.namespace)
        deleting.append(await _seconds_until(cluster, _is_remade(cluster, service["metadata"]["uid"]), "the Service is made again"))
        await cluster.api.call("PATCH", path, {"spec": {"revisionHistoryLimit": number}}, "application/merge-patch+json",
                               fieldManager="kubectl-meddler")
        editing.append(await _seconds_until(cluster, _is_put_back(cluster), "the Deployment is put back"))
    assert min(deleting) < 1.0, deleting
    assert min(editing) < 1.0, editing

    async def messages() -> str:
        events = await cluster.api.list("v1", "Event", cluster.namespace)
        return "\n".join(event["message"] for event in events if event["reason"] == "ChildRestored")

    async def is_told() -> bool:
        told = await messages()
        deleted, edited = f"Service/{cluster.namespace}/iris-predictor had been deleted", "was changed by kubectl-meddler ("
        return deleted in told and edited in told and "revisionHistoryLimit" in told
    assert await cluster.until(is_told, "events that name who it was"), await messages()


async def _seconds_until(cluster: Cluster, question: Callable[[], Awaitable[bool]], what: str) -> float:
    began = asyncio.get_running_loop().time()
    assert await cluster.until(question, what)
    return asyncio.get_running_loop().time() - began


def _is_remade(cluster: Cluster, uid: str) -> Callable[[], Awaitable[bool]]:
    async def question() -> bool:
        found = await cluster.child("v1", "Service", "iris-predictor")
        return found is not None and found["metadata"]["uid"] != uid
    return question


def _is_put_back(cluster: Cluster) -> Callable[[], Awaitable[bool]]:
    async def question() -> bool:
        return bool((await cluster.deployment())["spec"]["revisionHistoryLimit"] == 10)
    return question


async def test_another_kind_of_ingress_takes_the_place_of_the_first(cluster: Cluster) -> None:
    await cluster.api.create(iris(), cluster.namespace)
    await cluster.ready()
    assert "HTTPRoute iris" in await cluster.children()
    async with settings(cluster, "ingress", {"enableGatewayApi": False}):
        async def is_an_ingress() -> bool:
            children = await cluster.children()
            return "Ingress iris" in children and not any("HTTPRoute" in child for child in children)
        assert await cluster.until(is_an_ingress, "an Ingress, and no route")
        await cluster.ready()

    async def is_a_route() -> bool:
        children = await cluster.children()
        return {"HTTPRoute iris", "HTTPRoute iris-predictor"} <= set(children) and "Ingress iris" not in children
    assert await cluster.until(is_a_route, "routes, and no Ingress")


async def test_a_collector_comes_and_goes_with_its_metric(cluster: Cluster) -> None:
    metric = {"type": "PodMetric", "podmetric": {"metric": {"backend": "opentelemetry", "metricNames": ["q_total"], "query": "q_total"},
                                                 "target": {"type": "Value", "value": "4"}}}
    service = iris(maxReplicas=3, autoScaling={"metrics": [metric]})
    service["metadata"]["annotations"] = {"serving.kserve.io/autoscalerClass": "keda"}
    await cluster.api.create(service, cluster.namespace)
    await cluster.ready()

    async def collectors() -> list[Json]:
        return await cluster.api.list("opentelemetry.io/v1beta1", "OpenTelemetryCollector", cluster.namespace)
    assert [found["metadata"]["name"] for found in await collectors()] == ["iris-predictor"]
    await edit(cluster, {"metadata": {"annotations": {"serving.kserve.io/autoscalerClass": "none"}},
                         "spec": {"predictor": {"autoScaling": None}}})

    async def is_gone() -> bool:
        return await collectors() == [] and not any("ScaledObject" in child for child in await cluster.children())
    assert await cluster.until(is_gone, "neither collector nor ScaledObject")


@pytest.mark.parametrize("missing", ["ServiceAccount", "Secret", "Secret of several sources"])
async def test_credentials_that_come_later_are_found(cluster: Cluster, missing: str) -> None:
    """They are not watched: pods that were refused for want of them are tried again soon after they came."""
    account: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "late"}, "secrets": [{"name": "login"}]}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
              "stringData": {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}}
    service = iris(serviceAccountName="late")
    if missing == "Secret of several sources":
        del service["spec"]["predictor"]["model"]["storageUri"]
        service["spec"]["predictor"]["storageUris"] = [{"uri": "s3://acme/iris", "mountPath": "/mnt/models/a"}]
    else:
        service["spec"]["predictor"]["model"]["storageUri"] = "s3://acme/iris"
    first, then = (secret, account) if missing == "ServiceAccount" else (account, secret)
    await cluster.api.create(first, cluster.namespace)
    await cluster.api.create(service, cluster.namespace)
    words = {"ServiceAccount": '"late" not found', "Secret": "there is no secret login"}[missing.partition(" ")[0]]

    async def is_told() -> bool:
        return words in ((await cluster.told("PredictorReady")).get("message") or "")
    assert await cluster.until(is_told, f"the status says {words}")
    await asyncio.sleep(5)       # by now the ReplicaSet itself tries only seldom
    await cluster.api.create(then, cluster.namespace)
    await cluster.ready(seconds=60)


async def test_the_status_follows_a_local_model(cluster: Cluster) -> None:
    """A service that was given a local copy of its model, and pods that wait for its volume."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.namespace}}
    await cluster.api.patch(space, {"metadata": {"annotations": annotation(Rule(Outcome.UNBOUND_CLAIM))}})
    name = f"near-{cluster.namespace}"[:60]
    cache = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "LocalModelCache", "metadata": {"name": name},
             "spec": {"sourceModelUri": f"gs://acme/{cluster.namespace}", "modelSize": "1Gi", "nodeGroups": ["gpu"]}}
    service = iris()
    service["spec"]["predictor"]["model"]["storageUri"] = f"gs://acme/{cluster.namespace}/iris"

    async def says(words: str) -> bool:
        return words in ((await cluster.told("Ready")).get("message") or "")
    async with settings(cluster, "localModel", {"enabled": True}):
        await cluster.api.create(cache)
        try:
            created = await cluster.api.create(service, cluster.namespace)
            assert created["metadata"]["labels"]["internal.serving.kserve.io/localmodel"] == name
            assert await cluster.until(lambda: says("has no node to hold the model yet"), "what the cache says")
            await cluster.api.patch(cache, {"status": {"copies": {"available": 1, "total": 2}}}, subresource="status")
            assert await cluster.until(lambda: says("on 1 of 2 nodes"), "what the cache says now")
        finally:
            await cluster.api.delete(service, cluster.namespace)
            await cluster.api.delete(cache)


@contextlib.asynccontextmanager
async def settings(cluster: Cluster, section: str, change: Json) -> AsyncIterator[None]:
    """The central ConfigMap with some fields of a section changed, for a while."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inferenceservice-config"}}
    stored = await cluster.api.get("v1", "ConfigMap", "inferenceservice-config", NAMESPACE)
    assert stored is not None
    before = stored["data"].get(section)
    await cluster.api.patch(config, {"data": {section: json.dumps({**json.loads(before or "{}"), **change})}}, NAMESPACE)
    try:
        await asyncio.sleep(1)       # until the webhooks have it
        yield
    finally:
        await cluster.api.patch(config, {"data": {section: before}}, NAMESPACE)


async def test_an_edit_rolls_and_ready_stays(cluster: Cluster) -> None:
    await cluster.api.create(iris(), cluster.namespace)
    first = await cluster.ready()
    await edit(cluster, {"spec": {"predictor": {"model": {"storageUri": "gs://acme/iris/2"}}}})

    async def is_served() -> bool:
        service = await cluster.service()
        assert any(told["type"] == "Ready" and told["status"] == "True" for told in service["status"]["conditions"])
        return service["status"].get("observedGeneration") == service["metadata"]["generation"] > first["metadata"]["generation"]
    assert await cluster.until(is_served, "the new generation serves")
    template = (await cluster.deployment())["spec"]["template"]
    assert template["metadata"]["annotations"]["internal.serving.kserve.io/storage-initializer-sourceuri"] == "gs://acme/iris/2"


async def test_canaries_come_get_their_share_and_go(cluster: Cluster) -> None:
    service = iris()
    service["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": "Standard"}
    canary = {"trafficPercent": 20, "predictor": {"name": "next", "model": {"modelFormat": {"name": "xgboost"}, "storageUri": "gs://acme/2"}}}
    service["spec"]["canary"] = [canary]
    await cluster.api.create(service, cluster.namespace)
    await cluster.ready()

    async def weights() -> Json:
        route = await cluster.child("gateway.networking.k8s.io/v1", "HTTPRoute", "iris") or {"spec": {"rules": [{"backendRefs": []}]}}
        return {backend["name"]: backend.get("weight") for backend in route["spec"]["rules"][0]["backendRefs"]}

    async def is_shared() -> bool:
        return await weights() == {"iris-predictor": 80, "iris-next-predictor": 20}
    assert await cluster.until(is_shared, "80 to 20")
    await cluster.api.patch(service, {"spec": {"canary": None}}, cluster.namespace)

    async def is_alone() -> bool:
        return await weights() == {"iris-predictor": 1} and not any("next" in child for child in await cluster.children())
    assert await cluster.until(is_alone, "the canary is gone")


async def test_looking_again_costs_nothing(cluster: Cluster, world: Testbed, manager: Installation) -> None:
    """Every edit of a runtime makes its services be looked at; where nothing follows from it, nothing is asked or written."""
    await cluster.api.create(iris(), cluster.namespace)
    ready = await cluster.ready()
    await asyncio.sleep(3)       # what trails behind belongs to the start
    assert world.audit is not None
    mark, account = world.audit.mark(), manager.managers[-1].account
    runtime = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ClusterServingRuntime", "metadata": {"name": "kserve-sklearnserver"}}
    for number in range(20):
        await cluster.api.patch(runtime, {"metadata": {"annotations": {"acme.test/looked-at": str(number)}}})
    await asyncio.sleep(2)
    asked = [request for request in world.audit.requests(mark, user=account, namespace=cluster.namespace) if request.verb != "watch"]
    assert [(request.verb, request.resource) for request in asked] == []
    assert (await cluster.service())["metadata"]["resourceVersion"] == ready["metadata"]["resourceVersion"]


async def test_a_download_is_followed_by_its_log_and_no_other(cluster: Cluster, world: Testbed, manager: Installation) -> None:
    """No kubelet here answers for the log, which must disturb nobody; what is asked for, and that it may be, is seen all the same."""
    assert world.audit is not None
    mark, account, audit = world.audit.mark(), manager.managers[-1].account, world.audit
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.namespace}}
    await cluster.api.patch(space, {"metadata": {"annotations": annotation(Rule(Outcome.INIT_RUNNING, name="slow-*"))}})
    await cluster.api.create(iris("slow"), cluster.namespace)
    await cluster.api.create(iris("quick"), cluster.namespace)
    await cluster.ready("quick")

    async def is_asked() -> bool:
        return any(request.resource == "pods/log" for request in audit.requests(mark, user=account, namespace=cluster.namespace))
    assert await cluster.until(is_asked, "a look at the log")
    asked = [request for request in audit.requests(mark, user=account, namespace=cluster.namespace) if request.resource == "pods/log"]
    assert all(request.name.startswith("slow-predictor-") and "container=storage-initializer" in request.uri for request in asked)
    assert all(request.status not in (401, 403) for request in asked)

    async def is_loading() -> bool:
        model = ((await cluster.service("slow")).get("status") or {}).get("modelStatus") or {}
        return (model.get("states") or {}).get("targetModelState") == "Loading"
    assert await cluster.until(is_loading, "the model to be told as loading")


async def test_the_table_of_runtimes_reaches_status_event_and_command(cluster: Cluster, world: Testbed) -> None:
    service = iris()
    service["spec"]["predictor"]["model"]["modelFormat"] = {"name": "sklearn", "version": "99"}
    await cluster.api.create(service, cluster.namespace)
    table = "kserve-sklearnserver serves sklearn version 1, not 99"

    async def is_told() -> bool:
        return table in ((await cluster.told("Ready")).get("message") or "")
    assert await cluster.until(is_told, "the status has the table")

    async def events() -> list[Json]:
        return [event for event in await cluster.api.list("v1", "Event", cluster.namespace) if event["reason"] == "NoSupportingRuntime"]
    assert await cluster.until(events, "an event")
    await asyncio.sleep(2)
    assert [(event.get("count", 1), table in event["message"]) for event in await events()] == [(1, True)]
    words = ["explain", "isvc/iris", "-n", cluster.namespace, "--kubeconfig", str(world.kubeconfig)]
    command = [sys.executable, "-m", "serveplane.cli.main", *words]
    answer = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    assert "kserve-sklearnserver" in answer.stdout
    assert "serves sklearn version 1, not 99" in answer.stdout


async def test_deletion_takes_everything_along(cluster: Cluster) -> None:
    await cluster.api.create(iris(), cluster.namespace)
    await cluster.ready()
    await cluster.api.delete(iris(), cluster.namespace)

    async def is_gone() -> bool:
        return not await cluster.service() and await cluster.children() == []
    assert await cluster.until(is_gone, "the service and its children are gone")
