"""From the previous release, kept as files, to the present one: no pod of a service rolls."""

import asyncio
import copy

import pytest

from serveplane.objects import Json, yamlio
from tests.kit.api import Api, condition, install
from tests.kit.installation import Installation
from tests.kit.plugin import run_apart
from tests.kit.testbed import Testbed
from tests.kit.waiting import eventually
from tests.testbed.install.conftest import Run
from tests.testbed.install.moving import Id, Snapshot, id_of
from tests.testbed.install.recording import FOLDER, NAMESPACE, defaults

pytestmark = pytest.mark.testbed
SERVICE = "InferenceService"
WEBHOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
GATEWAY: Json = {
    "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "kserve-ingress-gateway", "namespace": "kserve"},
    "spec": {"gatewayClassName": "world", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP",
                                                          "allowedRoutes": {"namespaces": {"from": "All"}}}]}}  # fmt: skip


@pytest.fixture(scope="module")
def seen(played: Testbed, kubectl: Run) -> tuple[Snapshot, Snapshot]:
    """The children under the previous release and under this one."""
    return run_apart(lambda: _upgraded(played, kubectl))


async def _upgraded(bed: Testbed, kubectl: Run) -> tuple[Snapshot, Snapshot]:
    async with Api(bed.kubeconfig) as api:
        made = await _previous(api)
        before = await _children(api, made)
        await asyncio.to_thread(kubectl, "apply", "--server-side", "--force-conflicts", "-k", "config/default")
        installation = Installation(bed)
        try:
            manager = installation.run("kserve", "--leader-elect")
            await asyncio.to_thread(manager.await_ready)
            await eventually(lambda: _are_ready(api), 120, "every service is ready under this release")
            await asyncio.sleep(3)
            return before, await _children(api, made)
        finally:
            await asyncio.to_thread(installation.stop)


async def _previous(api: Api) -> list[Id]:
    """What that release had put there, in the order in which it came to be: its manager wrote children by server-side apply."""
    given = yamlio.load_all((FOLDER / "install.yaml").read_text())
    await install(api, [obj for obj in given if obj["kind"] not in WEBHOOKS])
    await install(api, [*defaults(given), GATEWAY, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    owner: Json = {}
    children = []
    for obj in yamlio.load_all((FOLDER / "children.yaml").read_text()):
        if obj["kind"] == SERVICE:
            owner = await api.create(obj)
        else:
            children.append(id_of(await api.apply(_owned(obj, owner), manager="serveplane")))
    await install(api, [obj for obj in given if obj["kind"] in WEBHOOKS])
    return children


def _owned(child: Json, owner: Json) -> Json:
    child = copy.deepcopy(child)
    child["metadata"]["ownerReferences"][0]["uid"] = owner["metadata"]["uid"]
    return child


async def _children(api: Api, made: list[Id]) -> Snapshot:
    kinds = sorted({(where.api_version, where.kind) for where in made})
    return {id_of(obj): obj for kind in kinds for obj in await api.list(*kind, NAMESPACE) if obj["metadata"].get("ownerReferences")}


async def _are_ready(api: Api) -> bool:
    services = await api.list("serving.kserve.io/v1beta1", SERVICE, NAMESPACE)
    return all(condition(obj, "Ready") for obj in services)


def test_no_pod_template_changes(seen: tuple[Snapshot, Snapshot]) -> None:
    before, after = ({where: obj["spec"]["template"] for where, obj in age.items() if where.kind == "Deployment"} for age in seen)
    assert before
    assert after == before


def test_no_child_is_made_again(seen: tuple[Snapshot, Snapshot]) -> None:
    before, after = ({where: obj["metadata"]["uid"] for where, obj in age.items()} for age in seen)
    assert after == before
