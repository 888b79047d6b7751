"""One small object of every kind the suite goes through, and a change to it in each patch format."""

from typing import Any, NamedTuple

Json = dict[str, Any]
POD = {
    "containers": [
        {
            "name": "c",
            "image": "nginx:1",
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "ports": [{"containerPort": 80}],
            "readinessProbe": {"httpGet": {"port": 80}},
            "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
    ],
    "volumes": [{"name": "v", "configMap": {"name": "x"}}, {"name": "w"}],
}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": POD}
SELECTOR = {"matchLabels": {"app": "a"}}
LABELS = {"suite": "matrix"}


class Sample(NamedTuple):
    """How to write one kind. `change` is a merge patch that alters intent, `api` the path in front of the plural."""

    api: str
    plural: str
    kind: str
    body: Json
    change: Json
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return self.api.removeprefix("/apis/").removeprefix("/api/")

    def collection(self, namespace: str) -> str:
        return f"{self.api}/namespaces/{namespace}/{self.plural}" if self.namespaced else f"{self.api}/{self.plural}"

    def object(self, name: str) -> Json:
        metadata = {
            **self.body.get("metadata", {}),
            "name": name,
            "labels": {**LABELS, **self.body.get("metadata", {}).get("labels", {})},
        }
        return {"apiVersion": self.api_version, "kind": self.kind, **self.body, "metadata": metadata}


def _core(plural: str, kind: str, body: Json, change: Json, namespaced: bool = True) -> Sample:
    return Sample("/api/v1", plural, kind, body, change, namespaced)


def _apps(plural: str, kind: str, spec: Json, change: Json) -> Sample:
    return Sample("/apis/apps/v1", plural, kind, {"spec": spec}, change)


RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
ROLE = {"kind": "Role", "name": "r"}
HOOK = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/x"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Ignore",
    "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}],
}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRON = {
    "schedule": "* * * * *",
    "suspend": True,
    "jobTemplate": {
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}
    },
}

