"""`pods/proxy` and `services/proxy`: HTTP to what runs in the cluster, through the API server, by those who may.

The name may say a scheme and a port: `web`, `web:8080`, `http:web:metrics`. Bodies are bounded as all are; answers stream.
"""

from typing import TYPE_CHECKING

from serveplane import http
from serveplane.embedded.apiserver import errors, nodes
from serveplane.embedded.apiserver.reading import found
from serveplane.embedded.apiserver.request import Answer, Request
from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.apiserver.webhooks import CallFailed
from serveplane.embedded.node.addresses import moved_by
from serveplane.http.wire import CONNECTION_FIELDS
from serveplane.objects import Json

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core

PASSED = ("accept", "accept-language", "content-type", "range", "if-none-match", "if-modified-since", "user-agent", "x-requested-with")
"""What is told of the caller. Credentials are for the API server alone."""
NOT_RETURNED = {name.decode() for name in CONNECTION_FIELDS} | {"content-length", "content-type"}
"""What the answer to the caller says for itself."""


async def pod(core: "Core", request: Request, resource: Resource) -> Answer:
    name, port = _named(request)
    value = found(core, resource, request.target.namespace, name).value()
    address = (value.get("status") or {}).get("podIP")
    if not address:
        raise errors.bad_request(f"pod {name} has no address; is it running?")
    number = _pod_port(value, port)
    return await _passed(core, request, address, moved_by(value).get(number, number))


async def service(core: "Core", request: Request, resource: Resource) -> Answer:
    name, port = _named(request)
    value = found(core, resource, request.target.namespace, name).value()
    try:
        host, number = core.webhooks.endpoint(request.target.namespace, name, _service_port(value, port))
    except CallFailed as problem:
        raise errors.Refusal(503, "ServiceUnavailable", str(problem)) from None
    return await _passed(core, request, host, number)


def _named(request: Request) -> tuple[str, str]:
    """Name and port, either of which a scheme may stand in front of."""
    parts = request.target.name.split(":")
    scheme = parts.pop(0) if len(parts) == 3 or (parts[0] in ("http", "https") and len(parts) > 1) else ""
    if scheme not in ("", "http") or len(parts) > 2:
        raise errors.bad_request(f'invalid proxy request "{request.target.name}": only [http:]name[:port] is offered')
    return parts[0], parts[1] if len(parts) == 2 else ""


def _pod_port(value: Json, port: str) -> int:
    ports = [one for container in value["spec"]["containers"] for one in container.get("ports") or ()]
    if port.isdigit():
        return int(port)
    named = [one["containerPort"] for one in ports if not port or one.get("name") == port]
    if port and not named:
        raise errors.bad_request(f'pod {value["metadata"]["name"]} has no port "{port}"')
    return int(named[0]) if named else 80


def _service_port(value: Json, port: str) -> int:
    ports = value["spec"].get("ports") or []
    wanted = [one["port"] for one in ports if not port or port in (one.get("name"), str(one["port"]))]
    if not wanted or (not port and len(ports) > 1):
        raise errors.Refusal(503, "ServiceUnavailable", f'no endpoints available for service "{value["metadata"]["name"]}"')
    return int(wanted[0])


async def _passed(core: "Core", request: Request, host: str, port: int) -> Answer:
    if host.startswith("169.254.") or host.lower().startswith(("fe80:", "[fe80:")):  # where clouds keep their secrets
        raise errors.bad_request("address not allowed")
    rest = request.path.split("/", 8)[8:]
    if not rest and request.method in ("GET", "HEAD"):
        return Answer(301, b"", headers={"Location": f"{request.path}/"})
    url = f"http://{host}:{port}/{rest[0] if rest else ''}" + (f"?{request.query_text}" if request.query_text else "")
    headers = [(name, request.headers[name]) for name in PASSED if name in request.headers]
    try:
        content = request.body or None
        response = await core.nodes.plain().request(request.method, url, headers=headers, body=content, timeout=nodes.PATIENT)
    except (http.HttpError, OSError) as problem:
        told = f"error trying to reach service: {problem}"
        raise errors.Refusal(503, "ServiceUnavailable", told) from None
    kept = {name: value for name, value in response.headers.items() if name.lower() not in NOT_RETURNED}
    return Answer(response.status, response.stream(), response.headers.get("content-type") or "text/plain", kept)
