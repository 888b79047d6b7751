"""Status, scale, and the ways of pods onto nodes."""

from tests.embedded.samples import SELECTOR, TEMPLATE
from tests.embedded.scenarios.telling import Seen, names_of, scenario, widget
from tests.embedded.servers import APPLY, MERGE, STRATEGIC, Api


@scenario
def status_apart(api: Api, space: str) -> Seen:
    path = f"/apis/suite.example.com/v1/namespaces/{space}/widgets"
    seen = [api.call("POST", path, {**widget("w"), "status": {"phase": "ignored"}})]
    seen.append(api.call("PATCH", f"{path}/w/status", {"status": {"phase": "Up"}, "spec": {"size": 5}}, MERGE))
    seen.append(api.call("PATCH", f"{path}/w", {"status": {"phase": "no"}, "spec": {"size": 2}}, MERGE))
    seen.append(api.call("GET", f"{path}/w/status"))
    whole = api.call("GET", f"{path}/w").value
    seen.append(
        api.call(
            "PUT",
            f"{path}/w/status",
            {**whole, "status": {"size": 3}, "metadata": {**whole["metadata"], "labels": {"no": "no"}}},
        )
    )
    config = {
        "apiVersion": "suite.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "status": {"phase": "Applied"},
    }
    seen.append(api.call("PATCH", f"{path}/w/status", config, APPLY, fieldManager="m", force="true"))
    return seen



@scenario
def status_of_a_deployment(api: Api, space: str) -> Seen:
    path = f"/apis/apps/v1/namespaces/{space}/deployments"
    seen = [api.call("POST", path, {"metadata": {"name": "d"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}})]
    condition = {"type": "Available", "status": "True", "reason": "r", "message": "m"}
    seen.append(
        api.call("PATCH", f"{path}/d/status", {"status": {"replicas": 1, "conditions": [condition]}}, STRATEGIC)
    )
    seen.append(
        api.call(
            "PATCH",
            f"{path}/d/status",
            {"status": {"conditions": [{"type": "Progressing", "status": "True"}]}},
            STRATEGIC,
        )
    )
    seen.append(
        api.call(
            "PATCH",
            f"{path}/d",
            {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}},
            STRATEGIC,
        )
    )
    seen.append(
        api.call(
            "PATCH",
            f"{path}/d",
            {"spec": {"template": {"spec": {"containers": [{"name": "e", "image": "x"}]}}}},
            STRATEGIC,
        )
    )
    seen.append(
        api.call(
            "PATCH",
            f"{path}/d",
            {"spec": {"template": {"spec": {"containers": [{"name": "e", "$patch": "delete"}]}}}},
            STRATEGIC,
        )
    )
    seen.append(api.call("PATCH", f"{path}/d", {"spec": {"selector": {"matchLabels": {"app": "z"}}}}, MERGE))
    return seen



@scenario
def scales(api: Api, space: str) -> Seen:
    path, widgets = (
        f"/apis/apps/v1/namespaces/{space}/deployments",
        f"/apis/suite.example.com/v1/namespaces/{space}/widgets",
    )
    api.call("POST", path, {"metadata": {"name": "s"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}})
    api.call("POST", widgets, widget("s"))
    seen = [
        api.call("GET", f"{path}/s/scale"),
        api.call("PATCH", f"{path}/s/scale", {"spec": {"replicas": 3}}, MERGE),
        api.call("GET", f"{path}/s"),
    ]
    scale = api.call("GET", f"{path}/s/scale").value
    seen.append(api.call("PUT", f"{path}/s/scale", {**scale, "spec": {"replicas": 0}}))
    seen.append(api.call("PUT", f"{path}/s/scale", {**scale, "spec": {"replicas": -1}}))
    seen += [
        api.call("GET", f"{widgets}/s/scale"),
        api.call("PATCH", f"{widgets}/s/scale", {"spec": {"replicas": 4}}, MERGE),
        api.call("GET", f"{widgets}/s"),
    ]
    return seen



@scenario
def pods_on_nodes(api: Api, space: str) -> Seen:
    path = f"/api/v1/namespaces/{space}/pods"
    pod = {
        "metadata": {"name": "p", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "x"}], "terminationGracePeriodSeconds": 7},
    }
    api.call("POST", path, pod)
    bind = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "node-1"},
    }
    seen = [api.call("POST", f"{path}/p/binding", bind), api.call("POST", f"{path}/p/binding", bind)]
    seen.append(api.call("PATCH", f"{path}/p/status", {"status": {"phase": "Running", "podIP": "1.2.3.4"}}, STRATEGIC))
    seen.append(names_of(api.call("GET", path, fieldSelector="spec.nodeName=node-1,status.phase=Running").value))
    seen.append(api.call("PATCH", f"{path}/p", {"spec": {"containers": [{"name": "c", "image": "y"}]}}, STRATEGIC))
    seen.append(
        api.call("PATCH", f"{path}/p", {"spec": {"containers": [{"name": "c", "args": ["z"]}]}}, STRATEGIC).status
    )
    deleted = api.call("DELETE", f"{path}/p")
    seen += [
        deleted,
        api.call("DELETE", f"{path}/p", gracePeriodSeconds="3"),
        api.call("GET", f"{path}/p").status,
        api.call("DELETE", f"{path}/p", gracePeriodSeconds="0"),
        api.call("GET", f"{path}/p").status,
    ]
    return seen
