"""Limits and quotas."""

from hypothesis import strategies as st

from tests.embedded.generated.values import one, rarely, some

limit_amounts = some(cpu=one("100m", "1", "2"), memory=one("1Gi", "128Mi"))
limits_spec = some(
    {
        "limits": st.lists(
            rarely(
                some(
                    {"type": rarely(one("Container", "Pod", "PersistentVolumeClaim"), one("", "X", "example.com/y"))},
                    max=rarely(limit_amounts, one({"storage": "5Gi"}, {"nonsense": "1"})),
                    min=rarely(limit_amounts, one({"storage": "1Gi"}, {"example.com/gpu": "1"})),
                    default=limit_amounts,
                    defaultRequest=limit_amounts,
                    maxLimitRequestRatio=one({"cpu": "2"}, {"cpu": "500m"}, {"memory": "10"}),
                ),
                st.just({"type": "Container", "max": {"cpu": "1", "memory": "1Gi"}}),
            ),
            max_size=2,
        )
    }
)
hard_amounts = st.dictionaries(
    rarely(
        one("pods", "requests.cpu", "limits.memory", "services", "persistentvolumeclaims", "requests.storage", "count/widgets.example.com"),
        one("cpu", "nonsense", "requests.example.com/gpu", "services.nodeports", "hugepages-2Mi", "Bad Name!"),
    ),
    rarely(one("1", "10", "1Gi", "500m"), one("-1", "0.5", "1.0005")),
    max_size=3,
)
quota_spec = some(
    {"hard": hard_amounts},
    scopes=rarely(one([], ["BestEffort"], ["NotTerminating"]), one(["X"], ["BestEffort", "NotBestEffort"])),
    scopeSelector=one(
        {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]},
        {"matchExpressions": [{"scopeName": "BestEffort", "operator": "In", "values": ["x"]}]},
        {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]},
        {"matchExpressions": [{"scopeName": "X", "operator": "Exists", "values": ["x"]}]},
    ),
)
