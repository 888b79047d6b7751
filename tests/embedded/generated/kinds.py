"""The kinds of the generated runs: where they live, what their objects and their status may say, mostly right."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.embedded.generated.events import event_body, newer_event_body
from tests.embedded.generated.limits import hard_amounts, limits_spec, quota_spec
from tests.embedded.generated.pods import finished, job_spec, pod_spec, workload
from tests.embedded.generated.storage import (
    claim_spec,
    claim_status,
    simple_claim,
    simple_volume,
    volume_spec,
    volume_status,
)
from tests.embedded.generated.values import (
    KEYS,
    Json,
    Values,
    counts,
    labels,
    members,
    odd_counts,
    one,
    rarely,
    selector_terms,
    some,
    texts,
)


@dataclass(frozen=True)
class Kind:
    api: str
    plural: str
    kind: str
    body: SearchStrategy[Json]
    namespaced: bool = True
    status: SearchStrategy[Json] | None = None
    scales: bool = False

    @property
    def api_version(self) -> str:
        return self.api.removeprefix("/apis/").removeprefix("/api/")

    def collection(self, space: str) -> str:
        return f"{self.api}/namespaces/{space}/{self.plural}" if self.namespaced else f"{self.api}/{self.plural}"

    def name(self, short: str, space: str) -> str:
        """Objects outside of namespaces carry the run in their name, so that runs do not meet."""
        return short if self.namespaced else f"{space}-{short}"


service_ports = st.lists(
    some(
        {"name": one("http", "grpc"), "port": one(80, 81, 82)}, targetPort=one(8080, "http"), protocol=one("TCP", "UDP")
    ),
    min_size=1,
    max_size=2,
    unique_by=(lambda port: port["name"], lambda port: port["port"]),
)
service_spec = some(
    {"ports": service_ports},
    selector=labels,
    type=one("ClusterIP", "NodePort", "LoadBalancer"),
    sessionAffinity=one("None", "ClientIP"),
    publishNotReadyAddresses=st.booleans(),
    internalTrafficPolicy=one("Local", "Cluster"),
)
metric = one(
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1024Mi"}}},
    {"type": "Pods"},
)
autoscaler = some(
    {
        "maxReplicas": rarely(one(1, 2, 5), one(0, -1)),
        "scaleTargetRef": rarely(
            st.just({"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}),
            one({"kind": "Deployment", "name": "a"}, {}),
        ),
    },
    minReplicas=one(0, 1, 3),
    metrics=st.lists(metric, max_size=2),
    behavior=one(
        {},
        {"scaleDown": {"stabilizationWindowSeconds": 5}},
        {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}},
        {"scaleUp": {"selectPolicy": "Never"}},
    ),
)
rules = st.lists(
    some(
        apiGroups=one([""], ["apps", "*"]),
        resources=one(["pods"], ["pods/log", "*"]),
        verbs=one(["get"], ["*"]),
        resourceNames=one(["a"]),
        nonResourceURLs=one(["/x"]),
    ),
    min_size=1,
    max_size=2,
)
subjects = st.lists(
    one(
        {"kind": "User", "name": "u"},
        {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
        {"kind": "ServiceAccount", "name": "s"},
        {"kind": "Other"},
    ),
    max_size=2,
)
paths = st.lists(
    some(
        {
            "backend": one(
                {"service": {"name": "s", "port": {"number": 80}}},
                {"service": {"name": "s", "port": {"name": "http"}}},
                {"service": {"name": "s"}},
                {},
            )
        },
        path=one("/", "/x", "y", "/a//b"),
        pathType=one("Prefix", "Exact", "ImplementationSpecific"),
    ),
    min_size=1,
    max_size=2,
)
ingress = some(
    rules=st.lists(
        some({"http": some({"paths": paths})}, host=one("a.example.com", "*.example.com", "Bad_Host")),
        min_size=1,
        max_size=2,
    ),
    defaultBackend=one({"service": {"name": "s", "port": {"number": 80}}}),
    ingressClassName=one("nginx"),
    tls=one([{"hosts": ["a.example.com"], "secretName": "s"}]),
)
widget_spec = some(
    {"size": odd_counts},
    mode=rarely(one("a", "b"), one("c", None)),
    tags=st.lists(one("a", "b", "c", "toolong", "X"), max_size=4),
    parts=members("name", ("a", "b", "c"), count=counts),
    free=one({}, {"x": 1}, {"x": {"y": [1, None]}}),
    port=one(80, "http", 1.5),
    unknown=one(1, {"x": 1}),
)
gadget_spec = some(
    color=rarely(one("red", "green"), one("blue", "", None)),
    limits=some(cpu=one("1", 2), ratio=one(0.5, 1, 2)),
    steps=st.lists(some(action=one("go", "stop"), seconds=odd_counts), max_size=3),
    when=one("2026-01-01T00:00:00Z", "yesterday"),
    nested=some(deep=some(value=one(1, "x"), list=st.lists(counts, max_size=2))),
)


def _core(plural: str, kind: str, body: SearchStrategy[Json], namespaced: bool = True, **more: Any) -> Kind:
    return Kind("/api/v1", plural, kind, body, namespaced, **more)


def _apps(plural: str, kind: str, **spec: Values) -> Kind:
    return Kind("/apis/apps/v1", plural, kind, workload(**spec), status=finished, scales=plural != "daemonsets")


LIMITING = {
    "limitranges": frozenset({"pods", "persistentvolumeclaims"}),
    "resourcequotas": frozenset({"pods", "services", "persistentvolumeclaims"}),
}
"""Kinds that change what is said of others, once the real server has noticed: a story of its own, and told as one."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
KINDS = (
    _core(
        "configmaps",
        "ConfigMap",
        some(
            data=rarely(st.dictionaries(one(*KEYS), texts, max_size=3), one({"bad key": ""}, {"k": 1}, ["x"])),
            binaryData=one({"b": "AAE="}, {"b": "?"}, {"k": "AAE="}),
            immutable=rarely(st.just(False), st.booleans()),
        ),
    ),
    _core(
        "secrets",
        "Secret",
        some(
            data=one({"a": "MQ=="}, {"b": "Mg==", "c": ""}, {"a": "%"}),
            stringData=st.dictionaries(one(*KEYS), texts, max_size=2),
            type=one("Opaque", "example.com/x", "kubernetes.io/tls", "kubernetes.io/dockerconfigjson"),
        ),
    ),
    _core(
        "services",
        "Service",
        some({"spec": service_spec}),
        status=some(loadBalancer=one({}, {})),
    ),
    _core(
        "pods",
        "Pod",
        some({"spec": pod_spec}),
        status=some(
            phase=one("Running", "Succeeded", "Failed"),
            podIP=one("1.2.3.4"),
            conditions=members("type", ("Ready", "Initialized"), status=one("True", "False")),
        ),
    ),
    _core(
        "serviceaccounts",
        "ServiceAccount",
        some(
            automountServiceAccountToken=st.booleans(),
            imagePullSecrets=members("name", ("p", "q")),
            secrets=members("name", ("s", "t")),
        ),
    ),
    _core(
        "endpoints",
        "Endpoints",
        some(
            subsets=st.lists(
                some(
                    addresses=members("ip", ("1.2.3.4", "1.2.3.5"), least=1),
                    ports=members("port", (80, 81), name=one("http", "grpc")),
                ),
                min_size=1,
                max_size=1,
            )
        ),
    ),  # type: ignore[arg-type]
    _apps(
        "deployments",
        "Deployment",
        replicas=odd_counts,
        strategy=one(
            {"type": "Recreate"},
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            {"type": "Recreate", "rollingUpdate": {}},
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
            {"rollingUpdate": {"maxSurge": "10%"}},
        ),
        minReadySeconds=odd_counts,
        revisionHistoryLimit=odd_counts,
        paused=st.booleans(),
        progressDeadlineSeconds=counts,
    ),
    _apps(
        "statefulsets",
        "StatefulSet",
        replicas=odd_counts,
        serviceName=one("s"),
        podManagementPolicy=one("Parallel", "OrderedReady", "X"),
        updateStrategy=one({"type": "OnDelete"}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
        minReadySeconds=counts,
    ),
    _apps("replicasets", "ReplicaSet", replicas=odd_counts, minReadySeconds=counts),
    _apps(
        "daemonsets",
        "DaemonSet",
        updateStrategy=one(
            {"type": "OnDelete"},
            {"rollingUpdate": {"maxUnavailable": 0}},
            {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        ),
        minReadySeconds=odd_counts,
    ),
    Kind(
        "/apis/batch/v1",
        "jobs",
        "Job",
        some({"spec": job_spec}),
        status=some(active=counts, startTime=one("2026-01-01T00:00:00Z")),
    ),
    Kind(
        "/apis/batch/v1",
        "cronjobs",
        "CronJob",
        some(
            {
                "spec": some(
                    {
                        "schedule": rarely(one("* * * * *", "@hourly"), one("")),
                        "jobTemplate": some({"spec": job_spec}),
                    },
                    suspend=st.booleans(),
                    concurrencyPolicy=one("Forbid", "Replace", "X"),
                    timeZone=one("Europe/Berlin", "Nowhere/At/All"),
                    startingDeadlineSeconds=one(5, 6),
                )
            }
        ),
        status=some(lastScheduleTime=one("2026-01-01T00:00:00Z")),
    ),
    Kind(
        "/apis/autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        some({"spec": autoscaler}),
        status=some(currentReplicas=counts, desiredReplicas=counts),
    ),
    Kind(RBAC, "roles", "Role", some(rules=rules)),
    Kind(
        RBAC,
        "rolebindings",
        "RoleBinding",
        some(
            {
                "roleRef": one(
                    {"kind": "Role", "name": "r"},
                    {"kind": "ClusterRole", "name": "view"},
                    {"kind": "Wrong", "name": "r"},
                    {"kind": "Role", "name": ""},
                )
            },
            subjects=subjects,
        ),
    ),
    Kind(
        RBAC,
        "clusterroles",
        "ClusterRole",
        some(
            rules=rules,
            aggregationRule=one(
                {"clusterRoleSelectors": [{"matchLabels": {"none": "such"}}]}, {"clusterRoleSelectors": []}
            ),
        ),
        False,
    ),
    Kind(
        "/apis/networking.k8s.io/v1",
        "ingresses",
        "Ingress",
        some({"spec": ingress}),
        status=some(loadBalancer=one({}, {"ingress": [{"ip": "1.2.3.4"}]})),
    ),
    Kind(
        "/apis/networking.k8s.io/v1",
        "networkpolicies",
        "NetworkPolicy",
        some(
            {
                "spec": some(
                    {"podSelector": selector_terms},
                    policyTypes=one(["Ingress"], ["Egress"], ["X"]),
                    ingress=st.lists(
                        some(
                            ports=st.lists(
                                some(port=one(80, "http", 70000), protocol=one("TCP", "X"), endPort=one(90, 1)),
                                max_size=2,
                            ),
                            **{
                                "from": st.lists(
                                    some(
                                        podSelector=selector_terms, ipBlock=one({"cidr": "10.0.0.0/8"}, {"cidr": "x"})
                                    ),
                                    max_size=2,
                                )
                            },
                        ),
                        max_size=2,
                    ),
                    egress=st.lists(st.just({}), max_size=1),
                )
            }
        ),
    ),
    Kind(
        "/apis/policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        some(
            {
                "spec": some(
                    minAvailable=one(1, "50%", -1, "x"),
                    selector=selector_terms,
                    unhealthyPodEvictionPolicy=one("AlwaysAllow", "X"),
                )
            }
        ),
        status=some(disruptionsAllowed=counts, currentHealthy=counts),
    ),
    Kind(
        "/apis/coordination.k8s.io/v1",
        "leases",
        "Lease",
        some(
            spec=some(
                {"holderIdentity": one("a", "b")},
                leaseDurationSeconds=one(15, 0, -1),
                renewTime=one("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00Z"),
                leaseTransitions=odd_counts,
            )
        ),
    ),
    Kind(
        "/apis/scheduling.k8s.io/v1",
        "priorityclasses",
        "PriorityClass",
        some({"value": one(1, 2, 2_000_000_000)}, description=texts, preemptionPolicy=one("Never", "X")),
        False,
    ),
    Kind(
        "/apis/storage.k8s.io/v1",
        "storageclasses",
        "StorageClass",
        some(
            {"provisioner": one("example.com/p", "Bad Name")},
            reclaimPolicy=one("Retain", "X"),
            volumeBindingMode=one("WaitForFirstConsumer"),
            parameters=one({"a": "b"}, {"c": "d"}),
            allowVolumeExpansion=st.booleans(),
            mountOptions=one(["ro"]),
        ),
        False,
    ),
    Kind(
        "/apis/discovery.k8s.io/v1",
        "endpointslices",
        "EndpointSlice",
        some(
            {
                "addressType": rarely(one("IPv4", "IPv6"), one("X", "")),
                "endpoints": st.lists(
                    some(
                        {"addresses": one(["1.2.3.4"], ["2001:db8::1"], ["x"], [])},
                        conditions=some(ready=st.booleans()),
                        hostname=one("h", "Bad Host"),
                    ),
                    min_size=1,
                    max_size=2,
                ),
            },
            ports=st.lists(
                some(name=one("http", "Bad"), port=one(80, 70000), protocol=one("TCP", "X")), min_size=1, max_size=2
            ),
        ),
    ),
    _core(
        "persistentvolumes", "PersistentVolume", some({"spec": st.one_of(simple_volume, volume_spec)}), False, status=volume_status
    ),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", some({"spec": st.one_of(simple_claim, claim_spec)}), status=claim_status),
    _core("events", "Event", event_body),
    Kind("/apis/events.k8s.io/v1", "events", "Event", newer_event_body),
    _core("limitranges", "LimitRange", some({"spec": limits_spec})),
    _core("resourcequotas", "ResourceQuota", some({"spec": quota_spec}), status=some(hard=hard_amounts, used=hard_amounts)),
    Kind(
        "/apis/suite.example.com/v1",
        "widgets",
        "Widget",
        some({"spec": widget_spec}),
        status=some(size=odd_counts, phase=one("Up", 5), unknown=one(1)),
        scales=True,
    ),
    Kind("/apis/suite.example.com/v1", "gadgets", "Gadget", some(spec=gadget_spec), False),
)
