"""The server in process: the verbs, the loops, and what must never get through."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from serveplane.embedded.apiserver import ADMIN, ApiServer, User, errors, loops
from serveplane.embedded.store import LogError
from serveplane.embedded.testing import api_server

Json = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"
NOBODY = User("nobody", ("system:authenticated",))


class Caller:
    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        content: str = "application/json",
        user: User = ADMIN,
        query: str = "",
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        status, _, answer = await self.server.handle(
            method, path, query, {"content-type": content, "user-agent": "unit/1"}, data, user
        )
        if not isinstance(answer, bytes):
            return status, answer
        return status, msgspec.json.decode(answer) if answer[:1] == b"{" else answer

    async def eventually(self, path: str, wanted: int) -> Json:
        for _ in range(2000):
            status, value = await self("GET", path)
            if status == wanted:
                return value
            await asyncio.sleep(0.005)
        raise AssertionError(f"{path} never answered {wanted}")


@pytest.fixture
async def call() -> AsyncIterator[Caller]:
    async with api_server() as server:
        yield Caller(server)


async def test_background_collection_follows_owners(call: Caller) -> None:
    _, owner = await call("POST", MAPS, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await call("POST", MAPS, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await call("POST", MAPS, {"metadata": {"name": "stranger"}})
    await call("DELETE", f"{MAPS}/owner")
    await call.eventually(f"{MAPS}/child", 404)
    assert (await call("GET", f"{MAPS}/stranger"))[0] == 200


async def test_a_child_of_two_owners_lives_until_the_second_goes(call: Caller) -> None:
    references = []
    for name in ("one", "two"):
        _, owner = await call("POST", MAPS, {"metadata": {"name": name}})
        references.append({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"]})
    await call("POST", MAPS, {"metadata": {"name": "child", "ownerReferences": references}})
    await call("DELETE", f"{MAPS}/one")
    for _ in range(1000):
        _, child = await call("GET", f"{MAPS}/child")
        if len(child["metadata"]["ownerReferences"]) == 1:
            break
        await asyncio.sleep(0.005)
    assert [one["name"] for one in child["metadata"]["ownerReferences"]] == ["two"]
    await call("DELETE", f"{MAPS}/two")
    await call.eventually(f"{MAPS}/child", 404)


async def test_orphans_stay_and_forget_their_owner(call: Caller) -> None:
    _, owner = await call("POST", MAPS, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await call("POST", MAPS, {"metadata": {"name": "child", "ownerReferences": [reference]}})
    await call("DELETE", f"{MAPS}/owner", query="propagationPolicy=Orphan")
    await call.eventually(f"{MAPS}/owner", 404)
    status, child = await call("GET", f"{MAPS}/child")
    assert status == 200
    assert "ownerReferences" not in child["metadata"]


async def test_foreground_waits_for_blocking_children(call: Caller) -> None:
    _, owner = await call("POST", MAPS, {"metadata": {"name": "owner"}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    await call(
        "POST",
        MAPS,
        {"metadata": {"name": "child", "ownerReferences": [reference], "finalizers": ["example.com/wait"]}},
    )
    _, dying = await call("DELETE", f"{MAPS}/owner", query="propagationPolicy=Foreground")
    assert dying["metadata"]["finalizers"] == ["foregroundDeletion"]
    for _ in range(1000):
        _, child = await call("GET", f"{MAPS}/child")
        if "deletionTimestamp" in child["metadata"]:
            break
        await asyncio.sleep(0.005)
    assert (await call("GET", f"{MAPS}/owner"))[0] == 200
    await call("PATCH", f"{MAPS}/child", {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    await call.eventually(f"{MAPS}/owner", 404)


async def test_a_namespaced_owner_of_a_cluster_scoped_object_is_not_followed(call: Caller) -> None:
    _, owner = await call("POST", MAPS, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    await call(
        "POST", "/api/v1/persistentvolumes", {"metadata": {"name": "v", "ownerReferences": [reference]}, "spec": volume}
    )
    await call("DELETE", f"{MAPS}/owner")
    await asyncio.sleep(0.1)
    assert (await call("GET", "/api/v1/persistentvolumes/v"))[0] == 200


async def test_a_namespace_ends_with_its_content(call: Caller) -> None:
    await call("POST", "/api/v1/namespaces", {"metadata": {"name": "gone"}})
    await call(
        "POST", "/api/v1/namespaces/gone/configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/wait"]}}
    )
    await call("DELETE", "/api/v1/namespaces/gone")
    _, dying = await call("GET", "/api/v1/namespaces/gone")
    assert dying["status"]["phase"] == "Terminating"
    status, refused = await call("POST", "/api/v1/namespaces/gone/configmaps", {"metadata": {"name": "b"}})
    assert (status, refused["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    await asyncio.sleep(0.05)
    await call(
        "PATCH",
        "/api/v1/namespaces/gone/configmaps/a",
        {"metadata": {"finalizers": None}},
        "application/merge-patch+json",
    )
    await call.eventually("/api/v1/namespaces/gone", 404)


async def test_a_claim_in_use_is_kept(call: Caller) -> None:
    await call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    claims, pods = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/namespaces/default/pods"
    await call(
        "POST",
        claims,
        {
            "metadata": {"name": "c"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}},
        },
    )
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    await call(
        "POST",
        pods,
        {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}], "volumes": [volume]}},
    )
    await call("DELETE", f"{claims}/c")
    await asyncio.sleep(0.05)
    assert (await call("GET", f"{claims}/c"))[0] == 200
    await call("DELETE", f"{pods}/p")
    await call.eventually(f"{claims}/c", 404)


async def test_aggregated_roles_grow(call: Caller) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    rules = [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}]
    await call(
        "POST",
        roles,
        {"metadata": {"name": "w", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}, "rules": rules},
    )
    for _ in range(1000):
        _, admin = await call("GET", f"{roles}/admin")
        if rules[0] in admin["rules"]:
            return
        await asyncio.sleep(0.005)
    raise AssertionError("admin did not get the rules of view")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", MAPS, 403),
        ("GET", "/api", 200),
        ("GET", "/healthz", 200),
        ("POST", "/api/v1/namespaces", 403),
        ("GET", "/metrics", 403),
    ],
)
async def test_a_user_without_roles_sees_only_what_everybody_may(
    call: Caller, method: str, path: str, status: int
) -> None:
    assert (await call(method, path, {"metadata": {"name": "x"}} if method == "POST" else None, user=NOBODY))[
        0
    ] == status


HOSTILE: dict[str, bytes] = {
    "deep": b'{"metadata":' * 20_000,
    "deep list": b'{"metadata":{"name":"a"},"data":' + b"[" * 100_000,
    "not utf-8": b'{"metadata":{"name":"\xff"}}',
    "a list": b"[]",
    "nothing": b"",
    "a number": b"1",
    "nul": b'{"metadata":{"name":"a\\u0000"}}',
    "huge number": b'{"metadata":{"name":"a","generation":' + b"9" * 400 + b"}}",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_bodies_are_refused_and_nothing_is_stored(call: Caller, name: str) -> None:
    for method, path, content in (
        ("POST", MAPS, "application/json"),
        ("PATCH", f"{MAPS}/a", "application/apply-patch+yaml"),
        ("PUT", f"{MAPS}/a", "application/json"),
        ("PATCH", f"{MAPS}/a", "application/strategic-merge-patch+json"),
    ):
        status, _ = await call(method, path, HOSTILE[name], content, query="fieldManager=m")
        assert 400 <= status < 500, (method, content, status)
    assert (await call("GET", MAPS))[1]["items"] == []


async def test_names_that_would_leave_their_place_are_refused(call: Caller) -> None:
    for name in ("..", "a/b", "a%2fb", ".", "a\x00b", "A", "-a", "x" * 300):
        assert (await call("POST", MAPS, {"metadata": {"name": name}}))[0] == 422


async def test_a_patch_flood_is_bounded(call: Caller) -> None:
    await call("POST", MAPS, {"metadata": {"name": "a"}})
    flood = [{"op": "test", "path": "/metadata/name", "value": "a"}] * 20_000
    assert (await call("PATCH", f"{MAPS}/a", flood, "application/json-patch+json"))[0] == 413


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


PODS, ACCOUNTS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/serviceaccounts"
SCALE = "/apis/apps/v1/namespaces/default/replicasets/r/scale"


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


async def test_a_watcher_that_never_reads_costs_nothing_and_learns_it_is_late(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    from serveplane.embedded.store import bucket

    monkeypatch.setattr(bucket, "HISTORY", 16)
    streams = [(await call("GET", MAPS, query="watch=true&resourceVersion=0"))[1] for _ in range(1000)]
    await call("POST", MAPS, {"metadata": {"name": "a"}})
    first = await anext(streams[0])
    assert b'"ADDED"' in first
    for number in range(50):
        await call("PATCH", f"{MAPS}/a", {"data": {"n": str(number)}}, "application/merge-patch+json")
    late = await anext(streams[0])
    assert msgspec.json.decode(late.splitlines()[0])["object"]["code"] == 410
    for stream in streams:
        await stream.aclose()


async def test_protobuf_bodies_are_read(call: Caller) -> None:
    """`kubectl create configmap a --from-literal=x=y`, byte for byte."""
    meta = (
        _field(1, b"a")
        + _field(2, b"")
        + _field(3, b"")
        + _field(5, b"")
        + _field(6, b"")
        + bytes([0x38, 0])
        + _field(8, b"")
    )
    entry = _field(1, b"x") + _field(2, b"y")
    raw = _field(1, meta) + _field(2, entry)
    envelope = (
        b"k8s\x00"
        + _field(1, _field(1, b"v1") + _field(2, b"ConfigMap"))
        + _field(2, raw)
        + _field(3, b"")
        + _field(4, b"")
    )
    status, value = await call("POST", MAPS, envelope, "application/vnd.kubernetes.protobuf")
    assert (status, value["data"]) == (201, {"x": "y"})
    for broken in (
        envelope[:-20],
        envelope[:30],
        b"k8s\x00\xff\xff\xff",
        b"k8s\x00" + b"\x0a" * 100,
        b"nope",
        envelope.replace(b"ConfigMap", b"ConfigMop"),
    ):
        assert (await call("POST", MAPS, broken, "application/vnd.kubernetes.protobuf"))[0] == 400


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


async def test_cel_rules_hold_where_they_can_run(call: Caller) -> None:
    pytest.importorskip("cel_expr_python.cel", reason="the extra [cel] is not installed")
    spec = {
        "type": "object",
        "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}},
        "x-kubernetes-validations": [
            {"rule": "self.low <= self.high", "message": "low is above high"},
            {"rule": "self.high >= oldSelf.high", "message": "high may only grow"},
        ],
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    definition = {
        "metadata": {"name": "ranges.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "versions": [version],
            "names": {"plural": "ranges", "kind": "Range"},
        },
    }
    assert (await call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition))[0] == 201
    path = "/apis/example.com/v1/namespaces/default/ranges"
    head = {"apiVersion": "example.com/v1", "kind": "Range", "metadata": {"name": "r"}}
    assert (await call("POST", path, {**head, "spec": {"low": 1, "high": 2}}))[0] == 201
    status, refused = await call("PATCH", f"{path}/r", {"spec": {"low": 5}}, "application/merge-patch+json")
    assert (status, refused["details"]["causes"][0]["message"]) == (422, 'Invalid value: "object": low is above high')
    assert (await call("PATCH", f"{path}/r", {"spec": {"high": 1}}, "application/merge-patch+json"))[0] == 422


async def test_unchanged_faults_are_let_be(call: Caller) -> None:
    """Ratcheting: a schema that became stricter does not hold up edits of other fields."""
    spec: Json = {"type": "object", "properties": {"mode": {"type": "string"}, "size": {"type": "integer"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "versions": [version],
            "names": {"plural": "things", "kind": "Thing"},
        },
    }
    await call("POST", definitions, definition)
    path = "/apis/example.com/v1/namespaces/default/things"
    await call(
        "POST",
        path,
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"mode": "odd"}},
    )
    _, live = await call("GET", f"{definitions}/things.example.com")
    live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["mode"]["enum"] = [
        "even"
    ]
    assert (await call("PUT", f"{definitions}/things.example.com", live))[0] == 200
    assert (await call("PATCH", f"{path}/t", {"spec": {"size": 1}}, "application/merge-patch+json"))[0] == 200
    assert (await call("PATCH", f"{path}/t", {"spec": {"mode": "strange"}}, "application/merge-patch+json"))[0] == 422


async def test_a_definition_takes_its_objects_along(call: Caller) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "versions": [version],
            "names": {"plural": "things", "kind": "Thing"},
        },
    }
    await call("POST", definitions, definition)
    await call(
        "POST",
        "/apis/example.com/v1/namespaces/default/things",
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}},
    )
    await call("DELETE", f"{definitions}/things.example.com")
    await call.eventually(f"{definitions}/things.example.com", 404)
    assert (await call("GET", "/apis/example.com/v1/namespaces/default/things"))[0] == 404
    await call("POST", definitions, definition)
    assert (await call("GET", "/apis/example.com/v1/namespaces/default/things"))[1]["items"] == []


async def test_tokens_die_with_their_account(call: Caller) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await call("POST", accounts, {"metadata": {"name": "worker"}})
    _, answer = await call("POST", f"{accounts}/worker/token", {"spec": {}})
    token = answer["status"]["token"]

    async def as_worker() -> int:
        status, _, _ = await call.server.handle("GET", "/api", "", {"authorization": f"Bearer {token}"}, b"")
        return status

    assert await as_worker() == 200
    head, body, signature = token.split(".")
    forged = (
        base64.urlsafe_b64encode(base64.urlsafe_b64decode(body + "==").replace(b"worker", b"master"))
        .rstrip(b"=")
        .decode()
    )
    status, _, _ = await call.server.handle(
        "GET", "/api", "", {"authorization": f"Bearer {head}.{forged}.{signature}"}, b""
    )
    assert status == 401
    await call("DELETE", f"{accounts}/worker")
    assert await as_worker() == 401
