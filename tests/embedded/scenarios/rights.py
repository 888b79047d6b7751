"""Who may do what."""

import time

from tests.embedded.scenarios.telling import Seen, config_maps, scenario
from tests.embedded.servers import Api


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
