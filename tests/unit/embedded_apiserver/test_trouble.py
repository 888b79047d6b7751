"""What goes wrong around a server, and what is wrong in what it is sent."""

import asyncio
from typing import Any

import msgspec
import pytest

from serveplane.embedded.apiserver import errors, loops
from serveplane.embedded.store import LogError
from tests.unit.embedded_apiserver.calling import MAPS, Caller

Json = dict[str, Any]
PODS, ACCOUNTS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/serviceaccounts"
SCALE = "/apis/apps/v1/namespaces/default/replicasets/r/scale"


@pytest.mark.parametrize(("method", "content"), [("PUT", "application/json"), ("PATCH", "application/merge-patch+json")])
async def test_a_write_that_insists_on_no_version_outlasts_others(
    call: Caller, monkeypatch: pytest.MonkeyPatch, method: str, content: str
) -> None:
    await call("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "old"}})
    admit, left = call.server.core.admit, 2

    async def slowly(write: Any) -> None:
        nonlocal left
        if write.request.method == method and write.value["data"]["k"] == "new" and left:
            left -= 1
            assert (await call("PATCH", f"{MAPS}/a", {"data": {f"other{left}": "x"}}, "application/merge-patch+json"))[0] == 200
        await admit(write)

    monkeypatch.setattr(call.server.core, "admit", slowly)
    status, answer = await call(method, f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"k": "new"}}, content)
    assert (status, answer["data"]["k"], left) == (200, "new", 0)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", SCALE, {"spec": [1]}), ("PUT", SCALE, {"spec": {"replicas": 10**30}}), ("PUT", SCALE, {"metadata": 5}),
        ("PATCH", SCALE, [1]), ("PATCH", SCALE, {"spec": 5}), ("PATCH", SCALE, {"spec": {"replicas": "x"}}),
        ("POST", f"{ACCOUNTS}/default/token", {"spec": 5}), ("POST", f"{ACCOUNTS}/default/token", {"spec": {"expirationSeconds": "x"}}),
        ("POST", f"{ACCOUNTS}/default/token", {"spec": {"boundObjectRef": 5}}),
        ("POST", f"{PODS}/p/binding", {"target": 5}), ("POST", f"{PODS}/p/binding", {"target": {"name": 5}}),
        ("POST", f"{PODS}/p/eviction", {"deleteOptions": 5}), ("POST", f"{PODS}/p/eviction", {"metadata": 5}),
    ],
)  # fmt: skip
async def test_what_fits_no_type_is_refused_below_names_too(call: Caller, method: str, path: str, body: Any) -> None:
    await call("POST", ACCOUNTS, {"metadata": {"name": "default"}})
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await call("POST", PODS, {"metadata": {"name": "p"}, **template})
    made = {"metadata": {"name": "r"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    assert (await call("POST", "/apis/apps/v1/namespaces/default/replicasets", made))[0] == 201
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    assert (await call(method, path, body, content))[0] == 400


async def test_a_scale_that_cannot_be_patched(call: Caller) -> None:
    made = {"metadata": {"name": "r"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}  # fmt: skip
    await call("POST", "/apis/apps/v1/namespaces/default/replicasets", made)
    steps = [{"op": "test", "path": "/spec/replicas", "value": 7}]
    assert (await call("PATCH", SCALE, steps, "application/json-patch+json"))[0] == 422


async def test_a_limit_below_zero_is_none(call: Caller) -> None:
    await call("POST", MAPS, {"metadata": {"name": "a"}})
    assert len((await call("GET", MAPS, query="limit=-5"))[1]["items"]) == 1


@pytest.mark.parametrize(
    "options",
    [{"gracePeriodSeconds": "x"}, {"preconditions": "x"}, {"preconditions": {"uid": 5}}, {"dryRun": 5}, {"orphanDependents": "x"}],
)
async def test_a_deletion_that_cannot_be_read_deletes_nothing(call: Caller, options: Json) -> None:
    await call("POST", MAPS, {"metadata": {"name": "a"}})
    assert (await call("DELETE", f"{MAPS}/a", options))[0] == 400
    assert (await call("GET", f"{MAPS}/a"))[0] == 200


async def test_a_pod_may_be_given_any_time(call: Caller) -> None:
    await call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    pods, spec = "/api/v1/namespaces/default/pods", {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    assert (await call("POST", pods, {"metadata": {"name": "p"}, "spec": spec}))[0] == 201
    assert (await call("DELETE", f"{pods}/p", {"gracePeriodSeconds": 10**15}))[0] == 200


async def test_the_servers_loops_outlast_a_full_disk(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "PAUSE", 0.01)
    delete, full = call.server.store.delete, True

    def refused_at_first(bucket: str, record: Any, value: Any = None) -> Any:
        if full and record.key.name in ("child", "n"):
            raise LogError("database or disk is full")
        return delete(bucket, record, value)

    monkeypatch.setattr(call.server.store, "delete", refused_at_first)
    _, owner = await call("POST", MAPS, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await call("POST", MAPS, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await call("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    await call("DELETE", f"{MAPS}/owner")
    await call("DELETE", "/api/v1/namespaces/n")
    await asyncio.sleep(0.05)
    assert (await call("GET", f"{MAPS}/child"))[0] == (await call("GET", "/api/v1/namespaces/n"))[0] == 200
    full = False
    await call.eventually(f"{MAPS}/child", 404)
    await call.eventually("/api/v1/namespaces/n", 404)


async def test_what_may_not_go_yet_is_asked_again(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a webhook says no for a while: the rest of a namespace goes nevertheless."""
    monkeypatch.setattr(loops, "PAUSE", 0.01)
    deleting, stubborn = call.server.core.deleting, True
    delete_record = deleting.delete_record

    async def judged(core: Any, request: Any, resource: Any, record: Any, options: Any) -> Any:
        if stubborn and record.key.name in ("a", "child"):
            raise errors.forbidden("configmaps", "", record.key.name, "not yet")
        return await delete_record(core, request, resource, record, options)

    monkeypatch.setattr(deleting, "delete_record", judged)
    await call("POST", "/api/v1/namespaces", {"metadata": {"name": "n"}})
    content = "/api/v1/namespaces/n/configmaps"
    for name in ("a", "b"):
        await call("POST", content, {"metadata": {"name": name}})
    _, owner = await call("POST", MAPS, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await call("POST", MAPS, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await call("DELETE", f"{MAPS}/owner")
    await call("DELETE", "/api/v1/namespaces/n")
    await call.eventually(f"{content}/b", 404)
    assert (await call("GET", f"{content}/a"))[0] == (await call("GET", f"{MAPS}/child"))[0] == 200
    stubborn = False
    await call.eventually("/api/v1/namespaces/n", 404)
    await call.eventually(f"{MAPS}/child", 404)


async def test_a_bookmark_never_speaks_of_what_was_not_sent(call: Caller) -> None:
    """Whoever starts again from it would miss what was written while the first objects were on their way."""
    await call("POST", MAPS, {"metadata": {"name": "first"}})
    asked = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    _, stream = await call("GET", MAPS, query=asked)
    assert b'"first"' in await anext(stream)
    _, second = await call("POST", MAPS, {"metadata": {"name": "second"}})
    bookmark = msgspec.json.decode(await anext(stream))
    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) < int(second["metadata"]["resourceVersion"])
    assert b'"second"' in await anext(stream)
    await stream.aclose()
