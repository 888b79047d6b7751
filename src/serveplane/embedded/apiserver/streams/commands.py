"""`pods/exec` and `pods/attach`: the pod's node runs the command; the connection is passed on to it, byte by byte.

Client and node agree on how to speak, a WebSocket or SPDY; the API server only looks at who may.
"""

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode

from serveplane import http
from serveplane.embedded.apiserver import errors, nodes, pods
from serveplane.embedded.apiserver.reading import found
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.streams import spdy
from serveplane.http.tunnel import copy
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

NAMES = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
"""Options as clients write them, and as nodes do."""
PASSED = ("sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol")
ANSWERED = ("upgrade", "sec-websocket-accept", "sec-websocket-protocol", "x-stream-protocol-version")


async def pass_on(core: "Core", request: Request, resource: Resource) -> Answer:
    pod = found(core, resource, request.target.namespace, request.target.name).value()
    _check(pod)
    if "upgrade" not in request.headers.get("connection", "").lower():
        raise errors.bad_request("Upgrade request required")
    url = _place(core, request, pod)
    try:
        method = "POST" if spdy.is_asked(request.headers) else "GET"
        response = await core.nodes.request(method, url, headers=_headers(request), timeout=nodes.PATIENT)
    except (http.HttpError, OSError) as error:
        raise errors.internal(f"error dialing the node: {error}") from None
    if response.tunnel is None:
        raise await nodes.refusal(response)
    headers = {name: value for name, value in response.headers.items() if name.lower() in ANSWERED}
    return Answer(101, b"", headers=headers, upgrade=lambda tunnel: _joined(tunnel, response))


def _check(pod: Json) -> None:
    name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise errors.bad_request(f"cannot exec into a container in a completed pod; current phase is {phase}")
    if not pod["spec"].get("nodeName"):
        raise errors.bad_request(f"pod {name} does not have a host assigned")


def _place(core: "Core", request: Request, pod: Json) -> str:
    container = pods.chosen_container(pod, request.query.get("container", ""))
    options = [(name, "1") for asked, name in NAMES.items() if request.flag(asked)]
    options += [("command", word) for word in parse_qs(request.query_text, keep_blank_values=True).get("command", ())]
    return nodes.container_url(core, pod, container, request.target.subresource) + f"?{urlencode(options)}"


def _headers(request: Request) -> list[tuple[str, str]]:
    asked = [("Connection", "Upgrade"), ("Upgrade", request.headers.get("upgrade", ""))]
    asked += [(name, request.headers[name]) for name in PASSED if name in request.headers]
    if spdy.is_asked(request.headers):
        asked.append(("X-Stream-Protocol-Version", spdy.COMMANDS))
    return asked


async def _joined(client: http.Tunnel, response: http.ClientResponse) -> None:
    """Both ways, until either side ends."""
    node = response.tunnel
    assert node is not None
    tasks = {asyncio.create_task(copy(client, node)), asyncio.create_task(copy(node, client))}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await response.close()

