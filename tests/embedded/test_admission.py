"""Admission webhooks: the same hooks, asked by both servers. What they are asked and what comes of it is compared."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.embedded.conftest import Both
from tests.embedded.hooks import SAYS, Hooks
from tests.embedded.servers import APPLY, JSON_PATCH, MERGE, Api
from tests.kit.waiting import soon

pytestmark = pytest.mark.testbed
GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"], "scope": "*"}
Json = dict[str, Any]
Story = Callable[["Stage"], list[Any]]


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooks]:
    found = Hooks(tmp_path_factory.mktemp("hooks"))
    try:
        yield found
    finally:
        found.close()


class Stage:
    """One server, one namespace, and webhooks that are known to be in force there."""

    def __init__(self, api: Api, space: str, hooks: Hooks) -> None:
        self.api = api
        self.space = space
        self.hooks = hooks
        self.maps = f"/api/v1/namespaces/{space}/configmaps"

    def install(self, kind: str, *webhooks: Json) -> None:
        """Each webhook is a name of `Hooks` and what differs from the usual; a canary tells when they are in force."""
        canary = {"hook": "canary", "objectSelector": {"matchLabels": {"canary": "yes"}}}
        value = {"metadata": {"name": self.space}, "webhooks": [self._webhook(one) for one in (*webhooks, canary)]}
        path = f"{GROUP}/{kind}webhookconfigurations"
        made = self.api.call("POST", path, value)
        assert made.status == 201, made
        soon(self._in_force, 60)

    def remove(self, kind: str) -> None:
        self.api.call("DELETE", f"{GROUP}/{kind}webhookconfigurations/{self.space}")
        soon(lambda: not self._in_force(), 60)

    def _webhook(self, wish: Json) -> Json:
        hook, more = wish["hook"], {key: value for key, value in wish.items() if key != "hook"}
        mine = {"matchLabels": {"kubernetes.io/metadata.name": self.space}}
        return {
            "name": f"{hook}.example.com",
            "clientConfig": self.hooks.client(self.api.name, hook),
            "rules": [MAPS_RULE],
            "namespaceSelector": mine,
            "objectSelector": {"matchExpressions": [{"key": "canary", "operator": "DoesNotExist"}]},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }

    def _in_force(self) -> bool:
        probe = {"metadata": {"name": "canary", "labels": {"canary": "yes"}}}
        return "tweet" in str(self.api.call("POST", self.maps, probe, dryRun="All").value.get("message"))

    def map(self, name: str, says: Json | None = None, **metadata: Any) -> Any:
        annotations = {"annotations": {SAYS: json.dumps(says)}} if says else {}
        value = {"metadata": {"name": name, **annotations, **metadata}, "data": {"a": "1"}}
        return self.api.call("POST", self.maps, value)

    def asked(self) -> list[Json]:
        """What the hooks were asked so far. Who asked is another user on each server."""
        found = self.hooks.asked.pop(self.api.name, [])
        return [{**one, "uid": "", "userInfo": "groups" in one["userInfo"]} for one in found if not _is_canary(one)]


def _is_canary(request: Json) -> bool:
    return request.get("name") == "canary"


STORIES: dict[str, Story] = {}


def story(function: Story) -> Story:
    STORIES[function.__name__] = function
    return function


@story
def what_is_asked(stage: Stage) -> list[Any]:
    """The whole review, for every operation."""
    stage.install("validating", {"hook": "plain"})
    call, one = stage.api.call, f"{stage.maps}/one"
    stage.map("one", labels={"x": "y"})
    call("PUT", one, {**call("GET", one).value, "data": {"a": "2"}})
    call("PATCH", one, {"data": {"b": "3"}}, MERGE)
    call("PATCH", one, [{"op": "add", "path": "/data/c", "value": "4"}], JSON_PATCH)
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"d": "5"}}
    call("PATCH", one, applied, APPLY, fieldManager="me", force="true")
    call("PATCH", f"{stage.maps}/two", {**applied, "metadata": {"name": "two"}}, APPLY, fieldManager="me", dryRun="All")
    call("DELETE", one, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    call("POST", stage.maps, {"metadata": {"generateName": "made-"}}, dryRun="All")
    for name in ("p", "q"):
        stage.map(name)
    call("DELETE", stage.maps)
    return [_generated(request) for request in stage.asked()]


def _generated(request: Json) -> Json:
    """Made-up names are compared by how they begin."""
    text = json.dumps(request)
    name = request.get("name") or ((request.get("object") or {}).get("metadata") or {}).get("name", "")
    return json.loads(text.replace(name, "made-<letters>")) if name.startswith("made-") else request


@story
def refusals(stage: Stage) -> list[Any]:
    stage.install("validating", {"hook": "plain"})
    refusals = (
        {},
        {"status": {"message": "not today"}},
        {"status": {"message": "too many", "reason": "TooManyRequests", "code": 429}},
        {"status": {"code": 418}},
        {"status": {"reason": "Expired"}},
        {"status": {"message": "odd", "code": 200}},
    )
    seen: list[Any] = [stage.map("no", {"allowed": False, **refusal}) for refusal in refusals]
    warned = stage.map("warned", {"warnings": ["mind the gap", "and the step"], "auditAnnotations": {"a": "b"}})
    return [*seen, warned, warned.headers.get("warning"), stage.api.call("GET", f"{stage.maps}/no").status]


@story
def changes(stage: Stage) -> list[Any]:
    """Two hooks in turn; the first is asked again because the second changed the object."""
    stage.install("mutating", {"hook": "first", "reinvocationPolicy": "IfNeeded"}, {"hook": "second"})
    seen: list[Any] = [stage.map("both")]
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"d": "5"}}
    path = f"{stage.maps}/applied"
    seen += [stage.api.call("PATCH", path, applied, APPLY, fieldManager="me") for _ in range(2)]
    seen.append(stage.api.call("DELETE", f"{stage.maps}/both", propagationPolicy="Foreground", gracePeriodSeconds="3"))
    asked = stage.asked()
    stage.remove("mutating")
    stage.install("mutating", {"hook": "plain"})
    seen.append(stage.api.call("DELETE", f"{stage.maps}/both", propagationPolicy="Background"))
    return [*seen, [(one["hook"], one["operation"]) for one in asked], asked[-1], stage.asked()]


@story
def patches_that_do_not_fit(stage: Stage) -> list[Any]:
    seen = []
    for hook in ("bad-patch", "wrong-type"):
        stage.install("mutating", {"hook": hook})
        answer = stage.map("unfit")
        seen.append([hook, answer.status, answer.value.get("reason")])
        stage.remove("mutating")
    return seen


@story
def trouble(stage: Stage) -> list[Any]:
    """A hook that fails, answers nonsense or nothing: refused or let pass, as its policy says."""
    seen: list[Any] = []
    for policy in ("Fail", "Ignore"):
        for hook in ("broken", "garbled", "other-uid", "silent"):
            stage.install("validating", {"hook": hook, "failurePolicy": policy, "timeoutSeconds": 1})
            answer = stage.map(f"{hook}-{policy.lower()}")
            seen.append([hook, policy, answer.status, answer.value.get("reason")])
            stage.remove("validating")
    return seen


@story
def choices(stage: Stage) -> list[Any]:
    """Rules, selectors and match conditions."""
    only_creates = [{**MAPS_RULE, "operations": ["CREATE"]}]
    stage.install(
        "validating",
        {"hook": "creates", "rules": only_creates},
        {"hook": "labelled", "objectSelector": {"matchLabels": {"x": "y"}}},
        {"hook": "elsewhere", "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}},
        {"hook": "not-in", "objectSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}},
        {"hook": "cluster", "rules": [{**MAPS_RULE, "scope": "Cluster"}]},
        {"hook": "all", "rules": [{**MAPS_RULE, "resources": ["*"]}]},
        {"hook": "below", "rules": [{**MAPS_RULE, "resources": ["*/*"]}]},
        {"hook": "scales", "rules": [{**MAPS_RULE, "apiGroups": ["apps"], "resources": ["deployments/scale"]}]},
    )
    call = stage.api.call
    stage.map("plain")
    stage.map("labelled", labels={"x": "y"})
    call("PATCH", f"{stage.maps}/labelled", {"metadata": {"labels": {"x": None}}}, MERGE)
    call("DELETE", f"{stage.maps}/labelled")
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    deployments = f"/apis/apps/v1/namespaces/{stage.space}/deployments"
    call("POST", deployments, {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod}})
    call("PATCH", f"{deployments}/d/scale", {"spec": {"replicas": 3}}, MERGE)
    call("PATCH", f"{deployments}/d/status", {"status": {"replicas": 1}}, MERGE)
    found = [[one["hook"], one["operation"], one.get("name"), one["resource"]["resource"], one.get("subResource")] for one in stage.asked()]
    return sorted(found, key=json.dumps)


@story
def custom_resources(stage: Stage) -> list[Any]:
    rule = {"apiGroups": ["suite.example.com"], "apiVersions": ["*"], "operations": ["*"], "resources": ["widgets", "widgets/status"]}
    stage.install("validating", {"hook": "plain", "rules": [rule]})
    widgets, call = f"/apis/suite.example.com/v1/namespaces/{stage.space}/widgets", stage.api.call
    call("POST", widgets, {"apiVersion": "suite.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}})
    call("PATCH", f"{widgets}/w", {"spec": {"size": 2}}, MERGE)
    call("PATCH", f"{widgets}/w/status", {"status": {"size": 2}}, MERGE)
    call("DELETE", f"{widgets}/w")
    return list(stage.asked())


@pytest.mark.parametrize("name", STORIES)
def test_both_ask_and_obey_alike(both: Both, space: str, hooks: Hooks, name: str) -> None:
    def told(api: Api) -> list[Any]:
        hooks.asked.pop(api.name, None)
        stage = Stage(api, space, hooks)
        try:
            seen = STORIES[name](stage)
        finally:
            for kind in ("mutating", "validating"):
                api.call("DELETE", f"{GROUP}/{kind}webhookconfigurations/{space}")
        return [[one.status, one.value] if hasattr(one, "status") else one for one in seen]

    assert both.same(name, told)
    both.check()
