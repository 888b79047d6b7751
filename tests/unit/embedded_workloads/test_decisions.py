"""What the workload controllers decide, without a cluster."""
import datetime
import random

import pytest

from serveplane.embedded.workloads import deployment, endpoints, fitting, job, rollout, scheduler, statefulset
from serveplane.embedded.workloads.autoscaling import Event, Usage, limited, read_metric, steadied
from serveplane.embedded.workloads.claims import fits, new_volume
from serveplane.embedded.workloads.daemonset import node_of, outdated, wants
from serveplane.embedded.workloads.pods import deletion_order
from serveplane.objects import Json
from tests.counts import SEED

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def pod(name: str = "p", *, ready: bool = True, phase: str = "Running", labels: Json | None = None, node: str = "n",
        spec: Json | None = None, **metadata: object) -> Json:
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "d", "uid": name, "labels": labels or {},
                         "creationTimestamp": "2026-01-01T00:00:00Z", **metadata},
            "spec": {"nodeName": node, "containers": [{"name": "c"}], **(spec or {})},
            "status": {"phase": phase, "podIP": "127.1.1.1",
                       "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}


# ---- rolling updates

@pytest.mark.parametrize(("value", "desired", "up", "result"), [
    ("25%", 4, True, 1), ("25%", 5, True, 2), ("25%", 5, False, 1), (2, 5, True, 2), (None, 10, False, 2), ("100%", 3, True, 3)])
def test_shares(value: int | str | None, desired: int, up: bool, result: int) -> None:
    assert rollout.share(value, desired, up=up) == result


def test_both_zero_would_never_move() -> None:
    assert rollout.limits(5, 0, 0) == (0, 1)
    assert rollout.limits(1, "25%", "25%") == (1, 0)


@pytest.mark.parametrize("seed", range(30))
def test_a_rolling_update_keeps_its_promises(seed: int) -> None:
    """Simulate pods that become ready, or fail, at random: never too many, never too few, and it always arrives."""
    chance = random.Random(SEED + seed)
    desired, surge, unavailable = chance.randint(1, 12), chance.randint(0, 3), chance.randint(0, 3)
    if not surge and not unavailable:
        surge = 1
    sets = {"old": [desired, desired], "new": [0, 0]}   # replicas, available
    for _ in range(500):
        new, old = (rollout.Set(name, *sets[name]) for name in ("new", "old"))
        step = rollout.rolling(desired, new, [old], surge, unavailable)
        for name, replicas in step.items():
            sets[name][0] = replicas
            sets[name][1] = min(sets[name][1], replicas)   # the unready ones go first
        assert sum(one[0] for one in sets.values()) <= desired + surge
        assert sum(one[1] for one in sets.values()) >= desired - unavailable
        if chance.random() < 0.7 and sets["new"][1] < sets["new"][0]:
            sets["new"][1] += 1
        if sets == {"old": [0, 0], "new": [desired, desired]}:
            return
    raise AssertionError(f"never arrived: {sets}, desired {desired}, surge {surge}, unavailable {unavailable}")


def test_recreate_waits_for_the_last_old_pod() -> None:
    old, new = rollout.Set("old", 2, 2), rollout.Set("new", 0, 0)
    assert rollout.recreate(2, new, [old], 2) == {"old": 0}
    assert rollout.recreate(2, new, [rollout.Set("old", 0, 0)], 1) == {}
    assert rollout.recreate(2, new, [rollout.Set("old", 0, 0)], 0) == {"new": 2}


def make_deployment(**spec: object) -> Json:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "d", "uid": "u", "generation": 2},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template, **spec}}


def test_a_deployment_finds_its_set_again() -> None:
    one = make_deployment()
    made = deployment.new_replica_set(one, 1, 0)
    made["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": "r"}
    assert deployment.current_set(one, [made]) is made
    changed = make_deployment()
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    assert deployment.current_set(changed, [made]) is None
    other = deployment.new_replica_set(changed, 2, 0)
    assert other["metadata"]["name"] != made["metadata"]["name"]
    assert other["spec"]["selector"]["matchLabels"][deployment.HASH] == other["metadata"]["labels"][deployment.HASH]


