"""What `kubectl get -o wide` shows of every kind: columns and cells of both servers, for bare objects and for ones with a status."""

from typing import Any

import pytest

from tests.embedded.conftest import Both
from tests.embedded.samples import POD, SAMPLES, SELECTOR, TEMPLATE, Sample
from tests.embedded.servers import MERGE, Api

pytestmark = pytest.mark.testbed
Json = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
EXPRESSIONS = {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["y", "x"]}, {"key": "b", "operator": "Exists"}]}
THEN, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:02:05Z"
OLD = {"terminated": {"exitCode": 1, "finishedAt": THEN, "reason": "Error"}}
METRICS = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1500m"}}},
    {"type": "External", "external": {"metric": {"name": "e"}, "target": {"type": "Value", "value": "10"}}},
]


def rich(api: str, plural: str, kind: str, body: Json, status: Json | None = None, namespaced: bool = True) -> tuple[Sample, Json | None]:
    return Sample(api, plural, kind, body, {}, namespaced), status


def _conditions(*types: str) -> list[Json]:
    return [{"type": kind, "status": "True"} for kind in types]


RICH = [
    rich(
        "/api/v1", "pods", "Pod", {"spec": {**POD, "nodeName": "n", "readinessGates": [{"conditionType": "example.com/g"}]}},
        {
            "phase": "Running", "podIP": "1.2.3.4", "conditions": _conditions("Ready", "example.com/g"),
            "containerStatuses": [
                {"name": "c", "image": "x", "imageID": "", "ready": True, "restartCount": 2, "lastState": OLD, "state": {"running": {}}}
            ],
        },
    ),
    rich("/api/v1", "pods", "Pod", {"spec": {**POD, "initContainers": [{"name": "i", "image": "x"}]}}, {
        "phase": "Pending",
        "initContainerStatuses": [{"name": "i", "image": "x", "imageID": "", "ready": False, "restartCount": 1, "state": OLD}],
    }),
    rich("/api/v1", "services", "Service", {"spec": {"ports": [{"port": 80}], "externalIPs": ["9.8.7.6"], "type": "LoadBalancer"}}, {
        "loadBalancer": {"ingress": [{"ip": "5.6.7.8"}, {"hostname": "a.example.com"}]},
    }),
    rich("/api/v1", "services", "Service", {"spec": {"type": "ExternalName", "externalName": "a.example.com"}}),
    rich("/api/v1", "services", "Service", {"spec": {"clusterIP": "None", "selector": {"b": "1", "a": "2"}, "ports": [{"port": 80}]}}),
    rich("/api/v1", "endpoints", "Endpoints", {
        "subsets": [{"addresses": [{"ip": f"1.2.3.{n}"} for n in range(1, 6)], "ports": [{"port": 80}]}],
    }),
    rich("/api/v1", "endpoints", "Endpoints", {"subsets": [{"addresses": [{"ip": "2001:db8::1"}], "ports": [{"port": 80}]}]}),
    rich("/api/v1", "endpoints", "Endpoints", {"subsets": [{"addresses": [{"ip": "1.2.3.4"}]}]}),
    rich("/api/v1", "events", "Event", {
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "NS", "fieldPath": "spec.containers{c}"}, "reason": "r",
        "message": " m ", "type": "Normal", "source": {"component": "kubelet", "host": "h"}, "firstTimestamp": THEN, "lastTimestamp": LATER,
        "count": 5,
    }),
    rich("/api/v1", "events", "Event", {
        "involvedObject": {"kind": "Pod", "namespace": "NS"}, "reason": "r", "message": "m", "type": "Warning", "action": "a",
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "c", "reportingInstance": "i",
        "series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:00.000000Z"},
    }),
    rich("/api/v1", "persistentvolumes", "PersistentVolume", {
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "hostPath": {"path": "/x"},
            "storageClassName": "fast", "claimRef": {"namespace": "n", "name": "c"},
        },
    }, {"phase": "Released", "reason": "why"}, False),
    rich("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", {
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "v", "storageClassName": "fast",
        },
    }, {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"]}),
    rich("/api/v1", "resourcequotas", "ResourceQuota", {"spec": {"hard": {"count/x.example.com": "5"}}}, {
        "hard": {"count/x.example.com": "5", "limits.cpu": "2", "requests.cpu": "1"},
        "used": {"count/x.example.com": "1", "limits.cpu": "1"},
    }),
    rich("/api/v1", "nodes", "Node", {"metadata": {"labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"}}}, {
        "conditions": _conditions("Ready"), "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
        "nodeInfo": {
            "kubeletVersion": "v1", "osImage": "os", "kernelVersion": "k", "containerRuntimeVersion": "r", "architecture": "", "bootID": "",
            "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "systemUUID": "",
        },
    }, False),
    rich("/apis/apps/v1", "deployments", "Deployment", {
        "spec": {
            "selector": {**SELECTOR, "matchExpressions": [{"key": "app", "operator": "In", "values": ["b", "a"]}]}, "template": TEMPLATE,
        },
    }, {"replicas": 3, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1}),
    rich("/apis/apps/v1", "daemonsets", "DaemonSet", {
        "spec": {"selector": SELECTOR, "template": {**TEMPLATE, "spec": {**POD, "nodeSelector": {"b": "1", "a": "2"}}}},
    }, {"currentNumberScheduled": 1, "desiredNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 1, "numberAvailable": 1}),
    rich("/apis/apps/v1", "controllerrevisions", "ControllerRevision", {
        "metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u", "controller": True}]},
        "data": {"a": 1}, "revision": 3,
    }),
    rich("/apis/autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", {
        "spec": {"maxReplicas": 3, "metrics": METRICS, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
    }, {
        "currentReplicas": 2, "desiredReplicas": 2, "conditions": _conditions("AbleToScale"),
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 10, "averageValue": "5m"}}}],
    }),
    rich("/apis/networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", {"spec": {"podSelector": EXPRESSIONS}}),
    rich("/apis/networking.k8s.io/v1", "ingressclasses", "IngressClass", {
        "spec": {"controller": "example.com/c", "parameters": {"apiGroup": "example.com", "kind": "K", "name": "n"}},
    }, None, False),
    rich("/apis/networking.k8s.io/v1", "ingresses", "Ingress", {
        "spec": {
            "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}, "tls": [{"hosts": ["a.example.com"]}],
            "rules": [{"host": f"{letter}.example.com"} for letter in "abcde"],
        },
    }, {"loadBalancer": {"ingress": [{"ip": "5.6.7.8"}, {"hostname": "a.example.com"}]}}),
    rich("/apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", {"spec": {"maxUnavailable": "50%", "selector": SELECTOR}}),
    rich("/apis/discovery.k8s.io/v1", "endpointslices", "EndpointSlice", {
        "addressType": "IPv4", "endpoints": [{"addresses": [f"1.2.3.{n}"]} for n in range(1, 6)], "ports": [{"name": "http"}, {"port": 80}],
    }),
    rich("/apis/discovery.k8s.io/v1", "endpointslices", "EndpointSlice", {"addressType": "IPv4", "endpoints": []}),
    rich("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", {
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
        ],
    }, None, False),
    rich("/apis/storage.k8s.io/v1", "storageclasses", "StorageClass", {
        "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "example.com/p",
    }, None, False),
    rich("/apis/storage.k8s.io/v1", "csidrivers", "CSIDriver", {"spec": {"tokenRequests": [{"audience": "a"}]}}, None, False),
    rich("/apis/storage.k8s.io/v1", "csinodes", "CSINode", {"spec": {"drivers": [{"name": "d", "nodeID": "n"}]}}, None, False),
    rich("/apis/storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", {"storageClassName": "fast", "capacity": "1Gi"}),
    rich("/apis/storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", {
        "spec": {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
    }, None, False),
    rich("/apis/storage.k8s.io/v1", "volumeattributesclasses", "VolumeAttributesClass", {
        "driverName": "d", "parameters": {"a": "b"},
    }, None, False),
    rich("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", {
        "spec": {
            "validations": [{"expression": "true"}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {
                "resourceRules": [{"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}]
            },
        },
    }, None, False),
    rich("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", {
        "spec": {"policyName": "p", "validationActions": ["Deny"], "paramRef": {"name": "n", "parameterNotFoundAction": "Deny"}},
    }, None, False),
    rich("/apis/batch/v1", "cronjobs", "CronJob", {
        "spec": {
            "schedule": "* * * * *", "suspend": True, "timeZone": "Europe/Berlin",
            "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}},
        },
    }, {"lastScheduleTime": THEN, "active": [{"name": "a"}]}),
    rich("/apis/batch/v1", "jobs", "Job", {
        "spec": {
            "parallelism": 3, "completions": 5,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}},
        },
    }, {"startTime": THEN, "succeeded": 2, "active": 1, "ready": 1}),
]  # fmt: skip


@pytest.fixture
def both(real: Api, bare: Api) -> Both:
    """Without the loops: nobody counts or collects beside the real server."""
    return Both(bare, real)


def _shown(api: Api, sample: Sample, space: str, status: Json | None) -> Any:
    name = f"{space}-t"
    value = sample.object(name)
    for field in ("involvedObject", "metadata"):
        if isinstance(value.get(field), dict) and value[field].get("namespace") == "NS":
            value[field] = {**value[field], "namespace": space}
    made = api.call("POST", sample.collection(space), value)
    path = f"{sample.collection(space)}/{name}"
    if status is not None:
        told = api.call("PATCH", f"{path}/status", {"status": status}, MERGE)
        assert told.status == 200, told.value
    table = api.call("GET", sample.collection(space), headers={"Accept": TABLE}, fieldSelector=f"metadata.name={name}").value
    api.call("DELETE", path, gracePeriodSeconds="0", propagationPolicy="Background")
    api.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
    columns = [{**column, "description": ""} for column in table["columnDefinitions"]]
    return [made.status, columns, [row["cells"] for row in table["rows"]]]


SHOWN = [*((sample, None) for sample in SAMPLES), *RICH]


@pytest.mark.parametrize(("sample", "status"), SHOWN, ids=lambda part: getattr(part, "plural", ""))
def test_both_servers_show_the_same(both: Both, space: str, sample: Sample, status: Json | None) -> None:
    shown = both.same(sample.plural, lambda api: _shown(api, sample, space, status))
    assert shown[0] == 201
    assert len(shown[2]) == 1
    both.check()
