"""Garbage collection beside the real one: a control plane of its own here, with the controller manager that does it there."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.embedded.conftest import Both
from tests.embedded.servers import MERGE, Api, Embedded
from tests.kit.plugin import running_testbed
from tests.kit.waiting import soon

pytestmark = pytest.mark.testbed
NUMBERS = itertools.count(1)
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def whole() -> Iterator[Api]:
    with running_testbed() as bed:
        yield Api("real", bed.url, bed.token, str(bed.ca))


class Family:
    """Secrets that own each other, in a namespace of their own."""

    def __init__(self, api: Api, space: str) -> None:
        self.api = api
        self.space = space
        self.path = f"/api/v1/namespaces/{space}/secrets"
        self.uids: dict[str, str] = {}
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": space}})

    def add(self, name: str, *owners: str, block: bool = False, finalizers: tuple[str, ...] = ()) -> None:
        references = [self.reference(owner, block) for owner in owners]
        metadata = {"name": name, "ownerReferences": references, "finalizers": list(finalizers)}
        made = self.api.call("POST", self.path, {"metadata": metadata})
        assert made.status == 201, made
        self.uids[name] = made.value["metadata"]["uid"]

    def reference(self, owner: str, block: bool) -> Json:
        uid = self.uids.get(owner, "00000000-0000-4000-8000-000000000000")
        more = {"blockOwnerDeletion": True} if block else {}
        return {"apiVersion": "v1", "kind": "Secret", "name": owner, "uid": uid, **more}

    def delete(self, name: str, policy: str = "Background") -> Any:
        answer = self.api.call("DELETE", f"{self.path}/{name}", propagationPolicy=policy)
        return [answer.status, answer.value["kind"]]

    def release(self, name: str) -> None:
        self.api.call("PATCH", f"{self.path}/{name}", {"metadata": {"finalizers": None}}, MERGE)

    def members(self) -> Json:
        """Who is left, whose they are and what holds them."""
        found = {}
        for item in self.api.call("GET", self.path).value["items"]:
            metadata = item["metadata"]
            owners = [(one["name"], one.get("blockOwnerDeletion")) for one in metadata.get("ownerReferences", ())]
            going = "going" if "deletionTimestamp" in metadata else "staying"
            found[metadata["name"]] = [going, owners, sorted(metadata.get("finalizers", ()))]
        return found

    def settled(self, **wanted: str) -> Json:
        """Once exactly these are left, each going or staying as said."""
        expected = {name.replace("_", "-"): state for name, state in wanted.items()}
        soon(lambda: {name: one[0] for name, one in self.members().items()} == expected, 60, lambda: self.members())
        return self.members()


def background(family: Family) -> list[Any]:
    family.add("owner")
    family.add("child", "owner", block=True)
    family.add("grandchild", "child")
    family.add("stranger")
    family.add("shared", "owner", "stranger")
    return [family.delete("owner"), family.settled(stranger="staying", shared="staying")]


def foreground(family: Family) -> list[Any]:
    """The owner waits for the child that blocks it, not for the one that does not."""
    family.add("owner")
    family.add("blocking", "owner", block=True, finalizers=("example.com/hold",))
    family.add("loose", "owner", finalizers=("example.com/hold",))
    family.add("plain", "owner", block=True)
    seen = [family.delete("owner", "Foreground"), family.settled(owner="going", blocking="going", loose="going")]
    family.release("blocking")
    seen.append(family.settled(loose="going"))
    family.release("loose")
    return [*seen, family.settled()]


def orphans(family: Family) -> list[Any]:
    family.add("owner")
    family.add("child", "owner", block=True)
    family.add("shared", "owner")
    seen = [family.delete("owner", "Orphan"), family.settled(child="staying", shared="staying")]
    soon(lambda: all(not one[1] for one in family.members().values()), 60)
    return [*seen[:1], family.members()]


def without_owner(family: Family) -> list[Any]:
    """An owner that never was: collected, unless another owner is there."""
    family.add("real")
    family.add("lost", "ghost")
    family.add("half", "ghost", "real")
    family.settled(real="staying", half="staying")
    soon(lambda: len(family.members()["half"][1]) == 1, 60)
    return [family.members()]


def owner_in_a_namespace_of_something_outside(family: Family) -> list[Any]:
    """Such a reference is not followed: the cluster-scoped object stays."""
    family.add("owner")
    family.add("child", "owner")
    role = {"metadata": {"name": family.space, "ownerReferences": [family.reference("owner", False)]}, "rules": []}
    made = family.api.call("POST", ROLES, role).status
    seen = [made, family.delete("owner"), family.settled()]
    return [*seen, family.api.call("GET", f"{ROLES}/{family.space}").status]


@pytest.mark.parametrize(
    "story", [background, foreground, orphans, without_owner, owner_in_a_namespace_of_something_outside]
)
def test_both_collect_alike(whole: Api, embedded: Embedded, story: Any) -> None:
    both, space = Both(embedded.api(), whole), f"family-{next(NUMBERS)}"
    both.same(story.__name__, lambda api: story(Family(api, space)))
    both.check()
