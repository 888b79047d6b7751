"""The arithmetic of server-side apply, held against the real API server step by step."""

import random
from typing import Any

import pytest

from serveplane.objects.equality import says_the_same
from serveplane.objects.fieldset import Fields
from serveplane.objects.schema import builtin
from serveplane.objects.serverside import applied, updated
from tests.counts import SEED
from tests.kit.api import APPLY, MERGE, Api, Refused

pytestmark = pytest.mark.testbed
Json = dict[str, Any]
TEMPLATE = builtin("v1", "PodTemplate")  # rich, and no controller writes to it in between
MANAGERS = ("alpha", "beta")
SERVER_ONLY = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation")


def configuration(chance: random.Random, name: str) -> Json:
    """A PodTemplate that says a random part of what one can say."""

    def some(values: str) -> list[str]:
        return chance.sample(values, chance.randint(0, len(values)))

    def container(letter: str) -> Json:
        out: Json = {"name": letter, "image": f"image-{chance.randint(1, 2)}"}
        if env := some("PQRS"):
            out["env"] = [{"name": variable, "value": str(chance.randint(1, 2))} for variable in env]
        if ports := chance.sample([80, 81, 82], chance.randint(0, 3)):
            out["ports"] = [{"containerPort": port, "protocol": "TCP"} for port in ports]
        if chance.random() < 0.5:
            out["args"] = some("xyz")
        if chance.random() < 0.5:
            out["resources"] = {"limits": {"cpu": str(chance.randint(1, 2))}}
        return out

    pod: Json = {"containers": [container(letter) for letter in ["a", *some("bc")]]}
    if chance.random() < 0.5:
        pod["tolerations"] = [{"key": key, "operator": "Exists"} for key in some("tu")]
    if chance.random() < 0.3:
        pod["nodeSelector"] = dict.fromkeys(some("nm"), "v")
    metadata: Json = {"name": name, "labels": {key: str(chance.randint(1, 2)) for key in some("jkl")}}
    template: Json = {"metadata": {"labels": {"app": name}}, "spec": pod}
    if chance.random() < 0.4:
        pod["hostname"] = f"host-{chance.randint(0, 3)}"
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template}


def owners(live: Json) -> dict[str, Fields]:
    return {entry["manager"]: entry["fieldsV1"] for entry in live["metadata"].get("managedFields", []) if not entry.get("subresource")}


def bare(live: Json) -> Json:
    """As the server hands it to the merge: without what it writes itself."""
    metadata = {key: value for key, value in live["metadata"].items() if key not in SERVER_ONLY}
    return {key: value for key, value in {**live, "metadata": metadata}.items() if key != "status"}


def owned(config: Json) -> Json:
    """What can be owned: not the type, not the name."""
    metadata = {key: value for key, value in config["metadata"].items() if key not in ("name", "namespace")}
    return {"metadata": metadata, "template": config["template"]}


@pytest.mark.parametrize("round_", range(6))
async def test_every_step_ends_as_on_the_real_server(api: Api, namespace: str, round_: int) -> None:
    assert TEMPLATE is not None
    chance = random.Random(SEED + round_)
    path = f"/api/v1/namespaces/{namespace}/podtemplates/d"
    live: Json | None = None
    for step in range(12):
        manager, config = chance.choice(MANAGERS), configuration(chance, "d")
        before = live
        try:
            live = await api.call("PATCH", f"{path}?fieldManager={manager}&force=true", config, APPLY)
        except Refused as refusal:  # a container that another manager half owns loses its image: no object to compare
            if "image: Required value" not in refusal.message:
                raise
            continue
        if before is None:
            continue
        result, who = applied(_ours(before), owned(config), owners(before), manager, TEMPLATE, force=True)
        said = f"seed {SEED} round {round_} step {step}"
        assert who == owners(live), said
        assert _lists(result) == _lists(live), said
        assert says_the_same(result, _ours(live), TEMPLATE), said


def _ours(live: Json) -> Json:
    return owned(bare(live))


def _lists(obj: Json) -> list[Any]:
    """The order and content of every list that is merged by key."""
    containers = obj["template"]["spec"]["containers"]
    return [(one["name"], [env["name"] for env in one.get("env", [])], [port["containerPort"] for port in one.get("ports", [])],
             one.get("args") or None) for one in containers]  # fmt: skip


async def test_updates_take_ownership_as_on_the_real_server(api: Api, namespace: str) -> None:
    assert TEMPLATE is not None
    chance = random.Random(SEED)
    path = f"/api/v1/namespaces/{namespace}/podtemplates/d"
    live = await api.call("PATCH", f"{path}?fieldManager=alpha&force=true", configuration(chance, "d"), APPLY)
    for _ in range(8):
        before = live
        labels = {chance.choice("jklm"): chance.choice(["1", "2", None])}
        patch = {"metadata": {"labels": labels}, "template": {"spec": {"hostname": f"host-{chance.randint(0, 4)}"}}}
        live = await api.call("PATCH", f"{path}?fieldManager=gamma", patch, MERGE)
        assert updated(_ours(before), _ours(live), owners(before), "gamma", TEMPLATE) == owners(live)


async def test_a_conflict_is_refused_with_the_same_fields(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/c"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    await api.call("PATCH", f"{path}?fieldManager=alpha", config, APPLY)
    with pytest.raises(Refused, match=r'conflict with "alpha": \.data\.a'):
        await api.call("PATCH", f"{path}?fieldManager=beta", {**config, "data": {"a": "2"}}, APPLY)
