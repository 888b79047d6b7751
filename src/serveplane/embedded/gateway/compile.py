"""HTTPRoutes and Ingresses become rules. Pure; what cannot be honoured is told as a problem, never dropped in silence."""
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from serveplane.embedded.gateway.rules import (
    Backend,
    Filter,
    HeaderChange,
    PathKind,
    Redirect,
    Rewrite,
    Rule,
    ServiceName,
    Text,
)
from serveplane.objects import Json

DURATION = re.compile(r"(\d+)(h|ms|m|s)")
MALFORMED = (KeyError, TypeError, ValueError, AttributeError)
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class Unsupported(Exception):
    """A part of a route that this gateway does not have; the route's status says so."""


@dataclass(frozen=True)
class Compiled:
    """What became of one object: its rules by host, and what is wrong with it."""
    rules: Mapping[str, Sequence[Rule]]
    problems: Sequence[str] = ()            # references that do not resolve
    unsupported: str = ""                   # not accepted at all
    hosts: Sequence[str] = field(default_factory=tuple)


def http_route(route: Json, services: Mapping[ServiceName, Json], hosts: Sequence[str]) -> Compiled:
    """A route for the hosts that its gateways let it have."""
    problems: list[str] = []
    rules: list[Rule] = []
    try:
        for number, rule in enumerate(route["spec"].get("rules") or [{}]):
            rules += _route_rules(route, number, rule, services, problems)
    except Unsupported as why:
        return Compiled({}, (), str(why), tuple(hosts))
    except MALFORMED as problem:   # the definitions leave much open
        return Compiled({}, (), f"the route cannot be read: {problem!r}", tuple(hosts))
    return Compiled(dict.fromkeys(hosts or ("*",), rules), problems, "", tuple(hosts))


def _route_rules(route: Json, number: int, rule: Json, services: Mapping[ServiceName, Json],
                 problems: list[str]) -> Iterator[Rule]:
    metadata = route["metadata"]
    filters = tuple(_filters(rule.get("filters")))
    backends = tuple(_backend(entry, metadata["namespace"], services, problems)
                     for entry in rule.get("backendRefs") or ())
    timeouts = rule.get("timeouts") or {}
    for position, match in enumerate(rule.get("matches") or [{}]):
        kind, path, pattern = _path(match.get("path") or {})
        yield Rule(kind, path, backends, pattern, match.get("method") or "", _texts(match.get("headers"), lower=True),
                   _texts(match.get("queryParams"), lower=False), filters, _seconds(timeouts.get("request")),
                   _seconds(timeouts.get("backendRequest")), f"HTTPRoute {metadata['namespace']}/{metadata['name']}",
                   (metadata.get("creationTimestamp") or "", f"{metadata['namespace']}/{metadata['name']}", number,
                    position))


def _path(match: Json) -> tuple[PathKind, str, re.Pattern[str] | None]:
    value = match.get("value") or "/"
    match match.get("type") or "PathPrefix":
        case "Exact": return PathKind.EXACT, value, None
        case "PathPrefix": return PathKind.PREFIX, value, None
        case "RegularExpression": return PathKind.PATTERN, value, _pattern(value)
        case other: raise Unsupported(f"path match of type {other} is not supported")


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as problem:
        raise Unsupported(f"{text!r} is not a regular expression: {problem}") from problem


def _texts(entries: Sequence[Json] | None, *, lower: bool) -> tuple[tuple[str, Text], ...]:
    return tuple((entry["name"].lower() if lower else entry["name"],
                  Text(entry["value"], _pattern(entry["value"]) if entry.get("type") == "RegularExpression" else None))
                 for entry in entries or ())


def _backend(entry: Json, namespace: str, services: Mapping[ServiceName, Json], problems: list[str]) -> Backend:
    name = ServiceName(entry.get("namespace") or namespace, entry["name"])
    problem = ""
    if (entry.get("kind") or "Service") != "Service" or entry.get("group"):
        problem = f"InvalidKind: {entry.get('kind')} is not a backend of this gateway"
    elif name.namespace != namespace:
        problem = f"RefNotPermitted: a backend in namespace {name.namespace} needs a ReferenceGrant"
    elif name not in services:
        problem = f"BackendNotFound: service {name.namespace}/{name.name} not found"
    if problem:
        problems.append(problem)
    weight = entry.get("weight")
    return Backend(name, entry.get("port") or 80, 1 if weight is None else weight,
                   tuple(_filters(entry.get("filters"))), problem)


