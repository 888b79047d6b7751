"""The API server finds webhooks by Service, with the certificate names they have in a real cluster."""
import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.kit.api import Api, Refused
from tests.kit.credentials import Authority
from tests.kit.testbed import Testbed

pytestmark = pytest.mark.testbed
Json = dict[str, Any]


async def refuse(request: web.Request) -> web.Response:
    review = await request.json()
    verdict = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "refused by Service"}}
    return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": verdict})


@pytest.fixture
async def webhook(testbed: Testbed, api: Api, namespace: str, tmp_path: Path) -> AsyncIterator[Json]:
    """A validating webhook that refuses every ConfigMap of the namespace, reached as hook.<namespace>.svc."""
    authority = Authority(tmp_path)
    serving = authority.server("hook", [f"hook.{namespace}.svc"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(serving.certificate, serving.key)
    application = web.Application()
    application.router.add_post("/check", refuse)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    await api.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}}, namespace)
    testbed.expose(namespace, "hook", runner.addresses[0][1])
    service = {"name": "hook", "namespace": namespace, "path": "/check"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    configuration: Json = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": namespace},
        "webhooks": [{"name": "check.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [rule],
                      "clientConfig": {"service": service, "caBundle": base64.b64encode(authority.certificate.read_bytes()).decode()},
                      "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}]}
    await api.create(configuration)
    yield configuration
    await api.delete(configuration)
    await runner.cleanup()


async def test_a_webhook_is_called_by_service(webhook: Json, api: Api, namespace: str) -> None:
    async def create_many() -> None:
        for number in range(50):       # a new configuration takes a moment to come into force
            await api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}}, namespace)
    with pytest.raises(Refused, match="refused by Service"):
        await create_many()


async def test_a_wrong_certificate_is_not_trusted(webhook: Json, api: Api, namespace: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    stranger = base64.b64encode(Authority(other).certificate.read_bytes()).decode()
    change = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": stranger}]
    path = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{namespace}"
    await api.call("PATCH", path, change, "application/json-patch+json")
    seen = set()
    for number in range(200):
        try:
            await api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}}, namespace)
        except Refused as refusal:
            seen.add("unknown authority" if "certificate signed by unknown authority" in refusal.message else "reached")
            if "unknown authority" in seen:
                return
    pytest.fail(f"never refused the stranger's certificate: {seen}")
