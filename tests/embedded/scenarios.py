"""Stories told to a server, each giving a list of what was seen. Two servers that behave alike give equal lists."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.embedded.samples import SELECTOR, TEMPLATE
from tests.embedded.servers import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api

Seen = list[Any]
Scenario = Callable[[Api, str], Seen]
SCENARIOS: dict[str, Scenario] = {}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


def _maps(space: str) -> str:
    return f"/api/v1/namespaces/{space}/configmaps"


def _map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {"a": "1"}}


def _widget(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "suite.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }


def _names(value: Any) -> list[str]:
    return [item["metadata"]["name"] for item in value["items"]]


class Watcher:
    """Collects events in the background until told to stop."""

    def __init__(self, api: Api, path: str, **query: str) -> None:
        self.events: list[Any] = []
        self._stream: Iterator[Any] = api.watch(path, seconds=20, **query)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for event in self._stream:
            self.events.append(event)
            if event["type"] == "ERROR" or event["object"].get("metadata", {}).get("name") == "the-end":
                return

    def until_end(self) -> list[Any]:
        """Everything up to the object named the-end."""
        self._thread.join(20)
        return [
            [
                event["type"],
                event["object"].get("metadata", {}).get("name"),
                (event["object"].get("data") or event["object"].get("spec")),
            ]
            for event in self.events
        ]


@scenario
def pages(api: Api, space: str) -> Seen:
    path = _maps(space)
    for number in range(7):
        api.call("POST", path, _map(f"m{number}", labels={"odd": str(number % 2)}))
    first = api.call("GET", path, limit="3").value
    api.call("DELETE", f"{path}/m5")
    api.call("POST", path, _map("m55"))
    second = api.call("GET", path, limit="3", **{"continue": first["metadata"]["continue"]}).value
    rest = api.call("GET", path, limit="3", **{"continue": second["metadata"]["continue"]}).value
    now = api.call("GET", path).value
    exact = api.call(
        "GET", path, resourceVersion=first["metadata"]["resourceVersion"], resourceVersionMatch="Exact"
    ).value
    return [
        _names(first),
        first["metadata"].get("remainingItemCount"),
        _names(second),
        second["metadata"].get("remainingItemCount"),
        _names(rest),
        rest["metadata"].get("remainingItemCount"),
        _names(now),
        _names(exact),
        first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"],
        [
            _names(api.call("GET", path, labelSelector=text).value)
            for text in ("odd=1", "odd!=1", "odd in (0,1)", "!odd", "odd,odd notin (0)")
        ],
        [
            _names(api.call("GET", path, fieldSelector=text).value)
            for text in ("metadata.name=m1", "metadata.name!=m1", f"metadata.namespace={space}")
        ],
    ]


@scenario
def watch_of_changes(api: Api, space: str) -> Seen:
    path = _maps(space)
    version = api.call("GET", path).value["metadata"]["resourceVersion"]
    api.call("POST", path, _map("a", labels={"x": "1"}))
    plain = Watcher(api, path, resourceVersion=version)
    chosen = Watcher(api, path, resourceVersion=version, labelSelector="x=1")
    named = Watcher(api, path, resourceVersion=version, fieldSelector="metadata.name=a")
    api.call("PATCH", f"{path}/a", {"data": {"b": "2"}}, MERGE)
    api.call("PATCH", f"{path}/a", {"metadata": {"labels": {"x": "2"}}}, MERGE)
    api.call("PATCH", f"{path}/a", {"metadata": {"labels": {"x": "2"}}}, MERGE)
    api.call("PATCH", f"{path}/a", {"metadata": {"labels": {"x": "1"}}}, MERGE)
    api.call("DELETE", f"{path}/a")
    api.call("POST", path, _map("the-end", labels={"x": "1"}))
    seen = [plain.until_end(), chosen.until_end()]
    for _ in range(100):
        if any(event["type"] == "DELETED" for event in named.events):
            break
        time.sleep(0.05)
    return [*seen, [event["type"] for event in named.events]]


@scenario
def watch_from_the_start(api: Api, space: str) -> Seen:
    path = _maps(space)
    for name in ("a", "b"):
        api.call("POST", path, _map(name))
    watcher = Watcher(
        api, path, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    time.sleep(0.5)
    api.call("POST", path, _map("the-end"))
    watcher.until_end()
    told = [
        [
            event["type"],
            event["object"]["metadata"].get("name"),
            (event["object"]["metadata"].get("annotations") or {}).get("k8s.io/initial-events-end"),
        ]
        for event in watcher.events
    ]
    refused = list(api.watch(path, seconds=2, sendInitialEvents="true"))
    return [told, refused]


@scenario
def names_made_up(api: Api, space: str) -> Seen:
    made = api.call("POST", _maps(space), {"metadata": {"generateName": "made-"}})
    name = made.value["metadata"]["name"]
    return [made.status, name.startswith("made-"), len(name), made.value["metadata"]["generateName"]]


@scenario
def finalizers_hold(api: Api, space: str) -> Seen:
    path = _maps(space)
    api.call("POST", path, _map("held", finalizers=["example.com/hold"]))
    first = api.call("DELETE", f"{path}/held")
    again = api.call("DELETE", f"{path}/held")
    more = api.call(
        "PATCH", f"{path}/held", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}, MERGE
    )
    edited = api.call("PATCH", f"{path}/held", {"data": {"z": "1"}}, MERGE)
    free = api.call("PATCH", f"{path}/held", [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)
    return [first, again, more, edited, free, api.call("GET", f"{path}/held")]


@scenario
def versions_guard(api: Api, space: str) -> Seen:
    path = _maps(space)
    made = api.call("POST", path, _map("v")).value
    fresh = api.call("PUT", f"{path}/v", {**made, "data": {"a": "2"}})
    stale = api.call("PUT", f"{path}/v", {**made, "data": {"a": "3"}})
    unguarded = api.call("PUT", f"{path}/v", _map("v", {"a": "4"}))
    same = api.call("PUT", f"{path}/v", unguarded.value)
    other = api.call("PATCH", f"{path}/v", {"metadata": {"resourceVersion": "1"}, "data": {"a": "5"}}, MERGE)
    foreign = api.call("PUT", f"{path}/v", _map("v", uid="22222222-2222-2222-2222-222222222222"))
    gone = api.call("DELETE", f"{path}/v", {"preconditions": {"resourceVersion": "1"}})
    return [
        fresh,
        stale,
        unguarded,
        same.value["metadata"]["resourceVersion"] == unguarded.value["metadata"]["resourceVersion"],
        other,
        foreign,
        gone,
    ]


@scenario
def status_apart(api: Api, space: str) -> Seen:
    path = f"/apis/suite.example.com/v1/namespaces/{space}/widgets"
    seen = [api.call("POST", path, {**_widget("w"), "status": {"phase": "ignored"}})]
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
    api.call("POST", widgets, _widget("s"))
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
def appliers(api: Api, space: str) -> Seen:
    """Two appliers and an updater over one object: shared, taken, given up, removed."""
    path = f"{_maps(space)}/shared"
    one = {"a": "1", "b": "1"}
    return [
        api.call("PATCH", path, _map("shared", one), APPLY, fieldManager="one"),
        api.call("PATCH", path, _map("shared", {"b": "1", "c": "1"}), APPLY, fieldManager="two"),
        api.call("PATCH", path, _map("shared", {"b": "2"}), APPLY, fieldManager="two"),
        api.call("PATCH", path, _map("shared", {"b": "2"}), APPLY, fieldManager="two", force="true"),
        api.call("PATCH", path, _map("shared", {"a": "1"}), APPLY, fieldManager="one"),
        api.call("PATCH", path, {"data": {"a": "9", "z": "1"}}, MERGE),
        api.call("PATCH", path, _map("shared", {"a": "1"}), APPLY, fieldManager="one"),
        api.call("PATCH", path, _map("shared", {"a": "9"}), APPLY, fieldManager="one"),
        api.call(
            "PATCH",
            path,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}},
            APPLY,
            fieldManager="two",
        ),
        api.call(
            "PATCH",
            path,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared", "managedFields": [{}]}},
            APPLY,
            fieldManager="two",
        ),
        api.call("PATCH", path, {"metadata": {"managedFields": []}}, MERGE),
        api.call("PATCH", path, _map("shared", {"q": "1"}), APPLY, fieldManager="three"),
    ]


@scenario
def appliers_of_a_deployment(api: Api, space: str) -> Seen:
    path = f"/apis/apps/v1/namespaces/{space}/deployments/d"

    def config(**container: Any) -> dict[str, Any]:
        pod = {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "x:1", **container}]},
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"selector": SELECTOR, "template": pod},
        }

    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    ports = [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}]
    two = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "side", "image": "y"}]}}},
    }
    return [
        api.call("PATCH", path, config(env=env, ports=ports, args=["a"]), APPLY, fieldManager="one"),
        api.call("PATCH", path, config(env=env[1:], ports=ports[:1]), APPLY, fieldManager="one"),
        api.call("PATCH", path, two, APPLY, fieldManager="two"),
        api.call("PATCH", path, config(env=[*reversed(env)]), APPLY, fieldManager="one"),
        api.call("PATCH", path, {**two, "spec": {"replicas": 3}}, APPLY, fieldManager="two"),
        api.call("PATCH", path, config(image="x:2"), APPLY, fieldManager="three"),
        api.call(
            "PATCH",
            path,
            config(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
            APPLY,
            fieldManager="four",
            force="true",
        ).status,
    ]


@scenario
def tables(api: Api, space: str) -> Seen:
    path = f"/apis/suite.example.com/v1/namespaces/{space}/widgets"
    api.call("POST", path, _widget("t"))
    api.call("POST", _maps(space), _map("t"))
    seen = []
    for place in (path, f"{path}/t", f"{_maps(space)}/t"):
        value = api.call("GET", place, headers=TABLE).value
        columns = [[column["name"], column["type"], column["priority"]] for column in value["columnDefinitions"]]
        seen.append(
            [
                value["kind"],
                value["apiVersion"],
                columns,
                [row["cells"][:2] for row in value["rows"]],
                value["rows"][0]["object"]["kind"],
            ]
        )
    partial = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
    seen.append(api.call("GET", f"{path}/t", headers=partial))
    return seen


@scenario
def rights(api: Api, space: str) -> Seen:
    """A ServiceAccount with a token: nothing, then what its role gives, and no more than that to pass on."""
    account = f"/api/v1/namespaces/{space}/serviceaccounts"
    api.call("POST", account, {"metadata": {"name": "worker"}})
    token = api.call("POST", f"{account}/worker/token", {"spec": {"expirationSeconds": 600}})
    worker = Api(api.name, api.url, token.value["status"]["token"], api.ca)
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space}"
    seen = [
        token.status,
        worker.call("GET", _maps(space)),
        worker.call("GET", "/api/v1/nodes/n"),
        worker.call("POST", f"{rbac}/roles", {"metadata": {"name": "x"}}),
    ]
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]},
    ]
    api.call("POST", f"{rbac}/roles", {"metadata": {"name": "r"}, "rules": rules})
    api.call(
        "POST",
        f"{rbac}/rolebindings",
        {
            "metadata": {"name": "b"},
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "worker", "namespace": space}],
        },
    )
    for _ in range(50):
        if worker.call("GET", _maps(space)).status == 200:
            break
        time.sleep(0.1)
    seen += [
        worker.call("GET", _maps(space)).status,
        worker.call("GET", f"{_maps(space)}/ghost"),
        worker.call("DELETE", f"{_maps(space)}/ghost"),
    ]
    seen.append(worker.call("POST", f"{rbac}/roles", {"metadata": {"name": "y"}, "rules": rules[:1]}).status)
    more = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
    seen.append(worker.call("POST", f"{rbac}/roles", {"metadata": {"name": "z"}, "rules": more}).status)
    review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "configmaps", "namespace": space}}}
    for verb in ("list", "delete"):
        review["spec"]["resourceAttributes"]["verb"] = verb
        seen.append(
            worker.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).value["status"][
                "allowed"
            ]
        )
    who = api.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": worker.token}}).value[
        "status"
    ]
    seen += [who["authenticated"], who["user"]["username"], sorted(who["user"]["groups"])]
    api.call("DELETE", f"{account}/worker")
    nobody = Api(api.name, api.url, "", api.ca)
    seen += [
        nobody.call("GET", _maps(space)),
        nobody.call("GET", "/version").status,
        nobody.call("GET", "/healthz").value,
        Api(api.name, api.url, "wrong", api.ca).call("GET", _maps(space)),
    ]
    return seen


@scenario
def warnings(api: Api, space: str) -> Seen:
    answer = api.call("POST", _maps(space), {**_map("w"), "unknown": 1, "metadata": {"name": "w", "odd": 2}})
    return [answer, answer.headers.get("warning", "").count("unknown field")]


@scenario
def dry_runs(api: Api, space: str) -> Seen:
    path = _maps(space)
    api.call("POST", path, _map("there"))
    return [
        api.call("POST", path, _map("dry"), dryRun="All"),
        api.call("GET", f"{path}/dry").status,
        api.call("PATCH", f"{path}/new", _map("new"), APPLY, fieldManager="m", dryRun="All"),
        api.call("GET", f"{path}/new").status,
        api.call("DELETE", f"{path}/there", dryRun="All"),
        api.call("GET", f"{path}/there").status,
    ]


@scenario
def events_in_two_groups(api: Api, space: str) -> Seen:
    old, new = f"/api/v1/namespaces/{space}/events", f"/apis/events.k8s.io/v1/namespaces/{space}/events"
    about = {"kind": "Pod", "name": "p", "namespace": space}
    api.call(
        "POST",
        old,
        {
            "metadata": {"name": "e"},
            "involvedObject": about,
            "reason": "R",
            "message": "M",
            "type": "Normal",
            "source": {"component": "c"},
            "count": 2,
        },
    )
    fresh = {
        "metadata": {"name": "n"},
        "regarding": about,
        "reason": "R",
        "note": "N",
        "type": "Warning",
        "action": "A",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
    }
    made = api.call("POST", new, fresh)
    return [
        made,
        api.call("GET", f"{new}/e"),
        api.call("GET", f"{old}/n"),
        [
            _names(api.call("GET", old, fieldSelector=text).value)
            for text in ("involvedObject.name=p", "type=Warning", "reason=R,type=Normal")
        ],
    ]


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
    seen.append(_names(api.call("GET", path, fieldSelector="spec.nodeName=node-1,status.phase=Running").value))
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
