"""Questions about identity and rights, asked by creating a review."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import body, errors
from serveplane.embedded.apiserver.auth import rbac, tokens
from serveplane.embedded.apiserver.auth.rbac import Attributes
from serveplane.embedded.apiserver.request import Answer, Request, User
from serveplane.embedded.apiserver.resources import Resource
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core


def _review(core: "Core", request: Request, resource: Resource) -> Json:
    value = core.kinds.canonical(resource, body.decoded(request), [])
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": value.get("metadata") or {},
        "spec": value.get("spec") or {},
    }


def _answered(value: Json, status: Json) -> Answer:
    return Answer(201, errors.encoded({**value, "status": status}))


async def token_review(core: "Core", request: Request, resource: Resource) -> Answer:
    value = _review(core, request, resource)
    wanted = value["spec"].get("audiences") or [tokens.AUDIENCE]
    try:
        verified = core.authenticator.verified(value["spec"].get("token", ""))
    except tokens.BadToken as error:
        return _answered(value, {"user": {}, "error": str(error)})
    shared = [audience for audience in wanted if audience in verified.audiences]
    if not shared:
        return _answered(value, {"user": {}, "error": "token audiences do not match"})
    return _answered(value, {"authenticated": True, "user": verified.user.info(), "audiences": shared})


async def self_subject_review(core: "Core", request: Request, resource: Resource) -> Answer:
    return _answered(_review(core, request, resource), {"userInfo": request.user.info()})


async def access_review(core: "Core", request: Request, resource: Resource) -> Answer:
    """SubjectAccessReview and its namespaced twin: about anybody."""
    value = _review(core, request, resource)
    spec = value["spec"]
    extra = {key: tuple(items) for key, items in (spec.get("extra") or {}).items()}
    if not spec.get("user") and not spec.get("groups"):
        why = 'Invalid value: "": at least one of user or group must be specified'
        raise errors.invalid("", "authorization.k8s.io", "", [errors.Cause("FieldValueInvalid", why, "spec.user")])
    user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)
    return _decided(core, value, user)


async def self_access_review(core: "Core", request: Request, resource: Resource) -> Answer:
    return _decided(core, _review(core, request, resource), request.user)


def _decided(core: "Core", value: Json, user: User) -> Answer:
    asked = _attributes(value["spec"], user)
    allowed = core.authorizer.allows(asked)
    status: Json = {"allowed": allowed}
    return _answered(value, status)


def _attributes(spec: Json, user: User) -> Attributes:
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if other:
        return Attributes(user, other.get("verb", ""), path=other.get("path", ""))
    if not resource:
        cause = errors.Cause(
            "FieldValueInvalid",
            "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            "spec.resourceAttributes",
        )
        raise errors.invalid("", "authorization.k8s.io", "", [cause])
    return Attributes(
        user,
        resource.get("verb", ""),
        resource.get("group", ""),
        resource.get("resource", ""),
        resource.get("subresource", ""),
        resource.get("namespace", ""),
        resource.get("name", ""),
    )


async def rules_review(core: "Core", request: Request, resource: Resource) -> Answer:
    """`kubectl auth can-i --list`."""
    value = _review(core, request, resource)
    namespace = value["spec"].get("namespace") or ""
    rules = list(core.authorizer.rules_for(request.user, namespace))
    if rbac.MASTERS in request.user.groups:
        rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
    resources = [
        {key: rule[key] for key in ("verbs", "apiGroups", "resources", "resourceNames") if rule.get(key)}
        for rule in rules
        if rule.get("resources")
    ]
    paths = [{key: rule[key] for key in ("verbs", "nonResourceURLs")} for rule in rules if rule.get("nonResourceURLs")]
    return _answered(value, {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False})


REVIEWS = {
    ("authentication.k8s.io", "tokenreviews"): token_review,
    ("authentication.k8s.io", "selfsubjectreviews"): self_subject_review,
    ("authorization.k8s.io", "subjectaccessreviews"): access_review,
    ("authorization.k8s.io", "localsubjectaccessreviews"): access_review,
    ("authorization.k8s.io", "selfsubjectaccessreviews"): self_access_review,
    ("authorization.k8s.io", "selfsubjectrulesreviews"): rules_review,
}
