"""Which writes a webhook is asked about. Nobody answers here, so a write that gets through was not its business."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from serveplane.embedded.apiserver import ADMIN
from serveplane.embedded.apiserver.crd import rules
from serveplane.embedded.testing import TestServer, api_server

Json = dict[str, Any]
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    async with api_server() as found:
        yield found


async def sent(server: TestServer, path: str, value: Json) -> tuple[int, Json]:
    body = msgspec.json.encode(value)
    status, _, answer = await server.handle("POST", path, "", {"content-type": "application/json"}, body, ADMIN)
    assert isinstance(answer, bytes)
    return status, msgspec.json.decode(answer)


def hook(group: str, version: str, resource: str, **more: Any) -> Json:
    webhook = {
        "name": "hook.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE"], "resources": [resource]}], **more,
    }  # fmt: skip
    return {"metadata": {"name": "hook"}, "webhooks": [webhook]}


@pytest.mark.skipif(rules.cel is None, reason="the extra serveplane[cel] is not installed")
@pytest.mark.parametrize(
    ("expression", "policy", "status"),
    [
        ("object.metadata.name == 'other'", "Fail", 201),
        ("object.metadata.name == 'mine'", "Fail", 500),
        ("request.userInfo.username != 'system:admin'", "Fail", 201),
        ("request.operation == 'CREATE' && !has(object.data)", "Fail", 500),
        ("object.nothing.at.all == 1", "Fail", 403),
        ("object.nothing.at.all == 1", "Ignore", 201),
    ],
)
async def test_conditions_take_a_webhook_out(server: TestServer, expression: str, policy: str, status: int) -> None:
    conditions = [{"name": "c", "expression": expression}]
    made, _ = await sent(server, HOOKS, hook("", "v1", "configmaps", matchConditions=conditions, failurePolicy=policy))
    assert made == 201
    assert (await sent(server, MAPS, {"metadata": {"name": "mine"}}))[0] == status


@pytest.mark.parametrize(("policy", "status"), [("Exact", 201), ("Equivalent", 500)])
async def test_rules_for_one_version_may_be_meant_for_all(server: TestServer, policy: str, status: int) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")]
    spec = {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": versions}
    assert (await sent(server, DEFINITIONS, {"metadata": {"name": "things.example.com"}, "spec": spec}))[0] == 201
    assert (await sent(server, HOOKS, hook("example.com", "v1", "things", matchPolicy=policy)))[0] == 201
    thing = {"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "t"}}
    assert (await sent(server, "/apis/example.com/v2/namespaces/default/things", thing))[0] == status
