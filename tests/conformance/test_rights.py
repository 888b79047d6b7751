"""The manager's rights are what it uses: nothing was refused to it, and nothing was granted that nobody needed.

Comes after the replay of all recorded cases, whose requests the audit log holds.
"""

import pytest

from serveplane.cli.manifests import objects
from tests.kit.installation import Installation
from tests.kit.testbed import Testbed

pytestmark = pytest.mark.testbed
Right = tuple[str, str, str]  # group, resource, verb

# Granted although no recorded case uses it, and why.
WITH_A_REASON: dict[Right, str] = {
    ("serving.kserve.io", "inferenceservices/finalizers", "update"): "an owner reference that blocks deletion needs it",
    ("serving.kserve.io", "trainedmodels", "delete"): "a deleted service takes its TrainedModels with it",
    ("opentelemetry.io", "opentelemetrycollectors", "delete"): "a service that no longer scales by pod metrics loses its collector",
    ("keda.sh", "scaledobjects", "delete"): "a service that no longer scales by KEDA loses its ScaledObject",
    ("networking.k8s.io", "ingresses", "delete"): "a service that moves to HTTPRoutes loses its Ingress",
    ("", "secrets", "update"): "certificates written back whole",
    ("", "pods/log", "get"): "the progress of downloads that take long",
    ("coordination.k8s.io", "leases", "patch"): "releasing a lease",
}
READS = frozenset({"get", "list", "watch"})


def granted() -> set[Right]:
    roles = [obj for obj in objects() if obj["kind"] in ("Role", "ClusterRole")]
    rules = [rule for role in roles for rule in role["rules"]]
    return {(group, resource, verb) for rule in rules for group in rule["apiGroups"]
            for resource in rule["resources"] for verb in rule["verbs"]}  # fmt: skip


def used(world: Testbed, account: str) -> tuple[set[Right], set[Right]]:
    """What was asked for and granted, and what was refused."""
    assert world.audit is not None
    done: set[Right] = set()
    refused: set[Right] = set()
    for request in world.audit.requests(user=account):
        parts = request.uri.split("?")[0].split("/")
        right = (parts[2] if parts[1] == "apis" else "", request.resource, request.verb)
        # A namespace on its way out takes in nothing new; that is also told as Forbidden, and has nothing to do with rights.
        is_refused = request.status == 403 and "because it is being terminated" not in request.message
        (refused if is_refused else done).add(right)
    return done, refused


@pytest.fixture
def rights(request: pytest.FixtureRequest, world: Testbed, manager: Installation) -> tuple[set[Right], set[Right]]:
    replayed = [item for item in request.session.items if getattr(item, "originalname", "") == "test_outcome_is_as_recorded"]
    if len(replayed) < 50:
        pytest.skip("only after the recorded cases were replayed")
    return used(world, manager.managers[0].account)


def test_nothing_was_refused(rights: tuple[set[Right], set[Right]]) -> None:
    assert rights[1] == set()


def test_nothing_was_granted_in_vain(rights: tuple[set[Right], set[Right]]) -> None:
    """Reading comes as one: who watches also lists, and a `get` repairs what a watch lost.

    Create stands beside patch, as applying needs both.
    """
    touched = {(group, resource) for group, resource, _ in rights[0]}
    idle = granted() - rights[0] - WITH_A_REASON.keys()
    idle = {right for right in idle if not (right[2] in {*READS, "create", "patch"} and right[:2] in touched)}
    assert idle == set()