def test_progress_is_told_and_its_deadline_kept() -> None:
    one = make_deployment(progressDeadlineSeconds=60)
    made = {**deployment.new_replica_set(one, 1, 0), "status": {"replicas": 2}}
    made["spec"]["replicas"] = 2
    first = deployment.deployment_status(one, made, [made], "2026-01-01T00:00:00Z")
    assert first["unavailableReplicas"] == 2
    assert {entry["type"]: entry["reason"] for entry in first["conditions"]} == {
        "Available": "MinimumReplicasUnavailable", "Progressing": "ReplicaSetUpdated"}
    late = deployment.deployment_status({**one, "status": first}, made, [made], "2026-01-01T00:01:01Z")
    assert late["conditions"][1]["reason"] == "ProgressDeadlineExceeded"
    made["status"] = {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    done = deployment.deployment_status({**one, "status": late}, made, [made], "2026-01-01T00:02:00Z")
    assert {entry["type"]: entry["reason"] for entry in done["conditions"]} == {
        "Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"}
    again = deployment.deployment_status({**one, "status": done}, made, [made], "2026-01-01T00:03:00Z")
    assert again == done, "nothing changed, nothing is written"


def test_the_least_missed_pod_goes_first() -> None:
    pods = [pod("ready"), pod("unready", ready=False), pod("pending", ready=False, phase="Pending"),
            pod("homeless", ready=False, phase="Pending", node="")]
    assert [one["metadata"]["name"] for one in deletion_order(pods)] == ["homeless", "pending", "unready", "ready"]


# ---- endpoints

def service(*ports: Json, **spec: object) -> Json:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "d", "uid": "s"},
            "spec": {"selector": {"app": "a"}, "ports": list(ports), **spec}}


def test_pods_with_moved_ports_get_a_slice_of_their_own() -> None:
    port = {"name": "http", "port": 80, "targetPort": "web"}
    spec = {"containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}]}
    plain, moved = pod("a", spec=spec), pod("b", spec=spec, annotations={"serveplane.dev/ports": '{"8080": 4123}'})
    made = endpoints.slices(service(port), [plain, moved])
    assert [one["ports"][0]["port"] for one in made] == [4123, 8080]
    assert len({one["metadata"]["name"] for one in made}) == 2


def test_slices_of_long_names_do_not_meet() -> None:
    made = []
    for end in ("one", "two"):
        long = service({"port": 80})
        long["metadata"]["name"] = "x" * 60 + end
        made += endpoints.slices(long, [pod("a")])
    assert len({one["metadata"]["name"] for one in made}) == 2
    assert all(len(one["metadata"]["name"]) <= 63 for one in made)


def test_who_is_ready_and_who_is_leaving() -> None:
    leaving = pod("a", deletionTimestamp="2026-01-01T00:00:00Z")
    entries = {one["metadata"]["name"]: endpoints.endpoint(service(), one)["conditions"]
               for one in (leaving, pod("b"), pod("c", ready=False))}
    assert {name: entry["ready"] for name, entry in entries.items()} == {"a": False, "b": True, "c": False}
    assert entries["a"]["terminating"]
    anyway = endpoints.endpoint(service(publishNotReadyAddresses=True), pod("c", ready=False))
    assert anyway["conditions"]["ready"]
    assert endpoints.slices(service({"port": 80}), [pod("x", phase="Succeeded")]) == []


# ---- scheduling

def node(name: str = "n", *, labels: Json | None = None, taints: list[Json] | None = None, cpu: str = "2") -> Json:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": taints or []},
            "status": {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "10"},
                       "conditions": [{"type": "Ready", "status": "True"}]}}


def asking(**spec: object) -> Json:
    return pod("new", node="", spec={**spec})


@pytest.mark.parametrize(("wanted", "given", "why"), [
    (asking(), node(), None),
    (asking(nodeSelector={"gpu": "yes"}), node(), "node(s) didn't match Pod's node affinity/selector"),
    (asking(nodeSelector={"gpu": "yes"}), node(labels={"gpu": "yes"}), None),
    (asking(), node(taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]), "node(s) had untolerated taint {k: v}"),
    (asking(tolerations=[{"key": "k", "operator": "Exists"}]), node(taints=[{"key": "k", "effect": "NoSchedule"}]), None),
    (asking(), node(taints=[{"key": "k", "effect": "PreferNoSchedule"}]), None),
    (asking(containers=[{"name": "c", "resources": {"requests": {"cpu": "3"}}}]), node(), "Insufficient cpu"),
    (asking(containers=[{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]), node(),
     "Insufficient nvidia.com/gpu"),
    (asking(initContainers=[{"name": "i", "resources": {"requests": {"cpu": "3"}}}]), node(), "Insufficient cpu")])
def test_why_a_node_refuses(wanted: Json, given: Json, why: str | None) -> None:
    assert fitting.refusal(wanted, given, fitting.used_on("n", [])) == why


def test_the_scheduler_prefers_the_emptier_node_and_says_why_there_is_none() -> None:
    busy = [pod("x", node="a"), pod("y", node="a")]
    assert scheduler.choose(asking(), [node("a"), node("b")], busy) == ("b", "")
    _, why = scheduler.choose(asking(nodeSelector={"x": "y"}), [node("a"), node("b", cpu="0")], [])
    assert why == "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."


