"""The apply engine against a real API server: whatever was added, changed, reordered or removed ends as in a fresh create."""

import asyncio
import copy
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from serveplane.kube import Client
from serveplane.kube.apply import MANAGER, REPLICAS_MANAGER, Applied, ApplyEngine, Did, NotOurs
from serveplane.kube.client import PatchType
from serveplane.kube.errors import Conflict, KubeError
from serveplane.kube.informers import Informers
from serveplane.kube.kind import Kind, ref_of
from serveplane.kube.ownership import entries
from serveplane.objects.equality import same
from serveplane.objects.schema import named_type
from tests.counts import SEED
from tests.kit.testbed import Testbed
from tests.kit.waiting import eventually
from tests.testbed.kube.example import DEPLOYMENT, WIDGET, widget

pytestmark = pytest.mark.testbed
Json = dict[str, Any]
SHAPE = named_type("apps.v1.Deployment")
RICH_DEPLOYMENT = Path(__file__).with_name("rich_deployment.yaml")


@pytest.fixture
async def informers(client: Client, widgets: Testbed, namespace: str) -> AsyncIterator[Informers]:
    """Caches of this namespace."""
    informers = Informers(client, namespaces=[namespace])
    for kind in (DEPLOYMENT, Kind("v1", "Service"), Kind("v1", "ConfigMap"), WIDGET):
        informers.informer(kind)
    async with asyncio.TaskGroup() as group:
        informers.start(group)
        await informers.synced()
        yield informers
        await informers.stop()


@pytest.fixture
def engine(client: Client, informers: Informers) -> ApplyEngine:
    return ApplyEngine(client, informers)


@pytest.fixture
async def owner(client: Client, widgets: Testbed, namespace: str) -> Json:
    return await client.create(widget("owner", namespace))


def rich_deployment(namespace: str) -> Json:
    """A Deployment that uses every kind of list and map there is."""
    value: Json = yaml.safe_load(RICH_DEPLOYMENT.read_text())
    return value | {"metadata": value["metadata"] | {"namespace": namespace}}


def variants(base: Json) -> Iterator[tuple[str, Json]]:
    """The object with each leaf removed, each leaf changed, each list reordered, one at a time (replicas have tests of their own)."""
    for path in places(base):
        value = at(base, path)
        if path[-1] == "replicas":
            continue
        yield f"without {path}", without(base, path)
        if isinstance(value, list) and len(value) > 1:
            yield f"reordered {path}", replaced(base, path, value[::-1])
        if (other := changed(path, value)) is not None:
            yield f"changed {path}", replaced(base, path, other)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path and path[-1] not in ("apiVersion", "kind", "name", "namespace", "metadata", "selector", "app"):
        yield path
    if isinstance(value, dict):
        for name, child in value.items():
            if name not in ("apiVersion", "kind", "selector"):
                yield from places(child, (*path, name))
    elif isinstance(value, list):
        for n, child in enumerate(value):
            yield from places(child, (*path, n))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def without(base: Json, path: tuple[Any, ...]) -> Json:
    copied = copy.deepcopy(base)
    del at(copied, path[:-1])[path[-1]]
    return copied


def replaced(base: Json, path: tuple[Any, ...], value: Any) -> Json:
    copied = copy.deepcopy(base)
    at(copied, path[:-1])[path[-1]] = value
    return copied


