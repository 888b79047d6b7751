"""Webhooks as the API server calls them: by Service name, over TLS, through rotation and resets."""

import asyncio
import base64
import datetime
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from serveplane.kube import Client, Kind
from serveplane.kube.cabundle import MUTATING, VALIDATING, Targets
from serveplane.kube.certs import CertificateOptions
from serveplane.kube.config import load_config
from serveplane.kube.errors import ApiError, Invalid, KubeError
from serveplane.kube.http_transport import HttpTransport
from serveplane.kube.keypairs import bundle, is_signed_by
from serveplane.kube.manager import Manager, ManagerOptions
from serveplane.kube.webhook_process import WebhookProcess
from serveplane.kube.webhooks import serve_webhooks
from tests.counts import COUNTS
from tests.kit.testbed import Testbed
from tests.kit.waiting import eventually
from tests.testbed.kube.example import GROUP, widget

pytestmark = pytest.mark.testbed
Json = dict[str, Any]
SECRET = Kind("v1", "Secret")


def gadgets(namespace: str) -> Json:
    """A kind in two versions, converted by our webhook; the caBundle is left to the manager."""
    group = f"{namespace}.example"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    client_config = {"service": {"name": "hooks", "namespace": namespace, "path": "/convert"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client_config},
            },
            "versions": [
                {"name": "v1", "served": True, "storage": False, "schema": schema},
                {"name": "v2", "served": True, "storage": True, "schema": schema},
            ],
        },
    }


def configuration(kind: Kind, name: str, namespace: str, path: str) -> Json:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{name}.{GROUP}",
                "admissionReviewVersions": ["v1", "v1beta1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 10,
                "clientConfig": {"service": {"name": "hooks", "namespace": namespace, "path": path}},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [
                    {
                        "apiGroups": [GROUP],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["widgets"],
                    }
                ],
            }
        ],
    }


@asynccontextmanager
async def hooks(
    testbed: Testbed, namespace: str, name: str, crds: tuple[str, ...] = (), **options: Any
) -> AsyncIterator[tuple[Manager, WebhookProcess]]:
    """One replica that serves the Widget webhooks, trusted by the API server."""
    transport = HttpTransport(load_config(str(testbed.kubeconfig)))
    manager = Manager(transport, ManagerOptions(user_agent=f"hooks-{namespace}"))
    process = WebhookProcess("tests.testbed.kube.answering", host="127.0.0.1", port=0)
    certificates = CertificateOptions("hooks-cert", namespace, [f"hooks.{namespace}.svc"], **options)
    serve_webhooks(
        manager, process, certificates, Targets("hooks", namespace, mutating=[name], validating=[name], crds=crds)
    )
    task = asyncio.create_task(manager.run())
    try:
        await eventually(lambda: process.pid or task.done(), 60)
        testbed.expose(namespace, "hooks", process.port)
        await eventually(lambda: task.done() or not any(check() for check in manager.health.ready.values()), 60)
        if task.done():
            task.result()
        yield manager, process
    finally:
        manager.stop()
        await asyncio.wait_for(task, 60)
        await transport.close()


@pytest.fixture
async def name(client: Client, widgets: Testbed, namespace: str) -> AsyncIterator[str]:
    """Service and configurations as a manifest would bring them, without any caBundle."""
    name = f"hooks-{namespace}"
    await client.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "hooks", "namespace": namespace},
            "spec": {"ports": [{"port": 443}]},
        }
    )
    for kind, path in ((MUTATING, "/mutate"), (VALIDATING, "/validate")):
        await client.apply(configuration(kind, name, namespace, path), "manifest")
    yield name
    for kind in (MUTATING, VALIDATING):
        await client.delete(kind, name)


async def test_defaults_refusals_and_warnings(widgets: Testbed, client: Client, namespace: str, name: str) -> None:
    heard: list[str] = []
    client.rest.warn = heard.append
    async with hooks(widgets, namespace, name):
        made = await client.create(widget("a", namespace, size=1))
        assert made["spec"] == {"size": 1, "colour": "grey"}
        with pytest.raises(Invalid) as refused:
            await client.create(widget("b", namespace, size=-1, colour="ultraviolet"))
        assert [cause.field for cause in refused.value.causes] == ["spec.size", "spec.colour"]
        await client.create(widget("c", namespace, colour="brown"))
        assert any("out of fashion" in warning for warning in heard)


async def test_replicas_share_one_certificate(widgets: Testbed, client: Client, namespace: str, name: str) -> None:
    async with hooks(widgets, namespace, name), hooks(widgets, namespace, name):
        secret = await client.get(SECRET, "hooks-cert", namespace)
        assert len(bundle(base64.b64decode(secret["data"]["ca.crt"]))) == 1
        await client.create(widget("a", namespace))