def test_affinity_expressions() -> None:
    labels = {"zone": "a", "size": "5"}
    def holds(key: str, operator: str, *values: str) -> bool:
        return fitting.matches_term({"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]},
                                    node(labels=labels))
    assert holds("zone", "In", "a", "b")
    assert not holds("zone", "NotIn", "a")
    assert holds("other", "DoesNotExist")
    assert holds("size", "Gt", "4")
    assert not holds("size", "Lt", "5")
    assert not fitting.matches_term({}, node())


# ---- DaemonSets

def daemon_set(**spec: object) -> Json:
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "d", "uid": "d"},
            "spec": {"template": {"metadata": {"labels": {"a": "b"}},
                                  "spec": {"containers": [], "nodeSelector": {"kserve/localmodel": "worker"}}}, **spec}}


def test_a_daemon_goes_where_the_label_is() -> None:
    assert not wants(daemon_set(), node())
    assert wants(daemon_set(), node(labels={"kserve/localmodel": "worker"}))


def test_daemons_are_replaced_one_at_a_time() -> None:
    old = [pod(f"p{number}", node=f"n{number}") for number in range(3)]
    assert [one["metadata"]["name"] for one in outdated(daemon_set(), old, "new", 3)] == ["p0"]
    assert outdated(daemon_set(updateStrategy={"type": "OnDelete"}), old, "new", 3) == []
    assert node_of(old[1]) == "n1"


# ---- StatefulSets

def stateful_set(replicas: int = 3, **spec: object) -> Json:
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s", "namespace": "d", "uid": "s"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "serviceName": "svc",
                     "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}, **spec}}


def members(*numbers: int, revision: str = "r", ready: bool = True) -> list[Json]:
    return [pod(f"s-{number}", labels={statefulset.REVISION: revision}, ready=ready) for number in numbers]


@pytest.mark.parametrize(("given", "pods", "step"), [
    (stateful_set(), [], statefulset.Step(make=(0,))),
    (stateful_set(), members(0), statefulset.Step(make=(1,))),
    (stateful_set(), members(0, ready=False), statefulset.Step()),
    (stateful_set(), members(0, ready=False, revision="old"), statefulset.Step(delete=("s-0",))),
    (stateful_set(updateStrategy={"type": "OnDelete"}), members(0, ready=False, revision="old"), statefulset.Step()),
    (stateful_set(podManagementPolicy="Parallel"), [], statefulset.Step(make=(0, 1, 2))),
    (stateful_set(1), members(0, 1, 2), statefulset.Step(delete=("s-2",))),
    (stateful_set(), members(0, 1, 2), statefulset.Step()),
    (stateful_set(), members(0, 1, 2, revision="old"), statefulset.Step(delete=("s-2",))),
    (stateful_set(updateStrategy={"rollingUpdate": {"partition": 2}}), members(0, 1, revision="old") + members(2),
     statefulset.Step()),
    (stateful_set(), [*members(0, 1), pod("s-2", phase="Failed")], statefulset.Step(delete=("s-2",)))])
def test_stateful_sets_go_in_order(given: Json, pods: list[Json], step: statefulset.Step) -> None:
    assert statefulset.decide(given, pods, "r") == step


def test_a_stateful_pod_has_its_name_and_its_claim() -> None:
    given = stateful_set(volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {}}])
    made = statefulset.stateful_pod(given, 1, "r")
    assert made["metadata"]["name"] == "s-1"
    assert made["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-s-1"}}]
    assert statefulset.stateful_claims(given, 1)[0]["metadata"]["name"] == "data-s-1"


# ---- Jobs

def make_job(status: Json | None = None, **spec: object) -> Json:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "d", "uid": "j"},
            "spec": {"parallelism": 1, "completions": 1, "template": {"spec": {"containers": [{"name": "c"}]}}, **spec},
            "status": status or {}}


@pytest.mark.parametrize(("given", "pods", "make", "end"), [
    (make_job(), [], (None,), None),
    (make_job(), [pod()], (), None),
    (make_job(), [pod(phase="Succeeded")], (), "CompletionsReached"),
    (make_job(completions=3, parallelism=2), [pod("a", phase="Succeeded"), pod("b")], (None,), None),
    (make_job(backoffLimit=0), [pod(phase="Failed")], (), "BackoffLimitExceeded"),
    (make_job(backoffLimit=2), [pod(phase="Failed")], (None,), None),
    (make_job(suspend=True), [], (), None),
    (make_job(completions=3, parallelism=3, completionMode="Indexed"),
     [pod("a", phase="Succeeded", annotations={job.INDEX: "1"})], (0, 2), None),
    (make_job(status={"startTime": "2026-01-01T11:00:00Z"}, activeDeadlineSeconds=60), [pod()], (), "DeadlineExceeded")])
