"""Which rule a request meets, and what routes and Ingresses become."""
import asyncio

import pytest

from serveplane.clock import SYSTEM
from serveplane.embedded.gateway.compile import allowed_hosts, http_route, ingress
from serveplane.embedded.gateway.endpoints import Endpoints
from serveplane.embedded.gateway.names import service_of
from serveplane.embedded.gateway.rules import (
    Asked,
    Backend,
    HeaderChange,
    PathKind,
    Redirect,
    Rewrite,
    Rule,
    ServiceName,
    Table,
    Text,
    make_table,
)
from serveplane.embedded.gateway.status import StatusWriter, route_status
from serveplane.kube.errors import Conflict, ConnectionFailed
from serveplane.objects import Json

SERVICES = {ServiceName("d", name): {"spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}}
            for name in ("a", "b", "c", "d")}


def route(name: str, *rules: Json, hosts: tuple[str, ...] = ("x.com",), created: str = "2026-01-01T00:00:00Z") -> Json:
    return {"metadata": {"name": name, "namespace": "d", "creationTimestamp": created},
            "spec": {"hostnames": list(hosts), "rules": list(rules), "parentRefs": [{"name": "gw"}]}}


def to(service: str, *matches: Json, **more: object) -> Json:
    return {"matches": list(matches), "backendRefs": [{"name": service, "port": 80}], **more}


def table(*routes: Json) -> Table:
    rules: dict[str, list] = {}  # type: ignore[type-arg]
    for one in routes:
        for host, some in http_route(one, SERVICES, one["spec"]["hostnames"]).rules.items():
            rules.setdefault(host, []).extend(some)
    return make_table(rules)


def target(found: Table, *args: object, **kwargs: object) -> str | None:
    rule = found.find(Asked(*args, **kwargs))  # type: ignore[arg-type]
    return rule.backends[0].service.name if rule else None


def prefix(path: str) -> Json:
    return {"path": {"type": "PathPrefix", "value": path}}


@pytest.mark.parametrize(("path", "service"), [("/v1", "a"), ("/v1/models/iris", "b"), ("/v1/x", "a"), ("/v12", "d"), ("/", "d"),
                                               ("/exact", "c"), ("/exact/not", "d"), ("/v1/", "a")])
def test_exact_then_the_longest_prefix(path: str, service: str) -> None:
    found = table(route("r", to("d", prefix("/")), to("a", prefix("/v1")), to("b", prefix("/v1/models")),
                        to("c", {"path": {"type": "Exact", "value": "/exact"}})))
    assert target(found, "x.com", path) == service


def test_regular_expressions_come_between() -> None:
    found = table(route("r", to("a", prefix("/v1")), to("b", {"path": {"type": "RegularExpression", "value": "^/v1/.*:predict$"}})))
    assert target(found, "x.com", "/v1/models/iris:predict") == "b"
    assert target(found, "x.com", "/v1/models/iris") == "a"
    assert target(found, "x.com", "/v1/" + "x" * 5000 + ":predict") == "a", "too long for a pattern"


@pytest.mark.parametrize(("host", "service"), [("x.com", "a"), ("q.x.com", "b"), ("z.q.x.com", "b"), ("other", "c"), ("y.z.x.com", "d")])
def test_hosts_exact_then_wildcard_then_any(host: str, service: str) -> None:
    found = table(route("1", to("a"), hosts=("X.com",)), route("2", to("b"), hosts=("*.x.com",)),
                  route("3", to("c"), hosts=("*",)), route("4", to("d"), hosts=("*.z.x.com",)))
    assert target(found, host, "/") == service


def test_methods_headers_and_parameters() -> None:
    found = table(route("r", to("a", prefix("/")), to("b", {**prefix("/"), "method": "POST"}),
                        to("c", {**prefix("/"), "headers": [{"name": "X-Canary", "value": "yes"}]}),
                        to("d", {**prefix("/"), "queryParams": [{"name": "v", "value": "[0-9]+", "type": "RegularExpression"}]})))
    assert target(found, "x.com", "/") == "a"
    assert target(found, "x.com", "/", "POST") == "b"
    assert target(found, "x.com", "/", "GET", {"x-canary": "yes"}) == "c"
    assert target(found, "x.com", "/", "GET", {}, "v=12") == "d"
    assert target(found, "x.com", "/", "GET", {}, "v=12a") == "a"


def test_the_older_route_wins_then_the_name() -> None:
    assert target(table(route("b", to("b"), created="2026-01-01T00:00:00Z"), route("a", to("a"), created="2026-01-02T00:00:00Z")),
                  "x.com", "/") == "b"
    assert target(table(route("b", to("b")), route("a", to("a"))), "x.com", "/") == "a"


def test_filters_weights_and_timeouts_are_read() -> None:
    rule = {"matches": [prefix("/v1")], "timeouts": {"request": "1m", "backendRequest": "500ms"},
            "backendRefs": [{"name": "a", "port": 80, "weight": 9}, {"name": "b", "port": 80, "weight": 0}, {"name": "c", "port": 80}],
            "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "A", "value": "1"}], "remove": ["B"]}},
                        {"type": "ResponseHeaderModifier", "responseHeaderModifier": {"add": [{"name": "C", "value": "2"}]}},
                        {"type": "URLRewrite", "urlRewrite": {"hostname": "h", "path": {"type": "ReplacePrefixMatch",
                                                                                      "replacePrefixMatch": "/v2"}}}]}
    made = http_route(route("r", rule), SERVICES, ["x.com"]).rules["x.com"][0]
    assert [backend.weight for backend in made.backends] == [9, 0, 1]
    assert made.filters == (HeaderChange((("a", "1"),), (), ("b",)), HeaderChange((), (("c", "2"),), (), True), Rewrite("h", None, "/v2"))
    assert (made.timeout, made.backend_timeout) == (60.0, 0.5)
    redirect = {"filters": [{"type": "RequestRedirect", "requestRedirect": {"scheme": "https", "statusCode": 301}}]}
    assert http_route(route("r", redirect), SERVICES, ["x.com"]).rules["x.com"][0].filters == (Redirect("https", None, None, 301),)


