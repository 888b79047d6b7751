"""Which InferenceGraphs are refused, and what in an accepted one has no effect."""

import re
from collections.abc import Iterator

from serveplane.api.inferencegraph.types import ROOT, InferenceGraph, Node, Step
from serveplane.api.inferenceservice.types import VARIANT_NAME
from serveplane.api.mode import Mode
from serveplane.api.model import read
from serveplane.api.problem import METADATA, SPEC, FieldError, FieldPath
from serveplane.api.urls import url_problem
from serveplane.objects import Json

NAME = re.compile(VARIANT_NAME)
TARGETS = (("nodeName", "node_name"), ("serviceName", "service_name"), ("serviceUrl", "service_url"))
CONDITIONAL = ("Sequence", "Switch")


def problems(obj: Json, old: Json | None = None) -> list[FieldError]:
    if old is not None and (old.get("metadata") or {}).get("deletionTimestamp"):
        return []
    return list(_problems(read(InferenceGraph, obj)))


def _problems(graph: InferenceGraph) -> Iterator[FieldError]:
    if not NAME.fullmatch(graph.name):
        yield FieldError(
            METADATA / "name", f"must be small letters, digits and '-', beginning with a letter; {graph.name!r} is not"
        )
    if ROOT not in graph.spec.nodes:
        yield FieldError(SPEC / "nodes", f"needs a node named {ROOT!r}, where every request begins")
    for name, node in graph.spec.nodes.items():
        yield from _node_problems(node, SPEC / "nodes" / name, graph)
    for cycle in endless_cycles(graph):
        yield FieldError(SPEC / "nodes", f"a request would never end: {' -> '.join(cycle)}")
    for field, value in (("minReplicas", graph.spec.min_replicas), ("maxReplicas", graph.spec.max_replicas)):
        if value is not None and value < 0:
            yield FieldError(SPEC / field, f"must be 0 or more, not {value}")


def _node_problems(node: Node, at: FieldPath, graph: InferenceGraph) -> Iterator[FieldError]:
    names = [step.name for step in node.steps if step.name]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield FieldError(at / "steps", f"two steps are named {name!r}; a name must be unique within a node")
    for index, step in enumerate(node.steps):
        yield from _step_problems(step, at / "steps" / index, graph)
    if node.router_type == "Splitter":
        yield from _weight_problems(node, at)


def _step_problems(step: Step, at: FieldPath, graph: InferenceGraph) -> Iterator[FieldError]:
    given = [field for field, attribute in TARGETS if getattr(step, attribute)]
    if len(given) != 1:
        found = f"it has {', '.join(given)}" if given else "it has none"
        yield FieldError(at, f"needs exactly one of nodeName, serviceName and serviceUrl; {found}")
    if step.node_name and step.node_name not in graph.spec.nodes:
        yield FieldError(at / "nodeName", f"there is no node {step.node_name!r}")
    if step.service_url and (message := url_problem(step.service_url)):
        yield FieldError(at / "serviceUrl", message)


def _weight_problems(node: Node, at: FieldPath) -> Iterator[FieldError]:
    weights = [step.weight for step in node.steps]
    for index, weight in enumerate(weights):
        if weight is None or not 0 <= weight <= 100:
            yield FieldError(at / "steps" / index / "weight", "must be a percentage between 0 and 100 in a Splitter")
    total = sum(weight or 0 for weight in weights)
    if total != 100:
        yield FieldError(at / "steps", f"the weights of a Splitter must add up to 100, not {total}")


def endless_cycles(graph: InferenceGraph) -> list[list[str]]:
    """Cycles on which no step has a condition that could end them, each once; found without recursion."""
    ways = {
        name: [step.node_name for step in node.steps if step.node_name and not _may_stop(node, step)]
        for name, node in graph.spec.nodes.items()
    }
    found, done = [], set[str]()
    for start in ways:
        path, pending = [start], [iter(ways[start])]
        while pending and start not in done:
            following = next(pending[-1], None)
            if following is None:
                done.add(path.pop())
                pending.pop()
            elif following in path:
                found.append([*path[path.index(following) :], following])
            elif following in ways and following not in done:
                path.append(following)
                pending.append(iter(ways[following]))
    return found


def _may_stop(node: Node, step: Step) -> bool:
    return bool(step.condition) and node.router_type in CONDITIONAL


def warnings(obj: Json, mode: Mode) -> list[str]:
    return [str(found) for found in _warnings(read(InferenceGraph, obj), mode)]


def _warnings(graph: InferenceGraph, mode: Mode) -> Iterator[FieldError]:
    reached = reachable(graph)
    for name, node in graph.spec.nodes.items():
        at = SPEC / "nodes" / name
        if name not in reached:
            yield FieldError(at, f"no request gets here from {ROOT!r}")
        if not node.steps:
            yield FieldError(at / "steps", "is empty: requests end here with nothing done")
        for index, step in enumerate(node.steps):
            yield from _step_warnings(node, step, index, at / "steps" / index)
    if graph.spec.timeout is not None and mode is Mode.STANDARD:
        yield FieldError(SPEC / "timeout", "has no effect in Standard mode; use routerTimeouts")


def _step_warnings(node: Node, step: Step, index: int, at: FieldPath) -> Iterator[FieldError]:
    kind = node.router_type
    if step.weight is not None and kind != "Splitter":
        yield FieldError(at / "weight", f"has effect in a Splitter only, not in a {kind}")
    if step.condition and kind not in CONDITIONAL:
        yield FieldError(at / "condition", f"has effect in a Switch or a Sequence only, not in a {kind}")
    if step.condition and kind == "Sequence" and index == 0:
        yield FieldError(at / "condition", "the first step has no response before it to look at, so it always fails")
    if kind == "Switch" and not step.condition:
        yield FieldError(at / "condition", "a step of a Switch without a condition is never chosen")
    if step.data is not None and (kind != "Sequence" or step.data != "$response" or index == 0):
        yield FieldError(at / "data", "has effect as $response in a later step of a Sequence only")
    if step.map_predictions_to_instances and kind != "Sequence":
        yield FieldError(at / "mapPredictionsToInstances", f"has effect in a Sequence only, not in a {kind}")
    if step.dependency and kind in ("Splitter", "Switch"):
        yield FieldError(at / "dependency", f"has effect in a Sequence or an Ensemble only, not in a {kind}")


def reachable(graph: InferenceGraph) -> set[str]:
    """Nodes that a request can come to."""
    found, pending = set[str](), [ROOT]
    while pending:
        name = pending.pop()
        if name in graph.spec.nodes and name not in found:
            found.add(name)
            pending += [step.node_name for step in graph.spec.nodes[name].steps if step.node_name]
    return found