def changed(path: tuple[Any, ...], value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if path[-1] in ("cpu", "memory", "sizeLimit"):
        return {"cpu": "1500m", "memory": "600Mi", "sizeLimit": "2Gi"}[path[-1]]
    if isinstance(value, str) and path[-1] in (
        "image",
        "value",
        "path",
        "mountPath",
        "zone",
        "disk",
        "note",
        "other",
        "a",
        "v",
        "team",
    ):
        return value + "x"
    return None


def said(live: Json) -> Json:
    """What an object says, less what differs between any two objects."""
    metadata = {name: live["metadata"].get(name) for name in ("labels", "annotations")}
    metadata["annotations"] = {
        k: v for k, v in (metadata["annotations"] or {}).items() if not k.startswith("deployment.kubernetes.io/")
    }
    return {"metadata": metadata, "spec": live["spec"]}


def alike(one: Json, other: Json) -> bool:
    """Equal by meaning: an empty map that an apply leaves away is none."""
    return same(said(one), said(other), SHAPE)


async def settle(engine: ApplyEngine, owner: Json, desired: Json) -> Applied:
    """Apply as a controller does: a conflict (the Deployment controller wrote in between) means look again."""

    async def attempt() -> Applied | None:
        try:
            return await engine.apply(owner, [desired])
        except Conflict:
            return None

    found = await eventually(attempt)
    assert found is not None
    return found


async def fresh(client: Client, desired: Json, name: str) -> Json | None:
    """What the server makes of the object when it is simply created; None when it refuses."""
    renamed = {**desired, "metadata": {**desired["metadata"], "name": name}}
    try:
        return await client.create(renamed, dry_run=True)
    except KubeError:
        return None


async def test_every_leaf_ends_as_in_a_fresh_create(
    client: Client, engine: ApplyEngine, owner: Json, namespace: str
) -> None:
    base = rich_deployment(namespace)
    cases = list(variants(base))
    random.Random(SEED).shuffle(cases)
    await settle(engine, owner, base)
    tried = 0
    for what, desired in cases:
        expected = await fresh(client, desired, "fresh")
        if expected is None:
            continue  # not a valid object at all
        tried += 1
        applied = await settle(engine, owner, desired)
        assert alike(applied.live[ref_of(desired)], expected), what
        again = await settle(engine, owner, desired)
        assert again.did[ref_of(desired)] is Did.NOTHING, what
        if tried % 5 == 0:  # from one variant to the next without the base in between is a change too
            continue
        await settle(engine, owner, base)
    assert tried > 100
    assert said((await settle(engine, owner, base)).live[ref_of(base)]) == said(
        await fresh(client, base, "fresh") or {}
    )


async def test_a_restarted_engine_finds_everything_in_place(
    client: Client, informers: Informers, engine: ApplyEngine, owner: Json, namespace: str
) -> None:
    desired = rich_deployment(namespace)
    await engine.apply(owner, [desired])
    applied = await ApplyEngine(client, informers).apply(owner, [desired])
    assert applied.did[ref_of(desired)] is Did.NOTHING


async def test_a_custom_resource_is_judged_by_its_own_schema(
    client: Client, informers: Informers, engine: ApplyEngine, owner: Json, namespace: str
) -> None:
    desired = widget("child", namespace, size=1, parts=[{"name": "a", "weight": 1}, {"name": "b", "weight": 2}])
    await engine.apply(owner, [desired])
    assert (await ApplyEngine(client, informers).apply(owner, [desired])).did[ref_of(desired)] is Did.NOTHING
    fewer = widget("child", namespace, size=1, parts=[{"name": "b", "weight": 2}])
    assert (await engine.apply(owner, [fewer])).live[ref_of(fewer)]["spec"]["parts"] == [{"name": "b", "weight": 2}]


async def test_duplicates_are_resolved_before_sending(engine: ApplyEngine, owner: Json, namespace: str) -> None:
    desired = rich_deployment(namespace)
    main = desired["spec"]["template"]["spec"]["containers"][0]
    main["env"].append({"name": "A", "value": "last"})
    main["ports"].append({"name": "again", "containerPort": 8080, "protocol": "TCP"})
    main["volumeMounts"].append({"name": "cache", "mountPath": "/data"})
    desired["spec"]["template"]["spec"]["volumes"].append({"name": "data", "emptyDir": {"medium": "Memory"}})
    main["readinessProbe"]["httpGet"]["port"] = 8080
    applied = await engine.apply(owner, [desired])
    env = applied.live[ref_of(desired)]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert (env[0]["name"], env[0]["value"]) == ("A", "last")
    assert len(applied.warnings) == 4
    assert (await engine.apply(owner, [desired])).did[ref_of(desired)] is Did.NOTHING


async def test_what_another_controls_is_left_alone(
    client: Client, engine: ApplyEngine, owner: Json, namespace: str
) -> None:
    other = await client.create(widget("other", namespace))
    desired = rich_deployment(namespace)
    await engine.apply(other, [desired])
    with pytest.raises(NotOurs, match="controlled by Widget/other"):
        await engine.apply(owner, [desired])
    assert (await client.get(DEPLOYMENT, "rich", namespace))["metadata"]["ownerReferences"][0]["name"] == "other"


async def test_prune_spares_what_is_not_ours(
    client: Client, engine: ApplyEngine, informers: Informers, owner: Json, namespace: str
) -> None:
    maps = Kind("v1", "ConfigMap")
    reference = [
        {
            "apiVersion": WIDGET.api_version,
            "kind": "Widget",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
    ]

    def config_map(name: str, **metadata: Any) -> Json:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, **metadata}}

    await client.create(config_map("by-hand", ownerReferences=reference), field_manager="kubectl-create")
    await client.create(config_map("kserves", ownerReferences=reference), field_manager="manager")
    await client.create(config_map("unrelated"), field_manager="manager")
    await engine.apply(owner, [config_map("old"), config_map("kept")])
    await eventually(lambda: len(informers.informer(maps).by_index("owner", owner["metadata"]["uid"])) == 4)
    applied = await engine.apply(owner, [config_map("kept")], prune=[maps])
    gone = {ref.name for ref, did in applied.did.items() if did is Did.DELETED}
    assert gone == {"old", "kserves"}
    left = {item["metadata"]["name"] for item in await client.list(maps, namespace)}
    assert left >= {"by-hand", "unrelated", "kept"}


