"""The kinds of the generated runs: where they live, what their objects and their status may say, mostly right."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Json = dict[str, Any]
Values = SearchStrategy[Any]


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


def some(required: dict[str, Values] | None = None, **optional: Values) -> SearchStrategy[Json]:
    """An object with these members, and any of those."""
    return st.fixed_dictionaries(required or {}, optional=optional)


def one(*values: Any) -> Values:
    return st.sampled_from(values)


def rarely(usual: Values, odd: Values) -> Values:
    """One in eight is odd."""
    return st.integers(0, 7).flatmap(lambda number: odd if number == 7 else usual)


def members(key: str, names: tuple[str, ...], least: int = 0, **fields: Values) -> Values:
    """A list of objects told apart by a key."""
    return st.lists(
        some({key: st.sampled_from(names)}, **fields), min_size=least, max_size=3, unique_by=lambda item: item[key]
    )


KEYS = ("k", "l", "m")
texts = one("", "0", "1", "two words")
labels = st.dictionaries(one(*KEYS), one("x", "y", ""), max_size=3)
odd_labels = rarely(labels, one({"bad key!": "x"}, {"k": "not valid!"}, {"k": "v" * 64}, {"k": None}))
counts = one(0, 1, 2, 5)
odd_counts = rarely(counts, one(-1, "x", 1.5, None, 2**40))
small_amounts = some(cpu=one("100m", "0.5", 1, "2"), memory=one("1Gi", "1024Mi", "128974848", "1e3"))
amounts = rarely(small_amounts, one({"cpu": "-1"}, {"cpu": "x"}, {"memory": {}}, {"example.com/gpu": "1.5"}))
selector_terms = some(
    matchLabels=labels,
    matchExpressions=st.lists(
        some(
            {"key": one(*KEYS), "operator": rarely(one("In", "NotIn"), one("Exists", "Like"))},
            values=st.lists(one("x", "y"), max_size=2),
        ),
        max_size=2,
    ),
)

# --- pods

probes = some(
    httpGet=rarely(
        some({"port": one(80, "http")}, path=one("/", "/x"), scheme=one("HTTP", "HTTPS")),
        one({"port": 0}, {"port": "bad name"}, {}),
    ),
    initialDelaySeconds=odd_counts,
    periodSeconds=counts,
)
environment = members(
    "name",
    ("A", "B", "C"),
    value=texts,
    valueFrom=one({"fieldRef": {"fieldPath": "metadata.name"}}, {"secretKeyRef": {"name": "s", "key": "k"}}),
)
ports = members(
    "containerPort", (80, 81, 70000), name=one("http", "grpc", "Bad Name"), protocol=one("TCP", "UDP", "XYZ")
)  # type: ignore[arg-type]
containers = members(
    "name",
    ("c", "d"),
    least=1,
    image=one("nginx", "nginx:1", "host:5000/x@sha256:0"),
    env=environment,
    ports=rarely(members("containerPort", (80, 81), name=one("http", "grpc")), ports),  # type: ignore[arg-type]
    resources=some(limits=amounts, requests=small_amounts),
    readinessProbe=probes,
    imagePullPolicy=rarely(one("Always", "IfNotPresent"), one("Sometimes")),
    volumeMounts=members("mountPath", ("/v", "/w"), name=one("v", "w")),
    securityContext=some(runAsUser=one(0, 1000, -1), runAsNonRoot=st.booleans(), readOnlyRootFilesystem=st.booleans()),
    command=st.lists(texts, max_size=2),
    lifecycle=one({"preStop": {"exec": {"command": ["x"]}}}, {"preStop": {}}),
)
volumes = st.lists(
    one(
        {"name": "v"},
        {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1.5Gi"}},
        {"name": "w", "configMap": {"name": "a", "items": [{"key": "k", "path": "p"}]}},
        {"name": "w", "secret": {"secretName": "s", "defaultMode": 256}},
    ),
    max_size=2,
    unique_by=lambda volume: volume["name"],
)
templates_spec = some(
    {"containers": containers},
    volumes=st.one_of(st.just([{"name": "v"}, {"name": "w", "emptyDir": {}}]), volumes),
    initContainers=members("name", ("i", "c"), image=one("busybox"), restartPolicy=one("Always", "Never")),
    nodeSelector=labels,
    hostNetwork=st.booleans(),
    terminationGracePeriodSeconds=odd_counts,
    dnsPolicy=rarely(one("Default", "ClusterFirst"), one("Nope")),
    tolerations=st.lists(
        some(
            key=one("k"),
            operator=one("Exists", "Equal"),
            effect=one("NoExecute", "NoSchedule", "Bad"),
            tolerationSeconds=one(5),
        ),
        max_size=2,
    ),
    serviceAccountName=one("default"),
    affinity=one(
        {"nodeAffinity": {}},
        {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "t", "labelSelector": {}}}
                ]
            }
        },
    ),
)
simple_pod = some({"containers": members("name", ("c", "d"), least=1, image=one("nginx:1", "x"), env=environment)})
pod_spec = st.one_of(simple_pod, simple_pod.map(lambda spec: {**spec, "nodeName": "somewhere"}), templates_spec)


def workload(**spec: Values) -> SearchStrategy[Json]:
    """Selector and template agree, most of the time."""
    template = some(
        {
            "metadata": rarely(
                st.just({"labels": {"app": "a"}}), one({"labels": {"app": "b"}}, {"labels": {"app": "a", "k": "x"}})
            ),
            "spec": st.one_of(simple_pod, templates_spec),
        }
    )
    chosen = rarely(st.just({"matchLabels": {"app": "a"}}), some(matchLabels=labels))
    return some({"spec": some({"selector": chosen, "template": template}, **spec)})


finished = some(
    replicas=counts,
    readyReplicas=odd_counts,
    observedGeneration=one(1, 2),
    conditions=members("type", ("Available", "Progressing"), status=one("True", "False"), reason=one("r")),
)
job_template = st.just({"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}})
job_spec = some(
    {"template": job_template},
    suspend=st.booleans(),
    parallelism=odd_counts,
    completions=counts,
    backoffLimit=odd_counts,
    ttlSecondsAfterFinished=counts,
    completionMode=one("Indexed", "NonIndexed"),
    activeDeadlineSeconds=one(0, 5),
)

# --- the rest

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

GADGET: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.suite.example.com"},
    "spec": {
        "group": "suite.example.com",
        "scope": "Cluster",
        "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "additionalPrinterColumns": [
                    {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "default": {"color": "red"},
                                "properties": {
                                    "color": {"type": "string", "enum": ["red", "green"], "default": "green"},
                                    "limits": {
                                        "type": "object",
                                        "properties": {
                                            "cpu": {
                                                "x-kubernetes-int-or-string": True,
                                                "anyOf": [{"type": "integer"}, {"type": "string"}],
                                                "pattern": "^[0-9]+$",
                                            },
                                            "ratio": {
                                                "type": "number",
                                                "exclusiveMinimum": True,
                                                "minimum": 0,
                                                "maximum": 1,
                                            },
                                        },
                                    },
                                    "steps": {
                                        "type": "array",
                                        "maxItems": 2,
                                        "items": {
                                            "type": "object",
                                            "required": ["action"],
                                            "properties": {
                                                "action": {"type": "string"},
                                                "seconds": {"type": "integer", "minimum": 0, "default": 3},
                                            },
                                        },
                                    },
                                    "when": {"type": "string", "format": "date-time"},
                                    "nested": {
                                        "type": "object",
                                        "nullable": True,
                                        "x-kubernetes-map-type": "atomic",
                                        "properties": {
                                            "deep": {
                                                "type": "object",
                                                "properties": {
                                                    "value": {"type": "integer"},
                                                    "list": {
                                                        "type": "array",
                                                        "items": {"type": "integer", "enum": [0, 1, 2]},
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
