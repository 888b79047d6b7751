"""Writing autoscalers in their first version, which some clients still speak.

Autoscalers are stored in the second version and known to everything else in that. What is written in the first is translated before, and
what is answered after.
"""

from typing import TYPE_CHECKING

import msgspec

from serveplane.embedded.apiserver import body, errors, patching, writing
from serveplane.embedded.apiserver.autoscalers import newer, older
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core


async def create(core: "Core", request: Request, resource: Resource) -> Answer:
    value = core.kinds.canonical(resource, body.decoded(request, resource.kind), [])
    return _answered(await writing.create(core, _asked(request, newer(value)), _stored(core)))


async def update(core: "Core", request: Request, resource: Resource) -> Answer:
    value = core.kinds.canonical(resource, body.decoded(request, resource.kind), [])
    return _answered(await writing.update(core, _asked(request, newer(value)), _stored(core)))


async def patch(core: "Core", request: Request, resource: Resource) -> Answer:
    """Patches are about fields of the first version, so it is that version that is patched."""
    kind, stored = body.media_type(request.headers), _stored(core)
    if kind == patching.APPLY:
        config = body.lenient(request.body)
        return _answered(await patching.patch(core, _asked(request, newer(config), kind), stored))
    content = body.json_value(request.body)

    async def patched(live: Json) -> Json:
        value = patching.patched(kind, older(live), content, resource)
        return core.kinds.canonical(stored, newer(core.kinds.canonical(resource, value, [])), [])

    data = await writing.change(core, request, stored, patched)
    return _answered(Answer(200, await writing.shown(core, request, stored, data)))


def _stored(core: "Core") -> Resource:
    found = core.registry.find("autoscaling", "v2", "horizontalpodautoscalers")
    assert found is not None
    return found


def _asked(request: Request, value: Json, content: str = body.JSON) -> Request:
    """The same request about the second version."""
    request.body = errors.encoded(value)
    request.headers = {**request.headers, "content-type": content}
    return request


def _answered(answer: Answer) -> Answer:
    if not isinstance(answer.body, bytes):
        return answer
    value = msgspec.json.decode(answer.body)
    return answer._replace(body=errors.encoded(older(value))) if value.get("apiVersion") == "autoscaling/v2" else answer


WRITES = {"create": create, "update": update, "patch": patch}
