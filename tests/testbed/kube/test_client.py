"""The client against a real API server."""

import asyncio
from contextlib import aclosing

import pytest

from serveplane.kube import Client, Kind, PatchType
from serveplane.kube.errors import AlreadyExists, Conflict, Invalid, NoSuchKind, NotFound
from tests.kit.testbed import Testbed
from tests.testbed.kube.example import WIDGET, widget

pytestmark = pytest.mark.testbed
CONFIG_MAP = Kind("v1", "ConfigMap")


def config_map(name: str, namespace: str, **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


async def test_verbs(client: Client, namespace: str) -> None:
    made = await client.create(config_map("a", namespace, x="1"))
    assert (await client.get(CONFIG_MAP, "a", namespace))["data"] == {"x": "1"}
    with pytest.raises(AlreadyExists):
        await client.create(config_map("a", namespace))
    made["data"]["x"] = "2"
    newer = await client.update(made)
    with pytest.raises(Conflict):
        await client.update(made)
    await client.patch(CONFIG_MAP, "a", namespace, {"data": {"y": "3"}})
    await client.patch(CONFIG_MAP, "a", namespace, {"data": {"z": "4"}}, patch_type=PatchType.STRATEGIC)
    await client.patch(CONFIG_MAP, "a", namespace, [{"op": "remove", "path": "/data/x"}], patch_type=PatchType.JSON)
    applied = await client.apply(config_map("a", namespace, w="5"), "me")
    assert applied["data"] == {"y": "3", "z": "4", "w": "5"}
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAP, "a", namespace, resource_version=newer["metadata"]["resourceVersion"])
    await client.delete(CONFIG_MAP, "a", namespace, uid=applied["metadata"]["uid"])
    assert await client.find(CONFIG_MAP, "a", namespace) is None
    with pytest.raises(NotFound):
        await client.delete(CONFIG_MAP, "a", namespace)


async def test_an_invalid_object_names_its_fields(client: Client, namespace: str) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"containers": []},
    }
    with pytest.raises(Invalid) as error:
        await client.create(pod)
    assert [cause.field for cause in error.value.causes] == ["spec.containers"]


async def test_names_cannot_leave_their_path(client: Client, namespace: str) -> None:
    for name in ("../secrets/x", "..", "a/b", "a%2fb", "a b", ""):
        with pytest.raises(ValueError, match="name"):
            await client.get(CONFIG_MAP, name, namespace)


async def test_lists_come_in_pages_and_carry_their_kind(client: Client, namespace: str) -> None:
    for n in range(7):
        await client.create(config_map(f"c{n}", namespace))
    names = [item["metadata"]["name"] for item in await client.list(CONFIG_MAP, namespace, limit=3)]
    assert [name for name in names if name != "kube-root-ca.crt"] == [f"c{n}" for n in range(7)]
    one = await client.list(CONFIG_MAP, namespace, fields="metadata.name=c3")
    assert [(item["apiVersion"], item["kind"], item["metadata"]["name"]) for item in one] == [("v1", "ConfigMap", "c3")]


async def test_watch_tells_what_happens(client: Client, namespace: str) -> None:
    seen: list[tuple[str, str]] = []

    async def watch() -> None:
        async with aclosing(client.watch(CONFIG_MAP, namespace, fields="metadata.name=w")) as events:
            async for event in events:
                seen.append((event.type, event.object["metadata"].get("name", "")))
                if event.type == "DELETED":
                    return

    task = asyncio.create_task(watch())
    await asyncio.sleep(0.2)
    await client.create(config_map("w", namespace))
    await client.patch(CONFIG_MAP, "w", namespace, {"data": {"a": "b"}})
    await client.delete(CONFIG_MAP, "w", namespace)
    await asyncio.wait_for(task, 5)
    assert [event for event in seen if event[0] != "BOOKMARK"] == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")]


async def test_status_and_scale_are_apart(client: Client, widgets: Testbed, namespace: str) -> None:
    made = await client.create(widget("w", namespace, size=1))
    await client.update_status({**made, "spec": {"size": 9}, "status": {"well": True}})
    now = await client.get(WIDGET, "w", namespace)
    assert (now["spec"], now["status"]) == ({"size": 1}, {"well": True})


async def test_a_kind_that_appears_later_is_found(client: Client, testbed: Testbed) -> None:
    with pytest.raises(NoSuchKind):
        await client.list(Kind("nowhere.example/v1", "Nothing"))
    assert not await client.discovery.served(Kind("v1", "NoSuchThing"))
    assert (await client.discovery.by_name("deploy")).kind == Kind("apps/v1", "Deployment")
    assert (await client.discovery.by_name("Service")).kind == Kind("v1", "Service")