# ---- adoption


async def kserves_deployment(client: Client, owner: Json, namespace: str) -> Json:
    """A Deployment as KServe's Go manager leaves it: POSTed, PUT, its status written, scaled by an autoscaler, all by Update."""
    desired = rich_deployment(namespace)
    reference = {
        "apiVersion": WIDGET.api_version,
        "kind": "Widget",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    made = await client.create(
        {**desired, "metadata": {**desired["metadata"], "ownerReferences": [reference]}}, field_manager="manager"
    )
    made["spec"]["minReadySeconds"] = 2
    del made["metadata"]["resourceVersion"]  # the Deployment controller may have written meanwhile
    await client.update(made, field_manager="manager")
    await client.patch(
        DEPLOYMENT, "rich", namespace, {"status": {"collisionCount": 1}}, subresource="status", field_manager="manager"
    )
    await client.patch(
        DEPLOYMENT,
        "rich",
        namespace,
        {"spec": {"replicas": 2}},
        subresource="scale",
        field_manager="kube-controller-manager",
    )
    return await client.get(DEPLOYMENT, "rich", namespace)


async def test_adoption_rolls_nothing_and_later_removals_happen(
    client: Client, engine: ApplyEngine, informers: Informers, owner: Json, namespace: str
) -> None:
    before = await kserves_deployment(client, owner, namespace)
    cache, generation = informers.informer(DEPLOYMENT), before["metadata"]["generation"]
    await eventually(
        lambda: (cache.get(namespace, "rich") or {"metadata": {}})["metadata"].get("generation") == generation
    )
    desired = rich_deployment(namespace)
    desired["spec"]["minReadySeconds"] = 2
    del desired["spec"]["replicas"]  # an autoscaler rules
    ref = ref_of(desired)
    live = (await settle(engine, owner, desired)).live[ref]
    assert live["metadata"]["generation"] == before["metadata"]["generation"]
    assert live["spec"]["replicas"] == 2
    assert {
        (e["manager"], e["operation"], e.get("subresource", "")) for e in entries(live) if e["manager"] == "manager"
    } <= {("manager", "Update", "status")}

    generation = live["metadata"]["generation"]
    pod = desired["spec"]["template"]["spec"]
    edits = [
        ("an env var removed", lambda: pod["containers"][0]["env"].pop(1)),
        ("a sidecar removed", lambda: pod["containers"].pop(1)),
        ("a label removed", lambda: desired["spec"]["template"]["metadata"]["labels"].pop("v")),
        ("a port number changed", lambda: pod["containers"][0]["ports"][0].update(containerPort=8081)),
    ]
    for what, edit in edits:
        edit()
        live = (await settle(engine, owner, desired)).live[ref]
        generation += 1
        assert live["metadata"]["generation"] == generation, f"{what}: one roll"
        assert (
            said(live)["spec"]["template"] == said(await fresh(client, desired, "fresh") or {})["spec"]["template"]
        ), what
        assert (await settle(engine, owner, desired)).did[ref] is Did.NOTHING
    assert live["spec"]["replicas"] == 2


async def test_adoption_waits_when_the_object_moved_on(
    client: Client, engine: ApplyEngine, informers: Informers, owner: Json, namespace: str
) -> None:
    """A stale cache must not overwrite: the guarded patch is refused and the next look does it."""
    await kserves_deployment(client, owner, namespace)
    cache = informers.informer(DEPLOYMENT)
    await eventually(lambda: cache.get(namespace, "rich") is not None)
    await informers.stop()  # from here on the cache is stale
    await client.patch(
        DEPLOYMENT, "rich", namespace, {"metadata": {"annotations": {"later": "1"}}}, field_manager="someone"
    )
    with pytest.raises(KubeError):
        await engine.apply(owner, [rich_deployment(namespace)])
    assert "serveplane" not in {entry["manager"] for entry in entries(await client.get(DEPLOYMENT, "rich", namespace))}


# ---- replicas


async def test_replicas_never_fall_when_an_autoscaler_comes_and_goes(
    client: Client, engine: ApplyEngine, informers: Informers, owner: Json, namespace: str
) -> None:
    desired = rich_deployment(namespace)
    desired["spec"]["template"]["spec"]["serviceAccountName"] = "nobody-at-all"  # no pods need to come up for this
    ref, seen = ref_of(desired), []

    def numbers(change: Any) -> None:
        if change.new is not None and change.new.meta.name == "rich":
            seen.append(change.new.object["spec"]["replicas"])

    informers.informer(DEPLOYMENT).listen(numbers)
    fixed = {**desired, "spec": {**desired["spec"], "replicas": 7}}
    free = {**desired, "spec": {name: value for name, value in desired["spec"].items() if name != "replicas"}}
    await settle(engine, owner, fixed)
    for _ in range(3):
        live = (await settle(engine, owner, free)).live[ref]
        assert live["spec"]["replicas"] == 7
        assert any(entry["manager"] == REPLICAS_MANAGER for entry in entries(live))
        assert (await settle(engine, owner, free)).did[ref] is Did.NOTHING
        await client.patch(
            DEPLOYMENT,
            "rich",
            namespace,
            {"spec": {"replicas": 9}},
            subresource="scale",
            field_manager="kube-controller-manager",
        )
        await eventually(lambda: (informers.informer(DEPLOYMENT).get(namespace, "rich") or {})["spec"]["replicas"] == 9)
        assert (await settle(engine, owner, free)).live[ref]["spec"]["replicas"] == 9
        live = (await settle(engine, owner, fixed)).live[ref]
        assert live["spec"]["replicas"] == 7
    assert min(seen) >= 7
    assert [entry["operation"] for entry in entries(live) if entry["manager"] == MANAGER] == ["Apply"]


async def test_a_stale_number_is_not_handed_over(
    client: Client, engine: ApplyEngine, informers: Informers, owner: Json, namespace: str
) -> None:
    desired = rich_deployment(namespace)
    desired["spec"]["replicas"] = 3
    await engine.apply(owner, [desired])
    await eventually(lambda: informers.informer(DEPLOYMENT).get(namespace, "rich") is not None)
    await informers.stop()
    await client.patch(
        DEPLOYMENT, "rich", namespace, {"spec": {"replicas": 8}}, patch_type=PatchType.MERGE, field_manager="hpa"
    )
    del desired["spec"]["replicas"]
    with pytest.raises(KubeError):
        await engine.apply(owner, [desired])
    assert (await client.get(DEPLOYMENT, "rich", namespace))["spec"]["replicas"] == 8
