"""The server in process: the verbs, the loops, and what must never get through."""

import asyncio
import base64
from typing import Any

import msgspec
import pytest

from serveplane.embedded.apiserver import User
from tests.unit.embedded_apiserver.calling import MAPS, Caller

Json = dict[str, Any]
NOBODY = User("nobody", ("system:authenticated",))


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
