"""How requests from outside find a workload: HTTPRoutes with the Gateway API, else one Ingress.

Weights split traffic between the stable version of a component and that of each canary: a transformer stays in the path.
"""
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from serveplane.api.inferenceservice.components import ComponentKind
from serveplane.api.inferenceservice.types import InferenceService
from serveplane.objects import Json
from serveplane.render import hosts
from serveplane.render.metadata import filtered
from serveplane.render.names import component_name
from serveplane.render.services import FRONT_PORT, ports
from serveplane.render.workloads import Blueprint, Canary, Workload
from serveplane.settings import Settings

DEFAULT_TIMEOUT = 60
ANY_PATH = r"^/.*$"
EXPLAIN = r"/v1/models/[\w-]+:explain"
GRPC_PATH = r"^/inference\.GRPCInferenceService/.*$"
GRPC_CONTENT = "^application/grpc.*"


@dataclass(frozen=True)
class Shares:
    """Who gets how much of a component's traffic; empty while there is no ready canary."""
    by_kind: Mapping[ComponentKind, Mapping[str, int]]

    @staticmethod
    def of(blueprint: Blueprint, ready: Sequence[Canary]) -> "Shares":
        """A canary's share goes to its own predictor, and to its own transformer where there is one; explainers have no canaries."""
        if not ready:
            return NO_SHARES
        rest = 100 - sum(canary.percent for canary in ready)
        result: dict[ComponentKind, dict[str, int]] = {}
        for workload in blueprint.stable:
            theirs = {own.name: canary.percent for canary in ready for own in canary.workloads if own.kind is workload.kind}
            if theirs:
                result[workload.kind] = {workload.name: rest, **theirs}
        return Shares(result)


NO_SHARES = Shares({})


def routes(service: InferenceService, blueprint: Blueprint, shares: Shares, settings: Settings, *, gateway_api: bool) -> list[Json]:
    """Every route of a service that shall be reached from outside: HTTPRoutes, or one Ingress."""
    section = settings.ingress
    if not hosts.has_route(service, section):
        return []
    if not gateway_api:
        return [] if any(workload.is_stopped for workload in blueprint.stable) else [ingress(service, blueprint, settings)]
    running = [workload for workload in blueprint.stable if not workload.is_stopped]
    found = [_component_route(service, workload, shares, settings, blueprint) for workload in running]
    return found if len(running) < len(blueprint.stable) else [*found, _service_route(service, blueprint, shares, settings)]


def _component_route(service: InferenceService, workload: Workload, shares: Shares, settings: Settings, blueprint: Blueprint) -> Json:
    """The route of one component; the predictor's is named without its variant, so that it outlives a promotion."""
    name = component_name(service.name, workload.kind)
    rules = list(_rules(service, workload, shares, settings))
    return _route(service, name, [hosts.host(name, service, settings.ingress)], rules, settings, blueprint)


def _service_route(service: InferenceService, blueprint: Blueprint, shares: Shares, settings: Settings) -> Json:
    section = settings.ingress
    names = [hosts.host(service.name, service, section), *hosts.additional_hosts(service, section)]
    path = hosts.path(service, section)
    if path:
        names.append(section.ingress_domain)
    explainer = blueprint.workload(ComponentKind.EXPLAINER)
    rules: list[Json] = []
    if explainer:
        rules.append(_rule(service, explainer, FRONT_PORT, _path_match(f"^{EXPLAIN}$"), shares, settings))
    rules.extend(_rules(service, blueprint.entry, shares, settings))
    if path and explainer:
        rules.append(_rule(service, explainer, FRONT_PORT, _path_match(f"{path}({EXPLAIN})$"), shares, settings))
    if path:
        rules.append(_rule(service, blueprint.entry, FRONT_PORT, _path_match(f"{path}/"), shares, settings))
    return _route(service, service.name, names, rules, settings, blueprint)


