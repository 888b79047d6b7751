"""Admission and conversion webhooks over real TLS, by URL and by Service."""

import base64
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from serveplane import http
from serveplane.embedded.apiserver.pki import Authority
from serveplane.embedded.testing import api_server
from tests.unit.embedded_apiserver.calling import MAPS, Caller

Json = dict[str, Any]
HOOKS = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Hook:
    """A webhook server whose answer a test decides."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.requests: list[Json] = []
        self.answer: Callable[[Json], Json] = lambda request: {"allowed": True}

    async def start(self) -> None:
        pair = self.authority.issue("hook", "hook", hosts=["127.0.0.1", "hook.default.svc"], server=True)
        self.server = await http.serve(self._handle, tls=http.TlsConfig(pair.certificate, pair.key))
        self.port = self.server.port

    async def _handle(self, request: http.Request) -> http.Response:
        review = msgspec.json.decode(await request.read())
        self.requests.append(review["request"])
        response = {"uid": review["request"]["uid"], **self.answer(review["request"])}
        return http.Response.json({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response})

    @property
    def bundle(self) -> str:
        return base64.b64encode(self.authority.certificate.encode()).decode()

    def configuration(self, kind: str = "Validating", **more: Any) -> Json:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
        webhook = {
            "name": "hook.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{self.port}/check", "caBundle": self.bundle},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": "hook"},
            "webhooks": [webhook],
        }


@pytest.fixture
async def call() -> AsyncIterator[Caller]:
    async with api_server() as server:
        yield Caller(server)


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Hook]:
    found = Hook(tmp_path)
    await found.start()
    yield found
    await found.server.close()


def patch(*operations: Json) -> Json:
    return {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(msgspec.json.encode(operations)).decode(),
    }


async def test_a_validating_webhook_refuses_in_its_own_words(call: Caller, hook: Hook) -> None:
    assert (await call("POST", f"{HOOKS}/validatingwebhookconfigurations", hook.configuration()))[0] == 201
    hook.answer = lambda request: {
        "allowed": False,
        "status": {"message": "not today", "code": 422, "reason": "Invalid"},
        "warnings": ["think again"],
    }
    status, refused = await call("POST", MAPS, {"metadata": {"name": "a"}})
    assert (status, refused["reason"], refused["message"]) == (
        422,
        "Invalid",
        'admission webhook "hook.example.com" denied the request: not today',
    )
    asked = hook.requests[0]
    assert (asked["operation"], asked["name"], asked["namespace"], asked["resource"]["resource"]) == (
        "CREATE",
        "a",
        "default",
        "configmaps",
    )
    assert asked["object"]["metadata"]["uid"]
    hook.answer = lambda request: {"allowed": request["operation"] != "DELETE"}
    assert (await call("POST", MAPS, {"metadata": {"name": "a"}}))[0] == 201
    assert (await call("DELETE", f"{MAPS}/a"))[0] == 400
    assert hook.requests[-1]["oldObject"]["metadata"]["name"] == "a"


async def test_a_mutating_webhook_changes_what_is_stored(call: Caller, hook: Hook) -> None:
    await call("POST", f"{HOOKS}/mutatingwebhookconfigurations", hook.configuration("Mutating"))
    hook.answer = lambda request: patch({"op": "add", "path": "/data", "value": {"added": "yes"}})
    status, made = await call("POST", MAPS, {"metadata": {"name": "a"}})
    assert (status, made["data"]) == (201, {"added": "yes"})
    hook.answer = lambda request: patch({"op": "replace", "path": "/nothing/there", "value": 1})
    assert (await call("POST", MAPS, {"metadata": {"name": "b"}}))[0] == 500


async def test_failure_policy_decides_what_silence_means(call: Caller, hook: Hook) -> None:
    await hook.server.close()
    for policy, status in (("Fail", 500), ("Ignore", 201)):
        await call("POST", f"{HOOKS}/validatingwebhookconfigurations", hook.configuration(failurePolicy=policy))
        got, value = await call("POST", MAPS, {"metadata": {"name": policy.lower()}})
        assert got == status
        if policy == "Fail":
            assert 'failed calling webhook "hook.example.com"' in value["message"]
        await call("DELETE", f"{HOOKS}/validatingwebhookconfigurations/hook")


async def test_a_certificate_of_a_stranger_is_not_trusted(call: Caller, hook: Hook, tmp_path: Path) -> None:
    configuration = hook.configuration()
    stranger = Authority(tmp_path / "other")
    configuration["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(stranger.certificate.encode()).decode()
    await call("POST", f"{HOOKS}/validatingwebhookconfigurations", configuration)
    assert (await call("POST", MAPS, {"metadata": {"name": "a"}}))[0] == 500
    assert hook.requests == []


async def test_selectors_rules_and_dry_run_choose_the_calls(call: Caller, hook: Hook) -> None:
    configuration = hook.configuration(objectSelector={"matchLabels": {"watched": "yes"}}, sideEffects="Some")
    await call("POST", f"{HOOKS}/validatingwebhookconfigurations", configuration)
    await call("POST", MAPS, {"metadata": {"name": "plain"}})
    await call("POST", MAPS.replace("configmaps", "secrets"), {"metadata": {"name": "s", "labels": {"watched": "yes"}}})
    assert hook.requests == []
    await call("POST", MAPS, {"metadata": {"name": "w", "labels": {"watched": "yes"}}})
    assert len(hook.requests) == 1
    assert (await call("POST", MAPS, {"metadata": {"name": "x", "labels": {"watched": "yes"}}}, query="dryRun=All"))[
        0
    ] == 400
    assert len(hook.requests) == 1


async def test_a_service_is_found_through_its_ready_endpoints(call: Caller, hook: Hook) -> None:
    configuration = hook.configuration()
    configuration["webhooks"][0]["clientConfig"] = {
        "service": {"namespace": "default", "name": "hook", "path": "/check"},
        "caBundle": hook.bundle,
    }
    await call("POST", f"{HOOKS}/validatingwebhookconfigurations", configuration)
    status, refused = await call("POST", MAPS, {"metadata": {"name": "a"}})
    assert status == 500
    assert 'service "hook" not found' in refused["message"]
    await call(
        "POST",
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443, "targetPort": 9443}]}},
    )
    _, refused = await call("POST", MAPS, {"metadata": {"name": "a"}})
    assert "no endpoints available" in refused["message"]
    slice_ = {
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["127.0.0.9"], "conditions": {"ready": False}},
            {"addresses": ["127.0.0.1"], "conditions": {"ready": True}},
        ],
        "ports": [{"port": hook.server.port}],
    }
    await call("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice_)
    assert (await call("POST", MAPS, {"metadata": {"name": "a"}}))[0] == 201
    assert len(hook.requests) == 1


async def test_versions_are_converted_by_webhook(call: Caller, hook: Hook) -> None:
    def version(name: str, storage: bool, field: str) -> Json:
        schema = {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {field: {"type": "string"}}}},
        }
        return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}

    def converted(request: Json) -> Json:
        names = {"example.com/v1": "old", "example.com/v2": "new"}
        wanted = request["desiredAPIVersion"]
        out = [
            {**item, "apiVersion": wanted, "spec": {names[wanted]: next(iter(item["spec"].values()))}}
            for item in request["objects"]
        ]
        return {"result": {"status": "Success"}, "convertedObjects": out}

    client = {"url": f"https://127.0.0.1:{hook.server.port}/convert", "caBundle": hook.bundle}
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", True, "old"), version("v2", False, "new")],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
            },
        },
    }
    assert (await call("POST", DEFINITIONS, definition))[0] == 201
    hook.answer = converted
    path = "/apis/example.com/{}/namespaces/default/things"
    status, made = await call(
        "POST",
        path.format("v2"),
        {"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"new": "x"}},
    )
    assert (status, made["spec"]) == (201, {"new": "x"})
    assert (await call("GET", path.format("v1") + "/t"))[1]["spec"] == {"old": "x"}
    listed = (await call("GET", path.format("v2")))[1]
    assert [item["spec"] for item in listed["items"]] == [{"new": "x"}]
    hook.answer = lambda request: {"result": {"status": "Failure", "message": "no idea"}}
    status, refused = await call("GET", path.format("v2") + "/t")
    assert status == 500
    assert "no idea" in refused["message"]
