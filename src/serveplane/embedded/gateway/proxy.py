"""The gateway's handler: find the rule, choose a backend, forward, and try the next endpoint if one cannot be reached.

Nothing here touches the API: the routing table and the endpoints are values that are replaced as the cluster changes.
"""
from collections.abc import Awaitable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from serveplane import pod
from serveplane.clock import Clock
from serveplane.embedded.gateway.endpoints import Endpoint, Endpoints
from serveplane.embedded.gateway.names import model_of, proxy_user, service_of, split_host
from serveplane.embedded.gateway.rules import (
    Asked,
    Backend,
    Filter,
    HeaderChange,
    Redirect,
    Rewrite,
    Rule,
    ServiceName,
    Table,
)
from serveplane.http import Headers, Origin, Request, Response, Timeouts
from serveplane.http.forwarding import Forwarding, Otherwise, Unreachable
from serveplane.http.proxy import Proxy

SERVING = "/serving/"
OWN_HOSTS = ("127.0.0.1", "localhost", "[::1]")
NO_ENDPOINTS = "no endpoint of service {}/{} is ready\n"


class _Way(NamedTuple):
    """Where a request goes and how it is changed on the way."""
    endpoints: Sequence[Endpoint]
    target: str | None
    host: str | None
    timeouts: Timeouts | None


class Gateway:
    """Routes and forwards. `table` and `endpoints` are swapped whole when the cluster changes."""

    def __init__(self, proxy: Proxy, clock: Clock) -> None:
        self.table = Table()
        self.endpoints = Endpoints({}, ())
        self._proxy = proxy
        self._clock = clock

    def handle(self, request: Request) -> Awaitable[Response]:
        path = request.path
        if path.startswith(SERVING):
            return self._by_path(request)
        host = request.headers.index.get(b"host", b"").decode("latin-1")
        rule = self.table.find(_asked(request, split_host(host)[0], path))
        if rule is not None:
            return self._apply(rule, request, path, host)
        named = service_of(host)
        if named is not None and named.service in self.endpoints.services:
            return self._send(request, named.service, named.port, _target(path, request.query), host, (), None)
        if request.target.startswith("http://"):   # the whole URL is in the request line
            return self._as_proxy(request, host, path)
        return self._by_model(request, host, path)

    async def choose(self, request: Request) -> Origin | None:
        """Where an HTTP/2 connection goes, by its first request. Its frames are passed on as they are."""
        host = request.headers.get("host") or request.headers.get(":authority") or ""
        rule = self.table.find(_asked(request, split_host(host)[0], request.path))
        if rule is not None:
            backend = self._backend(rule.backends)
            found = self.endpoints.candidates(backend.service, backend.port) if backend else []
        else:
            named = service_of(host)
            found = self.endpoints.candidates(named.service, named.port) if named else []
        return _origin(found[0]) if found else None

    async def close(self) -> None:
        await self._proxy.client.close()

    def _by_path(self, request: Request) -> Awaitable[Response]:
        """`/serving/NAMESPACE/NAME/...`: the route, Ingress or Service of that name, wherever `*.localhost` fails."""
        parts = request.path.split("/", 4)
        if len(parts) < 4 or not parts[3]:
            return Response.text("say /serving/NAMESPACE/NAME/...\n", 404)
        return self._by_name(request, ServiceName(parts[2], parts[3]), "/" + (parts[4] if len(parts) > 4 else ""))

    def _as_proxy(self, request: Request, host: str, path: str) -> Awaitable[Response]:
        """A pod asks for a Service of its own namespace by a short name, or for something outside the cluster, which is fetched
        for it. Only programs that were told to use a proxy ask like this, never pages in a browser."""
        name, port = split_host(host)
        service = ServiceName(proxy_user(request.headers.get("proxy-authorization")), name)
        target = _target(path, request.query)
        if service in self.endpoints.services:
            return self._send(request, service, port, target, host, (), None)
        if pod.is_service_name(host):
            return Response.text(f"no service is called {name!r}\n", 404)
        return self._proxy.forward(request, Origin("http", name.strip("[]"), port), target=target, host=host)

    def _by_model(self, request: Request, host: str, path: str) -> Awaitable[Response]:
        """A request to the gateway's own address that names a model: `Host` taken from a URL that has no host of its own
        (`curl -H "Host: $(… | cut -d/ -f3)"`, as KServe's pages do it) leads to the route of that name, if there is one only."""
        model = model_of(path) if split_host(host)[0] in OWN_HOSTS else ""
        found = [ServiceName(namespace, name) for namespace, name in self.table.named if model and name == model]
        if len(found) == 1:
            return self._by_name(request, found[0], path)
        advice = "".join(f"; say {SERVING}{one.namespace}/{one.name}{path}" for one in found)
        return Response.text(f"no route for host {host!r} and path {path}{advice}\n", 404)

    def _by_name(self, request: Request, service: ServiceName, rest: str) -> Awaitable[Response]:
        namespace, name = service
        host = self.table.named.get((namespace, name))
        if host is not None:
            rule = self.table.find(_asked(request, host, rest))
            if rule is not None:
                return self._apply(rule, request, rest, host)
        if service in self.endpoints.services:
            ports = self.endpoints.services[service]["spec"].get("ports") or [{"port": 80}]
            target = _target(rest, request.query)
            return self._send(request, service, ports[0]["port"], target, f"{name}.{namespace}", (), None)
        return Response.text(f"nothing is served as {namespace}/{name}\n", 404)

    def _apply(self, rule: Rule, request: Request, path: str, host: str) -> Awaitable[Response]:
        for one in rule.filters:
            if isinstance(one, Redirect):
                return _redirected(one, rule, request, path, host)
        backend = self._backend(rule.backends)
        if backend is None or backend.problem:
            return Response.text(f"{rule.source}: {backend.problem if backend else 'no backend'}\n", 500)
        filters = rule.filters + backend.filters
        target, new_host = _rewritten(filters, rule, path, request.query) if filters else (
            _target(path, request.query), None)
        timeout = rule.backend_timeout or rule.timeout
        return self._send(request, backend.service, backend.port, target, new_host or (host or None), filters, timeout)

    def _backend(self, backends: Sequence[Backend]) -> Backend | None:
        """By weight; a weight of zero gets nothing."""
        if len(backends) == 1:
            return backends[0] if backends[0].weight else None
        total = sum(backend.weight for backend in backends)
        chosen = self._clock.random() * total
        for backend in backends:
            chosen -= backend.weight
            if chosen < 0:
                return backend
        return None

    def _send(self, request: Request, service: ServiceName, port: int | str, target: str | None,
              host: str | None, filters: Sequence[Filter], timeout: float | None) -> Awaitable[Response]:
        """To the endpoint whose turn it is: over a kept connection and without a task, if nothing has to be done to the answer."""
        endpoints = self.endpoints.candidates(service, port)
        if not endpoints:
            return Response.text(NO_ENDPOINTS.format(*service), 503, [("Retry-After", "1")])
        if len(endpoints) == 1 and not filters:
            return self._proxy.forward(request, _origin(endpoints[0]), target=target, host=host, timeouts=_timeouts(timeout))
        way = _Way(endpoints, target, host, _timeouts(timeout))
        _change_request(request, filters)
        if any(isinstance(one, HeaderChange) and one.of_answer for one in filters):
            return self._changed(request, way, filters)
        return self._first(request, way)

    def _first(self, request: Request, way: _Way) -> Forwarding:
        return self._forward(request, way, way.endpoints[0], partial(self._in_turn, way))

    def _forward(self, request: Request, way: _Way, endpoint: Endpoint,
                 otherwise: Otherwise | None = None, fresh: bool = False) -> Forwarding:
        return self._proxy.forward(request, _origin(endpoint), target=way.target, host=way.host, timeouts=way.timeouts,
                                   otherwise=otherwise, fresh=fresh)

    async def _in_turn(self, way: _Way, first: Forwarding) -> Response:
        """One endpoint after the other, as long as they cannot be reached."""
        request = first.request
        answer = await self._forward(request, way, way.endpoints[0], fresh=first.fresh)
        for endpoint in way.endpoints[1:]:
            if not isinstance(answer, Unreachable) or not isinstance(request.body, bytes):   # a body that streams is used up by asking
                break
            answer = await self._forward(request, way, endpoint)
        return answer

    async def _changed(self, request: Request, way: _Way, filters: Sequence[Filter]) -> Response:
        answer = await self._first(request, way)
        _change_answer(answer, filters)
        return answer