@pytest.mark.parametrize(("rule", "reason"), [
    ({"backendRefs": [{"name": "gone", "port": 80}]}, "BackendNotFound"),
    ({"backendRefs": [{"name": "a", "namespace": "other", "port": 80}]}, "RefNotPermitted"),
    ({"backendRefs": [{"name": "a", "kind": "Bucket", "group": "x", "port": 80}]}, "InvalidKind")])
def test_a_backend_that_does_not_resolve_is_told_in_the_status(rule: Json, reason: str) -> None:
    one = route("r", rule)
    made = http_route(one, SERVICES, ["x.com"])
    status = route_status(one, made, {("d", "gw"): ["x.com"]}, "2026-01-01T00:00:00Z")
    conditions = {entry["type"]: entry for entry in status["parents"][0]["conditions"]}
    assert conditions["Accepted"]["status"] == "True"
    assert conditions["ResolvedRefs"]["reason"] == reason
    assert made.rules["x.com"][0].backends[0].problem


@pytest.mark.parametrize("rule", [{"filters": [{"type": "RequestMirror"}]}, to("a", {"path": {"type": "RegularExpression", "value": "("}})])
def test_what_is_not_supported_is_not_accepted(rule: Json) -> None:
    one = route("r", rule)
    made = http_route(one, SERVICES, ["x.com"])
    assert made.rules == {}
    status = route_status(one, made, {("d", "gw"): ["x.com"]}, "2026-01-01T00:00:00Z")
    assert status["parents"][0]["conditions"][0]["reason"] == "UnsupportedValue"


def test_a_status_that_says_the_same_does_not_change() -> None:
    one = route("r", to("a"))
    made = http_route(one, SERVICES, ["x.com"])
    first = route_status(one, made, {("d", "gw"): ["x.com"]}, "2026-01-01T00:00:00Z")
    assert route_status({**one, "status": first}, made, {("d", "gw"): ["x.com"]}, "2027-01-01T00:00:00Z") == first


def test_an_ingress() -> None:
    path = {"path": "/v1", "pathType": "Prefix", "backend": {"service": {"name": "a", "port": {"number": 80}}}}
    exact = {"path": "/v1/x", "pathType": "Exact", "backend": {"service": {"name": "b", "port": {"name": "http"}}}}
    obj = {"metadata": {"name": "i", "namespace": "d"},
           "spec": {"rules": [{"host": "x.com", "http": {"paths": [path, exact]}}],
                    "defaultBackend": {"service": {"name": "c", "port": {"number": 80}}}}}
    found = make_table(ingress(obj, SERVICES).rules)
    assert [target(found, host, at) for host, at in (("x.com", "/v1/y"), ("x.com", "/v1/x"), ("y.com", "/"))] == ["a", "b", "c"]


