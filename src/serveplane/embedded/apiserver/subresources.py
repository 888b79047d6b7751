"""Everything below an object's name: status, scale, and what only some kinds have."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from serveplane.embedded.apiserver import accounts, errors, patching, pods, proxying, reading, scale, writing
from serveplane.embedded.apiserver.auth import reviews
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.apiserver.streams import commands, portforward

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

Handler = Callable[["Core", Request, Resource], Awaitable[Answer]]
REVIEWS: dict[tuple[str, str], Handler] = {**reviews.REVIEWS, ("", "bindings"): pods.binding}
"""Resources that are only ever sent, by (group, plural)."""
SPECIAL: dict[tuple[str, str], Handler] = {
    ("", "scale"): scale.scale,
    ("pods", "binding"): pods.binding,
    ("pods", "eviction"): pods.eviction,
    ("pods", "log"): pods.log,
    ("serviceaccounts", "token"): accounts.token,
    **{("pods", name): commands.pass_on for name in ("exec", "attach")},
    ("pods", "proxy"): proxying.pod,
    ("pods", "portforward"): portforward.portforward,
    ("services", "proxy"): proxying.service,
    ("nodes", "proxy"): pods.streaming,
}
"""Subresources with a handler of their own, by (bucket, subresource); an empty bucket stands for all."""
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


async def answer(core: "Core", request: Request, resource: Resource) -> Answer:
    name = request.target.subresource
    known = resource.subresources.get(name)
    if known is None:
        raise errors.not_found(resource.plural, resource.group, request.target.name) if resource.custom else errors.no_such_path()
    wanted = _VERBS.get(request.method, "")
    if wanted not in known.verbs:
        raise errors.method_not_allowed(request.method)
    special = SPECIAL.get((resource.bucket, name)) or SPECIAL.get(("", name))
    if special is not None:
        return await special(core, request, resource)
    match wanted:
        case "get":
            return await reading.get(core, request, resource)
        case "update":
            return await writing.update(core, request, resource, name)
        case "patch":
            return await patching.patch(core, request, resource, name)
    raise errors.method_not_allowed(request.method)
