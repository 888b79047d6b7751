"""Admission and conversion of all kinds on a real API server, served from this process.

No controller runs, so what is stored is what admission made of it.
"""

import asyncio
import base64
import datetime
import socket
import threading
from collections.abc import Coroutine
from typing import Any

from serveplane.api.admission import Context, Verdict, mutate, validate, validate_deletion
from serveplane.api.llminferenceservice.conversion import converted
from serveplane.api.policy import Policy
from serveplane.kube.admission import AdmissionRequest, mutating, validating
from serveplane.kube.keypairs import authority, server_pair
from serveplane.kube.webhook import WebhookServer
from tests.kit.api import Api, install
from tests.kit.testbed import Testbed

Json = dict[str, Any]
NAMESPACE, SERVICE = "kserve", "api-hooks"
HOUR = datetime.timedelta(hours=1)
NAME = "api-hooks.serving.kserve.io"


class Hooks:
    """The webhooks, and the world as they see it: tests say what is in it."""

    def __init__(self) -> None:
        self.policy = Policy()
        self.objects: list[Json] = []
        now = datetime.datetime.now(datetime.UTC)
        self.ca = authority("tests", now - HOUR, 48 * HOUR)
        self.server = WebhookServer()
        self._loop = asyncio.new_event_loop()
        self.server.admit("/mutate", mutating(lambda request: mutate(request.object, self._context())))
        self.server.admit("/validate", validating(self._judged))
        self.server.convert("/convert", converted)
        self.server.use(server_pair(self.ca, [f"{SERVICE}.{NAMESPACE}.svc"], now - HOUR, 24 * HOUR))

    def _context(self) -> Context:
        return Context(self.policy, self._lookup)

    def _lookup(self, kind: str, namespace: str) -> list[Json]:
        return [
            obj
            for obj in self.objects
            if obj["kind"] == kind and (not namespace or obj["metadata"].get("namespace") == namespace)
        ]

    def _judged(self, request: AdmissionRequest) -> Verdict:
        if not request.object:
            return validate_deletion(request.old, self._context())
        return validate(request.object, request.old or None, self._context())

    async def start(self, testbed: Testbed, api: Api, definitions: list[Json]) -> None:
        threading.Thread(target=self._loop.run_forever, name="webhooks", daemon=True).start()
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        await self._there(self.server.start(listener))
        testbed.expose(NAMESPACE, SERVICE, listener.getsockname()[1])
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE},
            "spec": {"ports": [{"port": 443}]},
        }
        await api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        await api.apply(service, NAMESPACE)
        for definition in definitions:
            if "conversion" in definition["spec"]:
                definition["spec"]["conversion"]["webhook"]["clientConfig"] = self._client("/convert")
        await install(api, definitions)
        for kind, path, operations in (
            ("MutatingWebhookConfiguration", "/mutate", ["CREATE", "UPDATE"]),
            ("ValidatingWebhookConfiguration", "/validate", ["CREATE", "UPDATE", "DELETE"]),
        ):
            await api.apply(self._configuration(kind, path, operations))

    async def stop(self, api: Api) -> None:
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            await api.delete(
                {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": NAME}}
            )
        for crd in await api.list("apiextensions.k8s.io/v1", "CustomResourceDefinition"):
            if crd["spec"].get("conversion", {}).get("strategy") == "Webhook":  # nobody converts any more
                await api.patch(crd, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})
        await self._there(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _there(self, work: Coroutine[Any, Any, None]) -> None:
        """In the loop of the server, which outlives the loops of single tests."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _client(self, path: str) -> Json:
        bundle = base64.b64encode(self.ca.certificate).decode()
        return {"caBundle": bundle, "service": {"name": SERVICE, "namespace": NAMESPACE, "path": path}}

    def _configuration(self, kind: str, path: str, operations: list[str]) -> Json:
        rule = {"apiGroups": ["serving.kserve.io"], "apiVersions": ["*"], "operations": operations, "resources": ["*"]}
        hook = {
            "name": NAME,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "matchPolicy": "Exact",
            "timeoutSeconds": 10,
            "clientConfig": self._client(path),
            "rules": [rule],
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": NAME},
            "webhooks": [hook],
        }
