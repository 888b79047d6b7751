"""One service and its surroundings, read from a cluster for `explain`."""
import asyncio
import os

from serveplane.api.model import read
from serveplane.api.servingruntime import ServingRuntime
from serveplane.api.storagecontainer import ClusterStorageContainer
from serveplane.cli.offline import BadInput
from serveplane.clock import SYSTEM
from serveplane.controllers.inferenceservice.caches import CLUSTER_RUNTIME, SERVING_RUNTIME, STORAGE_CONTAINER
from serveplane.controllers.inferenceservice.credentials import gather_credentials
from serveplane.controllers.inferenceservice.world import CONFIG_MAP, INFERENCE_SERVICE, World
from serveplane.kube.client import Client
from serveplane.kube.config import load_config
from serveplane.kube.errors import KubeError, NotFound, one_line
from serveplane.kube.http_transport import HttpTransport
from serveplane.objects import Json
from serveplane.render.facts import CONTROL_NAMESPACE, Facts
from serveplane.settings import CONFIG_MAP as SETTINGS_NAME
from serveplane.settings import settings_from


def seen_service(name: str, namespace: str, kubeconfig: str) -> World:
    try:
        return asyncio.run(_seen(name, namespace, kubeconfig))
    except NotFound:
        raise BadInput(f"there is no InferenceService {namespace}/{name}") from None
    except KubeError as error:
        raise BadInput(one_line(error)) from None


async def _seen(name: str, namespace: str, kubeconfig: str) -> World:
    transport = HttpTransport(load_config(kubeconfig or None))
    client = Client(transport, SYSTEM)
    try:
        raw = await client.get(INFERENCE_SERVICE, name, namespace)
        return World(raw=raw, facts=await _facts(client, raw, namespace), now=SYSTEM.now())
    finally:
        await transport.close()


async def _facts(client: Client, raw: Json, namespace: str) -> Facts:
    control = os.environ.get("POD_NAMESPACE") or CONTROL_NAMESPACE
    settings = settings_from(await client.find(CONFIG_MAP, SETTINGS_NAME, control))
    accounts, secrets = await gather_credentials(client, raw, settings)
    return Facts(
        settings=settings, runtimes=[read(ServingRuntime, obj) for obj in await client.list(SERVING_RUNTIME, namespace)],
        cluster_runtimes=[read(ServingRuntime, obj) for obj in await client.list(CLUSTER_RUNTIME)],
        storage_containers=[read(ClusterStorageContainer, obj) for obj in await client.list(STORAGE_CONTAINER)],
        accounts=accounts, secrets=secrets, control_namespace=control)