@lru_cache(maxsize=64)
def _timeouts(total: float | None) -> Timeouts | None:
    return Timeouts(connect=2.0, read=None, total=total) if total else None


@lru_cache(maxsize=4096)
def _origin(endpoint: Endpoint) -> Origin:
    return Origin("http", endpoint.host, endpoint.port)


def _asked(request: Request, host: str, path: str) -> Asked:
    return Asked(host, path, request.method, request.headers, request.query)


def _rewritten(filters: Sequence[Filter], rule: Rule, path: str, query: str) -> tuple[str, str | None]:
    host: str | None = None
    for one in filters:
        if isinstance(one, Rewrite):
            host = one.host or host
            path = changed_path(one.full_path, one.prefix, rule.path, path)
    return _target(path, query), host


def changed_path(full: str | None, prefix: str | None, matched: str, path: str) -> str:
    """
    >>> changed_path(None, "/v2", "/v1", "/v1/models"), changed_path(None, "/", "/v1", "/v1/a")
    ('/v2/models', '/a')
    """
    if full is not None:
        return full
    if prefix is None:
        return path
    rest = path[len(matched.rstrip("/")):]
    return (prefix.rstrip("/") + rest) or "/"


def _target(path: str, query: str) -> str:
    return f"{path}?{query}" if query else path


def _redirected(redirect: Redirect, rule: Rule, request: Request, path: str, host: str) -> Response:
    name, port = split_host(host)
    scheme = redirect.scheme or ("https" if request.peer.tls else "http")
    usual = 443 if scheme == "https" else 80
    port = redirect.port or (usual if redirect.scheme else port)
    place = redirect.host or name
    where = place if port == usual else f"{place}:{port}"
    path = changed_path(redirect.full_path, redirect.prefix, rule.path, path)
    return Response(redirect.status, [("Location", f"{scheme}://{where}{_target(path, request.query)}")])


def _change_request(request: Request, filters: Sequence[Filter]) -> None:
    for one in filters:
        if isinstance(one, HeaderChange) and not one.of_answer:
            _change(request.headers, one)


def _change_answer(answer: Response, filters: Sequence[Filter]) -> None:
    for one in filters:
        if isinstance(one, HeaderChange) and one.of_answer:
            _change(answer.headers, one)


def _change(headers: Headers, change: HeaderChange) -> None:
    for name in change.remove:
        headers.remove(name)
    for name, value in change.set:
        headers.set(name, value)
    for name, value in change.add:
        headers.add(name, value)
