"""Webhooks as the API server calls them: by Service name, over TLS, through rotation and resets."""

import asyncio
import base64
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from serveplane.kube import Client, Kind
from serveplane.kube.cabundle import MUTATING, VALIDATING
from serveplane.kube.errors import ApiError, Invalid
from serveplane.kube.keypairs import bundle, is_signed_by
from serveplane.kube.manager import Manager
from serveplane.kube.webhook_process import WebhookProcess
from tests.counts import COUNTS
from tests.kit.processes import REPOSITORY, free_ports, start, stop, tail
from tests.kit.testbed import Testbed
from tests.kit.waiting import eventually
from tests.testbed.kube.example import GROUP, widget
from tests.testbed.kube.hooking import hooked

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
    manager, process = hooked(str(testbed.kubeconfig), namespace, name, crds, **options)
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
        await manager.client.close()


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
        await eventually(lambda: is_admitted(client, namespace), 30)


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
    widgets: Testbed, client: Client, namespace: str, name: str, tmp_path: Path
) -> None:
    """Certificates (and their authority) rotate every few seconds, the manifest is applied again and again, and the manager burns CPU."""
    log = tmp_path / "manager.log"
    [port] = free_ports(1)
    widgets.expose(namespace, "hooks", port)
    manager = start([sys.executable, "-m", "tests.testbed.kube.hooking", widgets.kubeconfig, namespace, name, str(port)], log)
    try:
        await eventually(lambda: is_admitted(client, namespace), 60, lambda: tail(log))
        first = await client.get(SECRET, "hooks-cert", namespace)
        async with people(widgets, namespace, COUNTS.admission_in_flight) as leave:
            for _ in range(COUNTS.ca_resets):
                for kind, path in ((MUTATING, "/mutate"), (VALIDATING, "/validate")):
                    await client.apply(configuration(kind, name, namespace, path), "manifest")
                await asyncio.sleep(0.1)
            await eventually(lambda: is_rotated(client, namespace, first), 90)
            report = await leave()
    finally:
        stop(manager)
    print(f"{report['admitted']} requests admitted, {report['most_in_flight']} at once")
    assert report["failures"] == []
    assert report["most_in_flight"] == COUNTS.admission_in_flight


async def is_admitted(client: Client, namespace: str) -> bool:
    try:
        await client.create(widget("a", namespace), dry_run=True)
    except ApiError:
        return False
    return True


async def is_rotated(client: Client, namespace: str, first: Json) -> bool:
    """The certificate is of an authority that nobody trusted at first."""
    now = await client.get(SECRET, "hooks-cert", namespace)
    before, trusted, served = (base64.b64decode(data) for data in (first["data"]["ca.crt"], now["data"]["ca.crt"], now["data"]["tls.crt"]))
    return any(is_signed_by(served, authority) for authority in bundle(trusted) if authority not in before)


@asynccontextmanager
async def people(testbed: Testbed, namespace: str, count: int) -> AsyncIterator[Callable[[], Awaitable[Json]]]:
    """Widgets being created all the time; what is yielded ends that and tells how it went."""
    arguments = ("-m", "tests.testbed.kube.admitting", str(testbed.kubeconfig), namespace, str(count))
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=PIPE, stdout=PIPE, cwd=REPOSITORY)

    async def leave() -> Json:
        told, _ = await asyncio.wait_for(process.communicate(b""), 180)
        return json.loads(told)

    try:
        yield leave
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
