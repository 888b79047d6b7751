"""Who may do what."""

import time

from tests.embedded.scenarios.telling import Seen, config_maps, scenario
from tests.embedded.servers import MERGE, Api


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
        worker.call("GET", config_maps(space)),
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
        if worker.call("GET", config_maps(space)).status == 200:
            break
        time.sleep(0.1)
    seen += [
        worker.call("GET", config_maps(space)).status,
        worker.call("GET", f"{config_maps(space)}/ghost"),
        worker.call("DELETE", f"{config_maps(space)}/ghost"),
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
        nobody.call("GET", config_maps(space)),
        nobody.call("GET", "/version").status,
        nobody.call("GET", "/healthz").value,
        Api(api.name, api.url, "wrong", api.ca).call("GET", config_maps(space)),
    ]
    return seen


def _account(api: Api, space: str, name: str) -> Api:
    path = f"/api/v1/namespaces/{space}/serviceaccounts"
    api.call("POST", path, {"metadata": {"name": name}})
    token = api.call("POST", f"{path}/{name}/token", {"spec": {"expirationSeconds": 600}}).value["status"]["token"]
    return Api(api.name, api.url, token, api.ca)


def _grant(api: Api, space: str, account: str, name: str, *rules: object) -> None:
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{space}"
    api.call("POST", f"{rbac}/roles", {"metadata": {"name": name}, "rules": list(rules)})
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": space}]
    api.call("POST", f"{rbac}/rolebindings", {"metadata": {"name": name}, "roleRef": {"kind": "Role", "name": name}, "subjects": subjects})


def _rule(group: str, resources: list[str], *verbs: str, **more: list[str]) -> dict[str, object]:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs), **more}


RBAC_GROUP = "rbac.authorization.k8s.io"


