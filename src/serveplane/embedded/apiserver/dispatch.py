"""From a request to the handler of its verb."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import (
    autoscaling,
    body,
    discovery,
    errors,
    openapi,
    patching,
    reading,
    subresources,
    watching,
    writing,
)
from serveplane.embedded.apiserver.auth import rbac
from serveplane.embedded.apiserver.auth.rbac import Attributes
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Resource

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}

DEPRECATED = {"endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"}
"""By bucket, what every answer about it warns of."""


def verb(request: Request) -> str:
    """The verb RBAC knows: a GET without a name is a list or a watch, a DELETE without one a deletecollection."""
    found = _VERBS.get(request.method, request.method.lower())
    if found == "get" and not request.target.name:
        return "watch" if request.flag("watch") else "list"
    if found == "get" and request.flag("watch") and not request.target.subresource:
        return "watch"
    return "deletecollection" if found == "delete" and not request.target.name else found


def authorize(core: "Core", request: Request) -> None:
    """Raise unless RBAC lets the user do this."""
    target, user = request.target, request.user
    if rbac.MASTERS in user.groups:
        return
    if not target.resource:
        wanted = _VERBS.get(request.method, request.method.lower())
        if not core.authorizer.allows(Attributes(user, wanted, path=request.path)):
            raise errors.forbidden_path(user.name, wanted, request.path)
        return
    asked = Attributes(
        user, verb(request), target.group, target.resource, target.subresource, target.namespace, target.name
    )
    if not core.authorizer.allows(asked):
        raise _forbidden(request, asked)


def _forbidden(request: Request, asked: Attributes) -> errors.Refusal:
    what = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    why = f'User "{asked.user.name}" cannot {asked.verb} resource "{what}" in API group "{asked.group}" {where}'
    return errors.forbidden(asked.resource, asked.group, asked.name, why)


async def resource_answer(core: "Core", request: Request) -> Answer:
    target = request.target
    resource = core.registry.find(target.group, target.version, target.resource)
    if resource is None and not any(one.version == target.version for one in core.registry.in_group(target.group)):
        return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8")
    if resource is None or (target.namespace and not resource.namespaced and resource.bucket != "namespaces"):
        raise errors.no_such_path()
    if resource.bucket in DEPRECATED and not target.subresource:
        request.warnings.append(DEPRECATED[resource.bucket])
    if request.method in ("POST", "PUT", "PATCH"):
        request.check_options()
        await body.settle(request)
    if target.subresource:
        return await subresources.answer(core, request, resource)
    wanted = verb(request)
    if (
        wanted not in resource.verbs
        or (wanted == "create" and target.name)
        or (wanted in ("update", "patch") and not target.name)
    ):
        raise errors.method_not_allowed(request.method)
    if resource.namespaced and target.name and not target.namespace:
        raise errors.no_such_path()
    return await _main(core, request, resource, wanted)


async def _main(core: "Core", request: Request, resource: Resource, wanted: str) -> Answer:
    virtual = core.virtual.get((resource.group, resource.version, resource.plural)) if core.virtual else None
    if virtual is not None:
        return await virtual(core, request, resource)
    match wanted:
        case "get":
            return await reading.get(core, request, resource)
        case "list":
            return await reading.list_(core, request, resource)
        case "watch":
            return watching.watch(core, _one_name(request), resource)
        case "create" | "update" | "patch" if resource.first_autoscaler:
            return await autoscaling.WRITES[wanted](core, request, resource)
        case "create":
            special = subresources.REVIEWS.get((resource.group, resource.plural))
            return await (special(core, request, resource) if special else writing.create(core, request, resource))
        case "update":
            return await writing.update(core, request, resource)
        case "patch":
            return await patching.patch(core, request, resource)
        case "delete":
            return await core.deleting.delete(core, request, resource)
        case _:
            return await core.deleting.delete_collection(core, request, resource)


def _one_name(request: Request) -> Request:
    """`watch=true` on one object is a watch with a selector for its name."""
    if request.target.name:
        request.query = {**request.query, "fieldSelector": f"metadata.name={request.target.name}"}
    return request


def discovery_answer(core: "Core", request: Request) -> Answer:
    if request.path.startswith("/openapi/v3") and request.method == "GET":
        return core.openapi.answer(request)
    if request.path == "/openapi/v2":
        return openapi.older(request)
    found = discovery.answer(core.registry, request) if request.method in ("GET", "HEAD") else None
    if found is None:
        raise errors.no_such_path()
    return found