def _filters(entries: Sequence[Json] | None) -> Iterator[Filter]:
    for entry in entries or ():
        match entry.get("type"):
            case "RequestHeaderModifier": yield _header_change(entry["requestHeaderModifier"], False)
            case "ResponseHeaderModifier": yield _header_change(entry["responseHeaderModifier"], True)
            case "URLRewrite": yield Rewrite(entry["urlRewrite"].get("hostname"), *_path_change(entry["urlRewrite"]))
            case "RequestRedirect": yield _redirect(entry["requestRedirect"])
            case other: raise Unsupported(f"filter {other} is not supported")


def _header_change(change: Json, of_answer: bool) -> HeaderChange:
    def pairs(name: str) -> tuple[tuple[str, str], ...]:
        return tuple((entry["name"].lower(), entry["value"]) for entry in change.get(name) or ())
    return HeaderChange(pairs("set"), pairs("add"), tuple(name.lower() for name in change.get("remove") or ()), of_answer)


def _path_change(change: Json) -> tuple[str | None, str | None]:
    path = change.get("path") or {}
    return path.get("replaceFullPath"), path.get("replacePrefixMatch")


def _redirect(redirect: Json) -> Redirect:
    return Redirect(redirect.get("scheme"), redirect.get("hostname"), redirect.get("port"),
                    redirect.get("statusCode") or 302, *_path_change(redirect))


def _seconds(text: str | None) -> float | None:
    """A duration as the Gateway API writes it; zero means none.

    >>> _seconds("1m30s"), _seconds("500ms"), _seconds("0s"), _seconds(None)
    (90.0, 0.5, None, None)
    """
    return sum(int(number) * UNITS[unit] for number, unit in DURATION.findall(text or "")) or None


def ingress(obj: Json, services: Mapping[ServiceName, Json]) -> Compiled:
    """An Ingress: its rules by host, and its default backend for what no rule takes."""
    problems: list[str] = []
    rules: dict[str, list[Rule]] = {}
    for number, rule in enumerate(obj["spec"].get("rules") or ()):
        for position, path in enumerate((rule.get("http") or {}).get("paths") or ()):
            made = _ingress_rule(obj, (number, position), path, services, problems)
            rules.setdefault(rule.get("host") or "*", []).append(made)
    default = obj["spec"].get("defaultBackend")
    if default:
        fallback = {"path": "/", "pathType": "Prefix", "backend": default}
        rules.setdefault("*", []).append(_ingress_rule(obj, (9999, 0), fallback, services, problems))
    return Compiled(rules, problems, "", tuple(host for host in rules if host != "*"))


def _ingress_rule(obj: Json, order: tuple[int, int], path: Json, services: Mapping[ServiceName, Json],
                  problems: list[str]) -> Rule:
    metadata = obj["metadata"]
    target = path["backend"].get("service") or {}
    name = ServiceName(metadata["namespace"], target.get("name", ""))
    problem = "" if name in services else f"service {name.namespace}/{name.name} not found"
    if problem:
        problems.append(problem)
    port = target.get("port") or {}
    kind = PathKind.EXACT if path.get("pathType") == "Exact" else PathKind.PREFIX
    return Rule(kind, path.get("path") or "/", (Backend(name, port.get("name") or port.get("number") or 80, 1, (),
                                                        problem),),
                source=f"Ingress {metadata['namespace']}/{metadata['name']}",
                order=(metadata.get("creationTimestamp") or "", f"{metadata['namespace']}/{metadata['name']}", *order))


def allowed_hosts(route_hosts: Sequence[str], listener_host: str) -> list[str]:
    """The hosts a route gets from a listener: where the two overlap, the more specific one."""
    if not listener_host:
        return list(route_hosts) or ["*"]
    if not route_hosts:
        return [listener_host]
    return [chosen for host in route_hosts if (chosen := _overlap(host, listener_host))]


def _overlap(one: str, other: str) -> str:
    if one == other or (other.startswith("*.") and one.endswith(other[1:])):
        return one
    return other if one.startswith("*.") and other.endswith(one[1:]) else ""
