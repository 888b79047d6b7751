"""The history of StatefulSets and DaemonSets, and what a ReplicaSet tells of its Deployment."""
from serveplane.embedded.workloads.deployment import REVISION, copied_annotations, new_replica_set
from serveplane.embedded.workloads.revisions import LABEL, new_revision, revision_name, superfluous
from serveplane.objects import Json


def owner(image: str = "a", **spec: object) -> Json:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"template": template, **spec},
            "metadata": {"name": "x", "namespace": "d", "uid": "u", "annotations": {"kubernetes.io/change-cause": "because"}}}


def test_a_revision_is_the_patch_that_brings_a_template_back() -> None:
    made = new_revision(owner(), 3)
    assert made["metadata"]["name"] == revision_name(owner())
    assert made["metadata"]["annotations"] == {"kubernetes.io/change-cause": "because"}
    assert made["metadata"]["labels"]["app"] == "x"
    assert made["data"] == {"spec": {"template": {**owner()["spec"]["template"], "$patch": "replace"}}}
    assert made["revision"] == 3
    assert revision_name(owner("b")) != revision_name(owner())


def test_old_revisions_go_unless_pods_come_from_them() -> None:
    known = [new_revision(owner(image), number) for number, image in enumerate("abcde")]
    current = owner("e", revisionHistoryLimit=1)
    assert [one["revision"] for one in superfluous(current, known, set())] == [0, 1, 2]
    assert [one["revision"] for one in superfluous(current, known, {known[0]["metadata"]["labels"][LABEL]})] == [1, 2]
    assert superfluous(owner("e"), known, set()) == []


def test_a_set_tells_why_its_deployment_changed() -> None:
    deployment = owner(selector={"matchLabels": {"app": "x"}})
    deployment["metadata"]["annotations"] |= {REVISION: "7", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    assert copied_annotations(deployment) == {"kubernetes.io/change-cause": "because"}
    assert new_replica_set(deployment, 8, 0)["metadata"]["annotations"] == {"kubernetes.io/change-cause": "because", REVISION: "8"}