@scenario
def nobody_gives_what_they_have_not(api: Api, space: str) -> Seen:
    """The rule against escalation, and the two verbs that lift it."""
    rbac = f"/apis/{RBAC_GROUP}/v1/namespaces/{space}"
    writer = _account(api, space, "writer")
    own = _rule("", ["configmaps"], "get", "list")
    _grant(api, space, "writer", "w", own, _rule(RBAC_GROUP, ["roles", "rolebindings"], "get", "create", "update", "patch", "delete"))
    api.call("POST", f"{rbac}/roles", {"metadata": {"name": "secret"}, "rules": [_rule("", ["secrets"], "get")]})
    for _ in range(50):
        if writer.call("GET", f"{rbac}/roles/secret").status == 200:
            break
        time.sleep(0.1)
    role = {"metadata": {"name": "mine"}, "rules": [own]}
    binding = {"metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "secret"}, "subjects": [{"kind": "User", "name": "u"}]}
    seen = [
        writer.call("POST", f"{rbac}/roles", role),
        writer.call("POST", f"{rbac}/roles", {**role, "metadata": {"name": "x"}, "rules": [_rule("", ["secrets", "pods"], "get", "list")]}),
        writer.call("POST", f"{rbac}/roles", {**role, "metadata": {"name": "y"}, "rules": [_rule("*", ["*"], "*")]}),
        writer.call("PATCH", f"{rbac}/roles/mine", {"rules": [own, _rule("apps", ["deployments"], "get", resourceNames=["d"])]}, MERGE),
        writer.call("POST", f"{rbac}/rolebindings", binding),
        writer.call("POST", f"{rbac}/rolebindings", {**binding, "roleRef": {"kind": "Role", "name": "mine"}}).status,
        writer.call("POST", f"{rbac}/rolebindings", {**binding, "metadata": {"name": "c"}, "roleRef": {"kind": "Role", "name": "ghost"}}),
    ]
    _grant(api, space, "writer", "e", _rule(RBAC_GROUP, ["roles"], "escalate", "bind"))
    more = {"metadata": {"name": "z"}, "rules": [_rule("", ["pods"], "get")]}
    for _ in range(50):
        if writer.call("POST", f"{rbac}/roles", more).status in (201, 409):
            break
        time.sleep(0.1)
    seen += [
        writer.call("POST", f"{rbac}/roles", {**role, "metadata": {"name": "y"}, "rules": [_rule("*", ["*"], "*")]}).status,
        writer.call("POST", f"{rbac}/rolebindings", {**binding, "metadata": {"name": "d"}}).status,
    ]
    return seen


@scenario
def reviews(api: Api, space: str) -> Seen:
    """Who somebody is, and what they may do, asked in all the ways there are."""
    worker = _account(api, space, "asked")
    _grant(api, space, "asked", "r", _rule("", ["configmaps"], "get", resourceNames=["a"]), _rule("apps", ["*"], "*"))
    who = f"system:serviceaccount:{space}:asked"
    for _ in range(50):
        if worker.call("GET", f"/apis/apps/v1/namespaces/{space}/deployments").status == 200:
            break
        time.sleep(0.1)
    authorization, authentication = "/apis/authorization.k8s.io/v1", "/apis/authentication.k8s.io/v1"

    def asked(verb: str, resource: str, group: str = "", name: str = "", **more: str) -> dict[str, object]:
        return {"verb": verb, "resource": resource, "group": group, "name": name, "namespace": space, **more}

    questions = [
        asked("get", "configmaps", name="a"), asked("get", "configmaps", name="b"), asked("list", "deployments", "apps"),
        asked("update", "deployments", "apps", subresource="scale"), asked("*", "*", "apps"),
    ]  # fmt: skip
    seen: list[object] = []
    for question in questions:
        body = {"spec": {"resourceAttributes": question}}
        seen.append(worker.call("POST", f"{authorization}/selfsubjectaccessreviews", body).value["status"]["allowed"])
        told = {"spec": {**body["spec"], "user": who}}
        seen.append(api.call("POST", f"{authorization}/subjectaccessreviews", told).value["status"]["allowed"])
        local = {**told, "metadata": {"namespace": space}}
        seen.append(api.call("POST", f"{authorization}/namespaces/{space}/localsubjectaccessreviews", local).value["status"]["allowed"])
    paths = {"spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}}
    seen.append(worker.call("POST", f"{authorization}/selfsubjectaccessreviews", paths).value["status"]["allowed"])
    rules = worker.call("POST", f"{authorization}/selfsubjectrulesreviews", {"spec": {"namespace": space}}).value["status"]
    seen.append([rule for rule in rules["resourceRules"] if rule.get("apiGroups") in ([""], ["apps"])])
    seen.append(worker.call("POST", f"{authentication}/selfsubjectreviews", {}).value["status"]["userInfo"]["username"])
    for token in (worker.token, "nonsense"):
        review = api.call("POST", f"{authentication}/tokenreviews", {"spec": {"token": token}}).value["status"]
        user = {**review.get("user", {}), "extra": sorted(review.get("user", {}).get("extra", {}))}
        seen.append({**review, "user": user, "audiences": len(review.get("audiences", ()))})  # whom tokens are for is a setting
    seen += [
        api.call("POST", f"{authorization}/selfsubjectaccessreviews", {"spec": {}}),
        api.call("POST", f"{authorization}/subjectaccessreviews", {"spec": {"resourceAttributes": questions[0]}}),
        worker.call("POST", f"{authorization}/subjectaccessreviews", {"spec": {"user": "x", "resourceAttributes": questions[0]}}),
        api.call("GET", f"{authorization}/selfsubjectaccessreviews").status,
    ]
    return seen


@scenario
def in_the_name_of_another(api: Api, space: str) -> Seen:
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    other = {"Impersonate-User": "somebody", "Impersonate-Group": "readers", "Impersonate-Uid": "7", "Impersonate-Extra-scope": "a"}
    told = api.call("POST", review, {}, headers=other).value["status"]["userInfo"]
    account = {"Impersonate-User": f"system:serviceaccount:{space}:default"}
    worker = _account(api, space, "plain")
    return [
        told,
        sorted(api.call("POST", review, {}, headers=account).value["status"]["userInfo"]["groups"]),
        api.call("GET", config_maps(space), headers=other),
        worker.call("GET", config_maps(space), headers=other),
        api.call("GET", config_maps(space), headers={"Impersonate-Group": "readers"}).status,
    ]
