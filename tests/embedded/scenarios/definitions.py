"""Definitions: versions, defaults, pruning, rules, faults that may stay, and names that are taken."""

import time
from typing import Any

from tests.embedded.scenarios.telling import Seen, scenario
from tests.embedded.servers import APPLY, MERGE, Answer, Api

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NOTICED_SECONDS = 1.5
Json = dict[str, Any]


def _schema(**spec: Any) -> Json:
    properties = {
        "size": {"type": "integer", "minimum": 1, "default": 2},
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "inner": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        **spec,
    }
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}}


def _definition(group: str, plural: str = "things", kind: str = "Thing", **spec: Any) -> Json:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Tags", "type": "string", "jsonPath": ".spec.tags[*]", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    one = {"name": "v1", "served": True, "storage": True, "schema": _schema(), "additionalPrinterColumns": columns}
    two = {"name": "v2", "served": True, "storage": False, "schema": _schema(other={"type": "string", "default": "o"})}
    body = {
        "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind, "shortNames": [f"{kind.lower()}s"]},
        "versions": [one, two], **spec,
    }  # fmt: skip
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": body}


def _served(api: Api, path: str, wanted: int = 200) -> int:
    for _ in range(100):
        status = api.call("GET", path).status
        if status == wanted:
            break
        time.sleep(0.05)
    return status


def _thing(group: str, named: str, version: str = "v1", **spec: Any) -> Json:
    return {"apiVersion": f"{group}/{version}", "kind": "Thing", "metadata": {"name": named}, "spec": spec}


@scenario
def versions_of_one_definition(api: Api, space: str) -> Seen:
    group = f"{space}.example.com"
    first, second = (f"/apis/{group}/{version}/namespaces/{space}/things" for version in ("v1", "v2"))
    made = api.call("POST", DEFINITIONS, _definition(group))
    told = api.call("GET", f"{DEFINITIONS}/things.{group}").value if (_served(api, first), _served(api, second)) == (200, 200) else {}
    seen: list[Any] = [made.status, told.get("spec"), told.get("status")]
    seen += [
        api.call("POST", first, _thing(group, "a", unknown=1, inner={}, any={"x": [1]})),
        api.call("GET", f"{second}/a"),
        api.call("POST", second, _thing(group, "b", "v2", size=3, other="p")),
        api.call("GET", f"{first}/b"),
        api.call("PATCH", f"{second}/a", {"spec": {"other": "q", "size": 5}}, MERGE),
        api.call("PATCH", f"{first}/c", _thing(group, "c", tags=["x", "y"]), APPLY, fieldManager="m"),
        api.call("PATCH", f"{second}/c", _thing(group, "c", "v2", tags=["z"]), APPLY, fieldManager="n"),
        api.call("GET", first),
        api.call("GET", f"/apis/{group}"),
        api.call("GET", f"/apis/{group}/v2"),
        api.call("GET", first, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}).value.get("rows", [{}])[0].get("cells"),
        api.call("POST", first, _thing(group, "d", size=0, tags=["x", "x"], name=7)),
        api.call("POST", first, _thing(group, "e", "v2")),
        api.call("POST", first, _thing(group, "f", unknown=1), fieldValidation="Strict"),
        api.call("DELETE", f"{DEFINITIONS}/things.{group}").status,
        _served(api, first, 404),
    ]
    return [_unowned(answer) for answer in seen]


def _unowned(answer: Any) -> Any:
    """Owners are left out here: the real server forgets all of them when they speak of two versions."""
    if not isinstance(answer, Answer) or not isinstance(answer.value, dict):
        return answer
    for one in [answer.value, *(answer.value.get("items") or ())]:
        one.get("metadata", {}).pop("managedFields", None)
    return answer


@scenario
def rules_of_a_definition(api: Api, space: str) -> Seen:
    """CEL: conditions, transitions, messages made by the rule itself."""
    group = f"{space}.example.com"
    rules = [
        {"rule": "self.size <= 5", "message": "too large"},
        {"rule": "!has(self.name) || self.name.startsWith('n-')", "messageExpression": "'not ' + self.name"},
        {"rule": "self.size >= oldSelf.size", "reason": "FieldValueForbidden", "fieldPath": ".size"},
    ]
    definition = _definition(group)
    for version in definition["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] = rules
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["name"]["maxLength"] = 20
    path = f"/apis/{group}/v1/namespaces/{space}/things"
    seen: list[Any] = [api.call("POST", DEFINITIONS, definition).status, _served(api, path)]
    seen += [
        api.call("POST", path, _thing(group, "a", size=3)),
        api.call("POST", path, _thing(group, "b", size=6)),
        api.call("POST", path, _thing(group, "c", name="x")),
        api.call("POST", path, _thing(group, "d", name="n-x", size=9)),
        api.call("PATCH", f"{path}/a", {"spec": {"size": 2}}, MERGE),
        api.call("PATCH", f"{path}/a", {"spec": {"size": 4}}, MERGE),
    ]
    api.call("DELETE", f"{DEFINITIONS}/things.{group}")
    return seen


@scenario
def faults_that_were_there_before(api: Api, space: str) -> Seen:
    """Ratcheting: a stricter schema refuses what changes, not what was there."""
    group = f"{space}.example.com"
    definition, path = _definition(group), f"/apis/{group}/v1/namespaces/{space}/things"
    seen: list[Any] = [api.call("POST", DEFINITIONS, definition).status, _served(api, path)]
    api.call("POST", path, _thing(group, "a", name="long name", tags=["b"], size=7))
    live = api.call("GET", f"{DEFINITIONS}/things.{group}").value
    for version in live["spec"]["versions"]:
        fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        fields["name"]["maxLength"] = 3
        fields["size"]["maximum"] = 5
        fields["tags"]["maxItems"] = 1
    seen.append(api.call("PUT", f"{DEFINITIONS}/things.{group}", live).status)
    time.sleep(NOTICED_SECONDS)
    seen += [
        api.call("PATCH", f"{path}/a", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        api.call("PATCH", f"{path}/a", {"spec": {"tags": ["c"]}}, MERGE),
        api.call("PATCH", f"{path}/a", {"spec": {"name": "other"}}, MERGE),
        api.call("PATCH", f"{path}/a", {"spec": {"size": 8}}, MERGE),
        api.call("PATCH", f"{path}/a", {"spec": {"tags": ["c", "d"]}}, MERGE),
        api.call("PATCH", f"{path}/a", {"spec": {"name": "n", "size": 1}}, MERGE),
        api.call("POST", path, _thing(group, "b", name="long name")),
    ]
    api.call("DELETE", f"{DEFINITIONS}/things.{group}")
    return seen


@scenario
def names_that_are_taken(api: Api, space: str) -> Seen:
    group = f"{space}.example.com"
    path = f"/apis/{group}/v1/namespaces/{space}/things"
    seen: list[Any] = [api.call("POST", DEFINITIONS, _definition(group)).status, _served(api, path)]
    seen.append(api.call("POST", DEFINITIONS, _definition(group, "others", "Thing")).status)
    time.sleep(NOTICED_SECONDS)
    seen.append(api.call("GET", f"{DEFINITIONS}/others.{group}").value["status"])
    seen.append(api.call("GET", f"/apis/{group}/v1/namespaces/{space}/others").status)
    api.call("DELETE", f"{DEFINITIONS}/things.{group}")
    api.call("DELETE", f"{DEFINITIONS}/others.{group}")
    return seen