@pytest.mark.parametrize(("route_hosts", "listener", "allowed"), [
    (["a.x.com"], "", ["a.x.com"]), ([], "", ["*"]), ([], "a.com", ["a.com"]), (["a.x.com", "b.com"], "*.x.com", ["a.x.com"]),
    (["*.x.com"], "a.x.com", ["a.x.com"]), (["b.com"], "a.com", [])])
def test_hosts_that_a_listener_lets_through(route_hosts: list[str], listener: str, allowed: list[str]) -> None:
    assert allowed_hosts(route_hosts, listener) == allowed


@pytest.mark.parametrize(("host", "name"), [
    ("a.d", ("d", "a", 80)), ("a.d.svc", ("d", "a", 80)), ("A.D.svc.cluster.local:8080", ("d", "a", 8080)),
    ("pod-0.a.d.svc.cluster.local", ("d", "a", 80)), ("a", None), ("", None), ("..", None)])
def test_services_by_name(host: str, name: tuple[str, str, int] | None) -> None:
    found = service_of(host)
    assert (None if found is None else (*found.service, found.port)) == name


def test_endpoints_in_turn_and_only_ready_ones() -> None:
    def entry(address: str, ready: bool = True) -> Json:
        return {"addresses": [address], "conditions": {"ready": ready}}
    slices = [{"metadata": {"namespace": "d", "labels": {"kubernetes.io/service-name": "a"}}, "ports": [{"name": "http", "port": 8080}],
               "endpoints": [entry("127.0.1.1"), entry("127.0.1.2", False), entry("127.0.1.3")]},
              {"metadata": {"namespace": "d", "labels": {"kubernetes.io/service-name": "a"}}, "ports": [{"name": "http", "port": 4444}],
               "endpoints": [entry("127.0.0.1")]}]
    found = Endpoints(SERVICES, slices)
    first = [found.candidates(ServiceName("d", "a"), 80)[0] for _ in range(4)]
    assert [(one.host, one.port) for one in first] == [("127.0.1.1", 8080), ("127.0.1.3", 8080), ("127.0.0.1", 4444), ("127.0.1.1", 8080)]
    assert found.candidates(ServiceName("d", "a"), 81) == []
    assert found.candidates(ServiceName("d", "b"), 80) == []
    assert len(found.candidates(ServiceName("d", "a"), "http")) == 3


def test_what_a_table_remembers_never_hides_a_condition() -> None:
    plain = Rule(PathKind.PREFIX, "/", (Backend(ServiceName("d", "a"), 80),))
    picky = Rule(PathKind.PREFIX, "/", (Backend(ServiceName("d", "b"), 80),), headers=(("x-canary", Text("1")),))
    table = make_table({"x.com": [plain, picky], "y.com": [plain]})
    for _ in range(2):
        assert table.find(Asked("x.com", "/", "GET", {"x-canary": "1"})) is picky
        assert table.find(Asked("x.com", "/")) is plain
        assert table.find(Asked("y.com", "/p")) is plain
        assert table.find(Asked("z.com", "/p")) is None
    for number in range(5000):
        assert table.find(Asked("y.com", f"/{number}")) is plain
    assert len(table._found) <= 2048


@pytest.mark.parametrize("rule", [
    {"filters": [{"type": "RequestHeaderModifier"}]}, {"matches": [{"headers": [{"name": "a"}]}]}, {"backendRefs": [{}]},
    {"timeouts": {"request": 5}}, {"matches": ["x"]}, {"matches": [{"path": {"type": "RegularExpression", "value": "("}}]}])
def test_a_route_that_cannot_be_read_is_told_so(rule: Json) -> None:
    route = {"metadata": {"namespace": "d", "name": "r"}, "spec": {"rules": [rule]}}
    made = http_route(route, {}, ["x.com"])
    assert made.unsupported
    assert not made.rules


async def test_what_could_not_be_said_is_said_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serveplane.embedded.gateway.status.RETRY", 0.01)
    written: list[str] = []
    troubles: list[Exception] = [ConnectionFailed("away"), Conflict("changed")]

    class Client:
        async def update_status(self, obj: Json, field_manager: str) -> Json:
            if troubles:
                raise troubles.pop(0)
            written.append(obj["metadata"]["name"])
            return obj

    writer = StatusWriter(Client(), SYSTEM, "127.0.0.1", 80)  # type: ignore[arg-type]
    running = asyncio.create_task(writer.run())
    for name in ("a", "b"):   # b comes first: once the server is away, once it has changed, and will be said anew
        writer.ingress({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name, "namespace": "d"}})
    async with asyncio.timeout(10):
        while not written:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    running.cancel()
    assert written == ["a"]
