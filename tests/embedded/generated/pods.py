"""Pods, and what is made of them."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.embedded.generated.values import (
    Json,
    Values,
    amounts,
    counts,
    labels,
    members,
    odd_counts,
    one,
    rarely,
    small_amounts,
    some,
    texts,
)

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
