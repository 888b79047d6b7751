"""Requests that are refused, and a few that only just are not: both servers must say the same."""

from typing import Any

from tests.embedded.samples import POD, SELECTOR, TEMPLATE
from tests.embedded.servers import APPLY, JSON_PATCH, MERGE

CORE, APPS, WIDGETS = (
    "/api/v1/namespaces/NS",
    "/apis/apps/v1/namespaces/NS",
    "/apis/suite.example.com/v1/namespaces/NS/widgets",
)
Case = tuple[str, str, Any, dict[str, str]]


def _pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def _container(**container: Any) -> dict[str, Any]:
    return _pod(containers=[{"name": "c", "image": "x", **container}])


def _deployment(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "d"}, "spec": {"selector": SELECTOR, "template": TEMPLATE, **spec}}


def _service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}


def _widget(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "suite.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 1, **spec},
    }


def _post(path: str, body: Any, **query: str) -> Case:
    return "POST", path, body, query


CASES: dict[str, Case] = {
    "bad name": _post(f"{CORE}/configmaps", {"metadata": {"name": "A_b"}}),
    "no name": _post(f"{CORE}/configmaps", {"metadata": {}}),
    "slash in name": _post(f"{CORE}/configmaps", {"metadata": {"name": "a/b"}}),
    "bad label": _post(f"{CORE}/configmaps", {"metadata": {"name": "a", "labels": {"a b": "c"}}}),
    "bad annotation": _post(f"{CORE}/configmaps", {"metadata": {"name": "a", "annotations": {"a b": "c"}}}),
    "bad config key": _post(f"{CORE}/configmaps", {"metadata": {"name": "a"}, "data": {"a b": "c"}}),
    "wrong type": _post(f"{CORE}/configmaps", {"metadata": {"name": "a"}, "data": {"a": 1}}),
    "wrong type deep": _post(f"{APPS}/deployments", _deployment(replicas="three")),
    "data no map": _post(f"{CORE}/configmaps", {"metadata": {"name": "a"}, "data": "x"}),
    "no json": ("POST", f"{CORE}/configmaps", b"{", {}),
    "wrong kind": _post(f"{CORE}/configmaps", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
    "wrong version": _post(f"{CORE}/configmaps", {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}}),
    "wrong namespace": _post(f"{CORE}/configmaps", {"metadata": {"name": "a", "namespace": "other"}}),
    "no such namespace": _post("/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "a"}}),
    "version on create": _post(f"{CORE}/configmaps", {"metadata": {"name": "a", "resourceVersion": "1"}}),
    "unknown field strict": _post(
        f"{CORE}/configmaps", {"metadata": {"name": "a", "x": 1}, "y": 2}, fieldValidation="Strict"
    ),
    "unknown field deep strict": _post(f"{APPS}/deployments", _deployment(x=1), fieldValidation="Strict"),
    "duplicate field strict": (
        "POST",
        f"{CORE}/configmaps",
        b'{"metadata":{"name":"a"},"data":{"a":"1","a":"2"}}',
        {"fieldValidation": "Strict"},
    ),
    "bad field validation": _post(f"{CORE}/configmaps", {"metadata": {"name": "a"}}, fieldValidation="Maybe"),
    "bad dry run": _post(f"{CORE}/configmaps", {"metadata": {"name": "a"}}, dryRun="Some"),
    "bad base64": _post(f"{CORE}/secrets", {"metadata": {"name": "a"}, "data": {"a": "#"}}),
    "bad quantity": _post(f"{CORE}/pods", _container(resources={"limits": {"cpu": "x"}})),
    "no containers": _post(f"{CORE}/pods", _pod(containers=[])),
    "no image": _post(f"{CORE}/pods", _pod(containers=[{"name": "c"}])),
    "no container name": _post(f"{CORE}/pods", _pod(containers=[{"image": "c"}])),
    "bad container name": _post(f"{CORE}/pods", _pod(containers=[{"name": "A", "image": "c"}])),
    "two containers of a name": _post(
        f"{CORE}/pods", _pod(containers=[{"name": "c", "image": "x"}, {"name": "c", "image": "x"}])
    ),
    "bad pull policy": _post(f"{CORE}/pods", _container(imagePullPolicy="Perhaps")),
    "bad port": _post(f"{CORE}/pods", _container(ports=[{"containerPort": 70000}])),
    "no port": _post(f"{CORE}/pods", _container(ports=[{"name": "a"}])),
    "bad protocol": _post(f"{CORE}/pods", _container(ports=[{"containerPort": 7, "protocol": "X"}])),
    "no env name": _post(f"{CORE}/pods", _container(env=[{"value": "a"}])),
    "mount of nothing": _post(f"{CORE}/pods", _container(volumeMounts=[{"name": "v", "mountPath": "/v"}])),
    "two volumes of a name": _post(f"{CORE}/pods", _pod(volumes=[{"name": "v"}, {"name": "v"}])),
    "probe of nothing": _post(f"{CORE}/pods", _container(livenessProbe={"periodSeconds": 3})),
    "bad restart policy": _post(f"{CORE}/pods", _pod(restartPolicy="Maybe")),
    "no account": _post(f"{CORE}/pods", _pod(serviceAccountName="ghost")),
    "no priority class": _post(f"{CORE}/pods", _pod(priorityClassName="ghost")),
    "no selector": _post(f"{APPS}/deployments", {"metadata": {"name": "d"}, "spec": {"template": TEMPLATE}}),
    "selector misses": _post(f"{APPS}/deployments", _deployment(selector={"matchLabels": {"app": "b"}})),
    "negative replicas": _post(f"{APPS}/deployments", _deployment(replicas=-1)),
    "template restarts": _post(
        f"{APPS}/deployments",
        _deployment(template={"metadata": TEMPLATE["metadata"], "spec": {**POD, "restartPolicy": "Never"}}),
    ),
    "job restarts": _post(
        "/apis/batch/v1/namespaces/NS/jobs",
        {"metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}},
    ),
    "service without ports": _post(f"{CORE}/services", _service(ports=[])),
    "service bad name": _post(f"{CORE}/services", {"metadata": {"name": "1a"}, "spec": {"ports": [{"port": 80}]}}),
    "service ports unnamed": _post(f"{CORE}/services", _service(ports=[{"port": 80}, {"port": 81}])),
    "service bad type": _post(f"{CORE}/services", _service(type="Odd")),
    "autoscaler": _post(
        "/apis/autoscaling/v2/namespaces/NS/horizontalpodautoscalers",
        {
            "metadata": {"name": "h"},
            "spec": {"maxReplicas": 1, "minReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d"}},
        },
    ),
    "ingress path type": _post(
        "/apis/networking.k8s.io/v1/namespaces/NS/ingresses",
        {
            "metadata": {"name": "i"},
            "spec": {
                "rules": [
                    {"http": {"paths": [{"path": "/", "backend": {"service": {"name": "s", "port": {"number": 1}}}}]}}
                ]
            },
        },
    ),
    "widget too large": _post(WIDGETS, _widget(size=10)),
    "widget wrong type": _post(WIDGETS, _widget(size="1")),
    "widget float": _post(WIDGETS, _widget(size=1.5)),
    "widget without size": _post(
        WIDGETS, {"apiVersion": "suite.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    ),
    "widget bad mode": _post(WIDGETS, _widget(mode="c")),
    "widget bad tags": _post(WIDGETS, _widget(tags=["A", "toolong", "b", "b"])),
    "widget null": _post(WIDGETS, _widget(size=None)),
    "widget tags no list": _post(WIDGETS, _widget(tags="a")),
    "widget parts twice": _post(WIDGETS, _widget(parts=[{"name": "a"}, {"name": "a"}])),
    "widget part unnamed": _post(WIDGETS, _widget(parts=[{"count": 1}])),
    "widget unknown strict": _post(WIDGETS, _widget(zzz=1), fieldValidation="Strict"),
    "widget port": _post(WIDGETS, _widget(port=True)),
    "widget labels": _post(WIDGETS, _widget(labels={"a": 1})),
    "widget fine": _post(
        WIDGETS, _widget(free={"a": [1]}, port="80", labels={"a": "b"}, parts=[{"name": "a"}], tags=["a"], zzz=1)
    ),
    "widget update bad": ("PATCH", f"{WIDGETS}/w", {"spec": {"size": 11}}, {"content": MERGE}),
    "widget null merge": ("PATCH", f"{WIDGETS}/w", {"spec": {"mode": None}}, {"content": MERGE}),
    "widget apply list": (
        "PATCH",
        f"{WIDGETS}/w",
        _widget(parts=[{"name": "b"}], tags=["b"]),
        {"content": APPLY, "fieldManager": "m"},
    ),
    "widget apply conflict": ("PATCH", f"{WIDGETS}/w", _widget(size=3), {"content": APPLY, "fieldManager": "m2"}),
    "apply without manager": ("PATCH", f"{WIDGETS}/w", _widget(), {"content": APPLY}),
    "json patch test fails": (
        "PATCH",
        f"{WIDGETS}/w",
        [{"op": "test", "path": "/spec/size", "value": 5}],
        {"content": JSON_PATCH},
    ),
    "json patch missing path": (
        "PATCH",
        f"{WIDGETS}/w",
        [{"op": "remove", "path": "/spec/nothing"}],
        {"content": JSON_PATCH},
    ),
    "json patch no list": ("PATCH", f"{WIDGETS}/w", {"a": 1}, {"content": JSON_PATCH}),
    "patch unknown type": ("PATCH", f"{WIDGETS}/w", {"a": 1}, {"content": "application/json"}),
    "patch of nothing": ("PATCH", f"{WIDGETS}/ghost", {"spec": {"size": 2}}, {"content": MERGE}),
    "put name differs": ("PUT", f"{WIDGETS}/other", _widget(), {}),
    "put of nothing": ("PUT", f"{CORE}/configmaps/ghost", {"metadata": {"name": "ghost"}}, {}),
    "delete of nothing": ("DELETE", f"{CORE}/configmaps/ghost", None, {}),
    "delete uid differs": (
        "DELETE",
        f"{WIDGETS}/w",
        {"preconditions": {"uid": "11111111-1111-1111-1111-111111111111"}},
        {},
    ),
    "delete bad policy": ("DELETE", f"{WIDGETS}/w", {"propagationPolicy": "Maybe"}, {}),
    "no such resource": ("GET", f"{CORE}/gadgets", None, {}),
    "no such group": ("GET", "/apis/ghost.example.com/v1/gadgets", None, {}),
    "no such subresource": ("GET", f"{CORE}/configmaps/a/status", None, {}),
    "bad field selector": ("GET", f"{CORE}/configmaps", None, {"fieldSelector": "spec.x=1"}),
    "bad limit": ("GET", f"{CORE}/configmaps", None, {"limit": "x"}),
    "bad continue": ("GET", f"{CORE}/configmaps", None, {"limit": "1", "continue": "x"}),
    "bad version": ("GET", f"{CORE}/configmaps", None, {"resourceVersion": "x"}),
    "method": ("POST", f"{CORE}/configmaps/a", {"metadata": {"name": "a"}}, {}),
    "log without pod": ("GET", f"{CORE}/pods/ghost/log", None, {}),
    "token too short": _post(f"{CORE}/serviceaccounts/default/token", {"spec": {"expirationSeconds": 60}}),
    "delete default": ("DELETE", "/api/v1/namespaces/default", None, {}),
    "crd without schema": _post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "as.b.example.com"},
            "spec": {
                "group": "b.example.com",
                "scope": "Namespaced",
                "names": {"plural": "as", "kind": "A"},
                "versions": [{"name": "v1", "served": True, "storage": True}],
            },
        },
    ),
    "crd misnamed": _post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "x.b.example.com"},
            "spec": {
                "group": "b.example.com",
                "scope": "Namespaced",
                "names": {"plural": "as", "kind": "A"},
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
                ],
            },
        },
    ),
}