SAMPLES = [
    _core("configmaps", "ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2", "b": "3"}}),
    _core("secrets", "Secret", {"stringData": {"a": "1"}}, {"data": {"b": "Mg=="}}),
    _core("serviceaccounts", "ServiceAccount", {}, {"automountServiceAccountToken": False}),
    _core(
        "services",
        "Service",
        {"spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}},
        {"spec": {"selector": {"app": "b"}}},
    ),
    _core(
        "endpoints",
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 80}]}]},
        {"metadata": {"annotations": {"k": "v"}}},
    ),
    _core(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        {"metadata": {"annotations": {"k": "v"}}},
    ),
    _core(
        "persistentvolumes",
        "PersistentVolume",
        {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}},
        {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
        False,
    ),
    _core("pods", "Pod", {"spec": POD}, {"metadata": {"annotations": {"k": "v"}}}),
    _core("podtemplates", "PodTemplate", {"template": TEMPLATE}, {"metadata": {"annotations": {"k": "v"}}}),
    _core(
        "replicationcontrollers", "ReplicationController", {"spec": {"template": TEMPLATE}}, {"spec": {"replicas": 2}}
    ),
    _core(
        "limitranges",
        "LimitRange",
        {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}},
        {"metadata": {"annotations": {"k": "v"}}},
    ),
    _core(
        "resourcequotas",
        "ResourceQuota",
        {"spec": {"hard": {"count/widgets.example.com": "10"}}},
        {"spec": {"hard": {"count/widgets.example.com": "11"}}},
    ),
    _core(
        "events",
        "Event",
        {
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "NS"},
            "reason": "r",
            "message": "m",
            "type": "Normal",
        },
        {"message": "n"},
    ),
    _core(
        "nodes",
        "Node",
        {"spec": {"podCIDR": "10.1.0.0/24"}, "status": {"capacity": {"cpu": "1"}}},
        {"spec": {"unschedulable": True}},
        False,
    ),
    _apps("deployments", "Deployment", {"selector": SELECTOR, "template": TEMPLATE}, {"spec": {"replicas": 2}}),
    _apps(
        "replicasets",
        "ReplicaSet",
        {"selector": SELECTOR, "template": TEMPLATE, "replicas": 0},
        {"spec": {"replicas": 3}},
    ),
    _apps(
        "statefulsets",
        "StatefulSet",
        {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "s", "replicas": 0},
        {"spec": {"replicas": 3}},
    ),
    _apps("daemonsets", "DaemonSet", {"selector": SELECTOR, "template": TEMPLATE}, {"spec": {"minReadySeconds": 3}}),
    Sample(
        "/apis/apps/v1",
        "controllerrevisions",
        "ControllerRevision",
        {"data": {"a": 1}, "revision": 1},
        {"metadata": {"annotations": {"k": "v"}}},
    ),
    Sample(
        "/apis/batch/v1",
        "jobs",
        "Job",
        {
            "spec": {
                "suspend": True,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}},
            }
        },
        {"spec": {"backoffLimit": 2}},
    ),
    Sample("/apis/batch/v1", "cronjobs", "CronJob", {"spec": CRON}, {"spec": {"schedule": "1 * * * *"}}),
    Sample(
        "/apis/autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        {"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}},
        {"spec": {"maxReplicas": 4}},
    ),
    Sample(
        "/apis/networking.k8s.io/v1",
        "ingresses",
        "Ingress",
        {
            "spec": {
                "rules": [
                    {
                        "host": "a.example.com",
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "s", "port": {"number": 80}}},
                                }
                            ]
                        },
                    }
                ]
            }
        },
        {"spec": {"ingressClassName": "n"}},
    ),
    Sample(
        "/apis/networking.k8s.io/v1",
        "ingressclasses",
        "IngressClass",
        {"spec": {"controller": "example.com/c"}},
        {"metadata": {"annotations": {"k": "v"}}},
        False,
    ),
    Sample(
        "/apis/networking.k8s.io/v1",
        "networkpolicies",
        "NetworkPolicy",
        {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}},
        {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}},
    ),
    Sample(
        "/apis/policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        {"spec": {"minAvailable": 1, "selector": SELECTOR}},
        {"spec": {"minAvailable": 2}},
    ),
    Sample(RBAC, "roles", "Role", {"rules": RULES}, {"rules": []}),
    Sample(
        RBAC,
        "rolebindings",
        "RoleBinding",
        {"roleRef": ROLE, "subjects": [{"kind": "User", "name": "u"}]},
        {"subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}]},
    ),
    Sample(
        RBAC,
        "clusterroles",
        "ClusterRole",
        {"rules": RULES},
        {"rules": [*RULES, {"nonResourceURLs": ["/x"], "verbs": ["get"]}]},
        False,
    ),
    Sample(
        RBAC,
        "clusterrolebindings",
        "ClusterRoleBinding",
        {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "Group", "name": "g"}]},
        {"subjects": [{"kind": "User", "name": "u"}]},
        False,
    ),
    Sample(
        "/apis/storage.k8s.io/v1",
        "storageclasses",
        "StorageClass",
        {"provisioner": "example.com/p"},
        {"allowVolumeExpansion": True},
        False,
    ),
    Sample(
        "/apis/coordination.k8s.io/v1",
        "leases",
        "Lease",
        {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}},
        {"spec": {"holderIdentity": "b"}},
    ),
    Sample(
        "/apis/discovery.k8s.io/v1",
        "endpointslices",
        "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}], "ports": [{"port": 80}]},
        {"endpoints": [{"addresses": ["1.2.3.5"]}]},
    ),
    Sample("/apis/scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", {"value": 5}, {"description": "d"}, False),
    Sample(
        "/apis/node.k8s.io/v1",
        "runtimeclasses",
        "RuntimeClass",
        {"handler": "h"},
        {"metadata": {"annotations": {"k": "v"}}},
        False,
    ),
    Sample(
        "/apis/admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        {"webhooks": [HOOK]},
        {"webhooks": [{**HOOK, "timeoutSeconds": 3}]},
        False,
    ),
    Sample(
        "/apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        {"webhooks": [HOOK]},
        {"webhooks": [{**HOOK, "timeoutSeconds": 3}]},
        False,
    ),
    Sample(
        "/apis/suite.example.com/v1", "widgets", "Widget", {"spec": {"size": 1, "tags": ["a"]}}, {"spec": {"size": 2}}
    ),
]

WIDGET: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.suite.example.com"},
    "spec": {
        "group": "suite.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wi"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 0, "maximum": 9},
                                    "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
                                    "tags": {
                                        "type": "array",
                                        "items": {"type": "string", "maxLength": 3, "pattern": "^[a-z]+$"},
                                        "x-kubernetes-list-type": "set",
                                        "maxItems": 3,
                                    },
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "count": {"type": "integer", "default": 1},
                                            },
                                        },
                                    },
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"size": {"type": "integer"}, "phase": {"type": "string"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}
