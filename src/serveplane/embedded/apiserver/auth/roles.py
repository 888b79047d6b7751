"""The roles every cluster has. `admin`, `edit` and `view` are aggregated, so that installed software can add to them."""

from collections.abc import Iterator

from serveplane.objects import Json

READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]
BOOTSTRAP = {"kubernetes.io/bootstrapping": "rbac-defaults"}
KEPT = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
PUBLIC = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
DISCOVERY = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
]

_VIEWED = {
    "": [
        "bindings",
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "namespaces",
        "namespaces/status",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "pods/log",
        "pods/status",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "replicationcontrollers/status",
        "resourcequotas",
        "resourcequotas/status",
        "serviceaccounts",
        "services",
        "services/status",
    ],
    "apps": [
        "controllerrevisions",
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ],
    "autoscaling": ["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
    "batch": ["cronjobs", "cronjobs/status", "jobs", "jobs/status"],
    "discovery.k8s.io": ["endpointslices"],
    "networking.k8s.io": ["ingresses", "ingresses/status", "networkpolicies"],
    "policy": ["poddisruptionbudgets", "poddisruptionbudgets/status"],
}
_EDITED = {
    "": [
        "configmaps",
        "events",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "secrets",
        "serviceaccounts",
        "services",
        "services/proxy",
        "pods",
        "pods/attach",
        "pods/exec",
        "pods/portforward",
        "pods/proxy",
    ],
    "apps": [
        "daemonsets",
        "deployments",
        "deployments/rollback",
        "deployments/scale",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ],
    "autoscaling": ["horizontalpodautoscalers"],
    "batch": ["cronjobs", "jobs"],
    "networking.k8s.io": ["ingresses", "networkpolicies"],
    "policy": ["poddisruptionbudgets"],
}


def rule(verbs: list[str], group: str, resources: list[str]) -> Json:
    return {"verbs": verbs, "apiGroups": [group], "resources": resources}


def _paths(paths: list[str]) -> Json:
    return {"verbs": ["get"], "nonResourceURLs": paths}


def _role(name: str, rules: list[Json], labels: dict[str, str] | None = None, aggregate: str = "") -> Json:
    value: Json = {
        "metadata": {"name": name, "labels": {**BOOTSTRAP, **(labels or {})}, "annotations": dict(KEPT)},
        "rules": rules,
    }
    if aggregate:
        value["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {AGGREGATE + aggregate: "true"}}]}
    return value


def cluster_roles() -> Iterator[Json]:
    view = [rule(READ, group, resources) for group, resources in _VIEWED.items()]
    edit = [rule(WRITE, group, resources) for group, resources in _EDITED.items()]
    edit += [
        rule(READ, "", ["secrets", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy"]),
        rule(["impersonate"], "", ["serviceaccounts"]),
        rule(["create"], "", ["pods/eviction", "serviceaccounts/token"]),
        rule([*READ, *WRITE], "coordination.k8s.io", ["leases"]),
    ]
    admin = [
        rule(["create"], "authorization.k8s.io", ["localsubjectaccessreviews"]),
        rule([*READ, *WRITE], "rbac.authorization.k8s.io", ["rolebindings", "roles"]),
    ]
    yield _role("cluster-admin", [rule(["*"], "*", ["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}])
    yield _role("system:aggregate-to-view", view, {AGGREGATE + "view": "true"})
    yield _role("system:aggregate-to-edit", edit, {AGGREGATE + "edit": "true"})
    yield _role("system:aggregate-to-admin", admin, {AGGREGATE + "admin": "true"})
    yield _role("view", view, {AGGREGATE + "edit": "true"}, aggregate="view")
    yield _role("edit", [*edit, *view], {AGGREGATE + "admin": "true"}, aggregate="edit")
    yield _role("admin", [*admin, *edit, *view], aggregate="admin")
    yield _role("system:public-info-viewer", [_paths(PUBLIC)])
    yield _role("system:discovery", [_paths(DISCOVERY)])
    yield _role(
        "system:basic-user",
        [
            rule(["create"], "authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
            rule(["create"], "authentication.k8s.io", ["selfsubjectreviews"]),
        ],
    )
    yield _role(
        "system:service-account-issuer-discovery", [_paths(["/.well-known/openid-configuration", "/openid/v1/jwks"])]
    )
    yield _role(
        "system:auth-delegator",
        [
            rule(["create"], "authentication.k8s.io", ["tokenreviews"]),
            rule(["create"], "authorization.k8s.io", ["subjectaccessreviews"]),
        ],
    )
    yield _role("system:node", _node_rules())
    yield _role("system:kube-scheduler", _scheduler_rules())
    yield _role(
        "system:monitoring",
        [_paths(["/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/readyz", "/readyz/*"])],
    )


def _node_rules() -> list[Json]:
    return [
        rule([*READ, *WRITE], "", ["nodes", "nodes/status", "pods", "pods/status", "events"]),
        rule(["create"], "", ["pods/eviction", "serviceaccounts/token"]),
        rule(
            READ,
            "",
            ["services", "configmaps", "secrets", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts"],
        ),
        rule([*READ, *WRITE], "coordination.k8s.io", ["leases"]),
        rule(["create", "patch", "update"], "events.k8s.io", ["events"]),
        rule(["create"], "authentication.k8s.io", ["tokenreviews"]),
        rule(["create"], "authorization.k8s.io", ["localsubjectaccessreviews", "subjectaccessreviews"]),
        rule(READ, "storage.k8s.io", ["csidrivers", "volumeattachments"]),
        rule([*READ, *WRITE], "storage.k8s.io", ["csinodes"]),
        rule(READ, "node.k8s.io", ["runtimeclasses"]),
    ]


def _scheduler_rules() -> list[Json]:
    return [
        rule(
            READ,
            "",
            [
                "namespaces",
                "nodes",
                "persistentvolumeclaims",
                "persistentvolumes",
                "pods",
                "replicationcontrollers",
                "services",
            ],
        ),
        rule(["create"], "", ["bindings", "pods/binding"]),
        rule(["patch", "update"], "", ["pods/status"]),
        rule(["delete"], "", ["pods"]),
        rule(["create", "patch", "update"], "", ["events"]),
        rule(["create", "patch", "update"], "events.k8s.io", ["events"]),
        rule([*READ, "create", "update", "patch"], "coordination.k8s.io", ["leases"]),
        rule(READ, "apps", ["replicasets", "statefulsets"]),
        rule(READ, "policy", ["poddisruptionbudgets"]),
        rule(
            READ,
            "storage.k8s.io",
            ["csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"],
        ),
    ]


def bindings() -> Iterator[Json]:
    everybody = ("system:authenticated", "system:unauthenticated")
    for role, groups in (
        ("cluster-admin", ("system:masters",)),
        ("system:discovery", ("system:authenticated",)),
        ("system:basic-user", ("system:authenticated",)),
        ("system:public-info-viewer", everybody),
        ("system:service-account-issuer-discovery", ("system:serviceaccounts",)),
        ("system:node", ("system:nodes",)),
        ("system:monitoring", ("system:monitoring",)),
    ):
        yield _binding(role, [{"kind": "Group", "name": group} for group in groups])
    yield _binding("system:kube-scheduler", [{"kind": "User", "name": "system:kube-scheduler"}])


def _binding(role: str, subjects: list[Json]) -> Json:
    return {
        "metadata": {"name": role, "labels": dict(BOOTSTRAP), "annotations": dict(KEPT)},
        "subjects": subjects,
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"},
    }