def _rules(service: InferenceService, workload: Workload, shares: Shares, settings: Settings) -> Iterator[Json]:
    """One rule, or two where the workload speaks both gRPC and REST on ports of their own."""
    numbers = ports(workload)
    grpc = next((port["port"] for port in numbers if hosts.is_grpc(port)), None)
    rest = next((port["port"] for port in numbers if not hosts.is_grpc(port)), None)
    if grpc is not None and rest is not None:
        match = {**_path_match(GRPC_PATH), "headers": [{"type": "RegularExpression", "name": "content-type", "value": GRPC_CONTENT}]}
        yield _rule(service, workload, grpc, match, shares, settings)
        yield _rule(service, workload, rest, _path_match(ANY_PATH), shares, settings)
    else:
        yield _rule(service, workload, FRONT_PORT, _path_match(ANY_PATH), shares, settings)


def _path_match(expression: str) -> Json:
    return {"path": {"type": "RegularExpression", "value": expression}}


def _rule(service: InferenceService, workload: Workload, port: int, match: Json, shares: Shares, settings: Settings) -> Json:
    told = [{"name": "KServe-Isvc-Name", "value": service.name}, {"name": "KServe-Isvc-Namespace", "value": service.namespace}]
    rule: Json = {"matches": [match], "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": told}}],
                  "backendRefs": _backends(workload, port, shares)}
    if not settings.ingress.disable_http_route_timeout:
        seconds = DEFAULT_TIMEOUT if workload.spec.timeout is None else workload.spec.timeout
        rule["timeouts"] = {"request": f"{seconds}s"}
    return rule


def _backends(workload: Workload, port: int, shares: Shares) -> list[Json]:
    weights: Mapping[str, int | None] = shares.by_kind.get(workload.kind) or {workload.name: None}
    return [_backend(name, workload.namespace, port, weight) for name, weight in weights.items()]


def _backend(name: str, namespace: str, port: int, weight: int | None) -> Json:
    backend: Json = {"group": "", "kind": "Service", "name": name, "namespace": namespace, "port": port}
    return backend if weight is None else {**backend, "weight": weight}


def _route(service: InferenceService, name: str, names: list[str], rules: list[Json], settings: Settings, blueprint: Blueprint) -> Json:
    namespace, _, gateway = settings.ingress.kserve_ingress_gateway.partition("/")
    parent = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": namespace, "name": gateway}
    section = settings.inference_service
    metadata: Json = {"name": name, "namespace": service.namespace,
                      "annotations": filtered(service.annotations, section.disallowed_annotations),
                      "labels": filtered(blueprint.labels, section.disallowed_labels)}
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": metadata,
            "spec": {"hostnames": names, "parentRefs": [parent], "rules": rules}}


def ingress(service: InferenceService, blueprint: Blueprint, settings: Settings) -> Json:
    section = settings.ingress
    rules = [_ingress_rule(hosts.host(name, service, section), target) for name, target in _ingress_targets(service, blueprint)]
    spec: Json = {"rules": rules}
    if section.ingress_class_name is not None:
        spec["ingressClassName"] = section.ingress_class_name
    metadata = {"name": service.name, "namespace": service.namespace, "annotations": dict(service.annotations)}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": spec}


def _ingress_targets(service: InferenceService, blueprint: Blueprint) -> Iterator[tuple[str, str]]:
    """Hosts and their targets in KServe's order, by the table users have learnt from it.

    With a transformer, its own host leads to the predictor: that is how callers bypass the transformer there. The predictor's own host
    has its variant in it, unlike that of its HTTPRoute.
    """
    predictor = blueprint.predictor.name
    transformer, explainer = blueprint.workload(ComponentKind.TRANSFORMER), blueprint.workload(ComponentKind.EXPLAINER)
    transformer_host, explainer_host = (component_name(service.name, kind) for kind in (ComponentKind.TRANSFORMER, ComponentKind.EXPLAINER))
    if transformer and explainer:
        yield transformer_host, explainer.name
    yield service.name, transformer.name if transformer else predictor
    if transformer:
        yield transformer_host, predictor
    elif explainer:
        yield explainer_host, explainer.name
    yield predictor, predictor


def _ingress_rule(name: str, target: str) -> Json:
    backend = {"service": {"name": target, "port": {"number": FRONT_PORT}}}
    return {"host": name, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