def test_jobs(given: Json, pods: list[Json], make: tuple[int | None, ...], end: str | None) -> None:
    step = job.decide(given, pods, NOW)
    assert step.make == make
    assert (step.end or {}).get("reason") == end


def test_a_failed_pod_is_replaced_after_a_pause() -> None:
    failed = pod(phase="Failed", creationTimestamp="2026-01-01T11:59:55Z")
    step = job.decide(make_job(), [failed], NOW)
    assert (step.make, step.look_again) == ((), 5.0)
    ends_sooner = make_job(status={"startTime": "2026-01-01T11:59:00Z"}, activeDeadlineSeconds=62)
    assert job.decide(ends_sooner, [failed], NOW).look_again == 2.0


# ---- autoscalers

def metric(percent: int) -> Json:
    return {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}}


def test_autoscaling_arithmetic() -> None:
    asked = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}
    pods = [pod("a", spec=asked), pod("b", spec=asked)]
    busy = {name: {"c": Usage(0.5, 0)} for name in ("a", "b")}
    assert read_metric(metric(50), 2, pods, busy).replicas == 4
    assert read_metric(metric(95), 2, pods, busy).replicas == 2, "within the tolerance"
    assert read_metric(metric(50), 2, pods, {}).problem == "no metrics of cpu yet"
    assert "missing request" in read_metric(metric(50), 1, [pod("a")], busy).problem
    assert "not available" in read_metric({"type": "External"}, 1, pods, busy).problem
    assert limited({"minReplicas": 2, "maxReplicas": 5}, 1, 1) == (2, "TooFewReplicas")
    assert limited({"maxReplicas": 5}, 2, 9) == (5, "TooManyReplicas")
    assert limited({"maxReplicas": 100}, 2, 50) == (6, "ScaleUpLimit")


def behaviour(direction: str, *policies: tuple[str, int, int], **more: object) -> Json:
    listed = [{"type": kind, "value": value, "periodSeconds": seconds} for kind, value, seconds in policies]
    return {"maxReplicas": 100, "behavior": {direction: {"policies": listed, **more}}}


def test_policies_of_scaling() -> None:
    both = (("Pods", 2, 60), ("Percent", 50, 60))
    assert limited(behaviour("scaleUp", *both), 10, 50) == (15, "ScaleUpLimit")
    assert limited(behaviour("scaleUp", *both, selectPolicy="Min"), 10, 50) == (12, "ScaleUpLimit")
    assert limited(behaviour("scaleUp", *both, selectPolicy="Disabled"), 10, 50) == (10, "ScaleUpLimit")
    assert limited(behaviour("scaleDown", *both), 10, 1) == (5, "ScaleDownLimit")
    assert limited(behaviour("scaleDown", *both, selectPolicy="Min"), 10, 1) == (8, "ScaleDownLimit")
    assert limited(behaviour("scaleDown", selectPolicy="Disabled"), 10, 1) == (10, "ScaleDownLimit")
    assert limited({"maxReplicas": 100}, 10, 1) == (1, ""), "down at once unless told otherwise"
    recent = [Event(at=100.0, change=2)]
    assert limited(behaviour("scaleUp", ("Pods", 2, 60)), 12, 50, recent, 130.0) == (12, "ScaleUpLimit"), "used up in this period"
    assert limited(behaviour("scaleUp", ("Pods", 2, 60)), 12, 50, recent, 161.0) == (14, "ScaleUpLimit")


def test_recommendations_are_steadied() -> None:
    wishes = [(0.0, 5), (200.0, 3), (400.0, 1)]
    assert steadied({}, 5, wishes, 400.0) == 3, "the most of the last five minutes"
    assert steadied(behaviour("scaleDown", stabilizationWindowSeconds=0), 5, wishes, 400.0) == 1
    assert steadied({}, 2, [(0.0, 3), (10.0, 9)], 10.0) == 9, "up at once"
    assert steadied(behaviour("scaleUp", stabilizationWindowSeconds=60), 2, [(0.0, 3), (10.0, 9)], 10.0) == 3


# ---- claims

def claim(**spec: object) -> Json:
    return {"metadata": {"name": "c", "namespace": "d", "uid": "u1"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}}


def test_a_claim_takes_what_fits() -> None:
    volume: Json = {"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"]}}
    assert fits(volume, claim())
    assert not fits(volume, claim(accessModes=["ReadWriteMany"]))
    assert not fits(volume, claim(storageClassName="fast"))
    assert not fits(volume, claim(resources={"requests": {"storage": "3Gi"}}))
    assert not fits({**volume, "status": {"phase": "Released"}}, claim())
    reserved = {**volume, "spec": {**volume["spec"], "claimRef": {"name": "other", "namespace": "d"}}}
    assert not fits(reserved, claim())
    assert fits(new_volume(claim()), claim())