async def test_a_reset_ca_bundle_is_put_back(widgets: Testbed, client: Client, namespace: str, name: str) -> None:
    async with hooks(widgets, namespace, name):
        for kind in (MUTATING, VALIDATING):
            path = "/mutate" if kind is MUTATING else "/validate"
            live = await client.get(kind, name)
            fresh = configuration(kind, name, namespace, path)
            fresh["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
            emptied = await client.update(fresh)  # what `kubectl replace` does
            assert "caBundle" not in emptied["webhooks"][0]["clientConfig"]

        async def works() -> bool:
            try:
                await client.create(widget("a", namespace), dry_run=True)
            except ApiError:
                return False
            return True

        await eventually(works, 30)


async def test_a_killed_process_is_replaced(widgets: Testbed, client: Client, namespace: str, name: str) -> None:
    """The manager goes on; its successor has the same port and certificate."""
    async with hooks(widgets, namespace, name) as (manager, process):
        for number in range(2):
            killed = process.pid
            assert killed is not None
            os.kill(killed, signal.SIGKILL)

            async def works(number: int = number) -> bool:
                try:
                    await client.create(widget(f"w{number}", namespace))
                except ApiError:  # what the killed one was asked over a connection that was still open
                    return False
                return True

            await eventually(works, 30)
            assert process.pid != killed
        await eventually(lambda: not any(check() for check in manager.health.ready.values()), 30)


async def test_versions_are_converted(widgets: Testbed, client: Client, namespace: str, name: str) -> None:
    crd = gadgets(namespace)
    await client.create(crd)
    one, two = (Kind(f"{namespace}.example/{version}", "Gadget") for version in ("v1", "v2"))
    try:
        async with hooks(widgets, namespace, name, crds=(crd["metadata"]["name"],)):
            await eventually(lambda: client.discovery.served(one))
            made = {
                "apiVersion": one.api_version,
                "kind": "Gadget",
                "metadata": {"name": "a", "namespace": namespace},
                "spec": {"colour": "red"},
            }

            async def works() -> bool:
                try:
                    await client.apply(made, "tests")
                except ApiError:  # the server learns of a new caBundle a moment later
                    return False
                return True

            await eventually(works)
            assert (await client.get(two, "a", namespace))["spec"] == {"color": "red"}
            assert (await client.list(one, namespace))[0]["spec"] == {"colour": "red"}
            await client.delete(two, "a", namespace)
    finally:
        await client.delete(Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"), crd["metadata"]["name"])


@pytest.mark.stress
async def test_no_request_fails_under_rotation_resets_and_a_busy_reconcile(
    widgets: Testbed, client: Client, namespace: str, name: str
) -> None:
    """Certificates (and their authority) rotate every few seconds, the manifest is applied again and again, and the manager burns CPU."""
    lives = {"life": datetime.timedelta(seconds=60), "ca_life": datetime.timedelta(seconds=120), "renew_at": 0.55}
    often = {"check_seconds": 0.5, "settle_seconds": 1.0}
    async with hooks(widgets, namespace, name, **lives, **often):
        failures: list[KubeError] = []
        first = await client.get(SECRET, "hooks-cert", namespace)

        async def admit(n: int) -> None:
            try:
                await client.create(widget(f"w{n}", namespace, size=n), dry_run=True)
            except KubeError as error:
                failures.append(error)

        async def admit_all_along(n: int) -> None:
            await admit(n)
            while not resets.done():
                await admit(n)

        async def applied_again() -> None:
            for _ in range(COUNTS.ca_resets):
                for kind, path in ((MUTATING, "/mutate"), (VALIDATING, "/validate")):
                    await client.apply(configuration(kind, name, namespace, path), "manifest")
                await asyncio.sleep(0.1)

        async def rotated() -> bool:
            now = await client.get(SECRET, "hooks-cert", namespace)
            authority = bundle(base64.b64decode(now["data"]["ca.crt"]))[0]
            served = base64.b64decode(now["data"]["tls.crt"])
            return authority not in base64.b64decode(first["data"]["ca.crt"]) and is_signed_by(served, authority)

        burning = asyncio.create_task(burn())
        resets = asyncio.create_task(applied_again())
        await asyncio.gather(*map(admit_all_along, range(COUNTS.admission_in_flight)))
        await resets
        await eventually(rotated, 90)
        await asyncio.gather(*map(admit, range(50)))
        burning.cancel()
        assert failures == []


async def burn() -> None:
    """A reconcile that computes: 50 ms at a time without giving way."""
    loop = asyncio.get_running_loop()
    while True:
        end = loop.time() + 0.05
        while loop.time() < end:
            sum(range(1000))
        await asyncio.sleep(0.01)
