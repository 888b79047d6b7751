"""Whether a pod may stand beside the pods that are there: required pod affinity and anti-affinity. Pure."""
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from serveplane.embedded.workloads.pods import is_over
from serveplane.objects import Json
from serveplane.objects.selectors import from_selector

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Labels = Mapping[str, str]


@dataclass(frozen=True)
class Neighbours:
    """The pods that have a node, the nodes by name, and the labels of namespaces."""
    pods: Sequence[Json] = ()
    nodes: Mapping[str, Json] = field(default_factory=dict)
    namespaces: Mapping[str, Labels] = field(default_factory=dict)

    @staticmethod
    def of(pods: Iterable[Json], nodes: Iterable[Json], namespaces: Iterable[Json]) -> "Neighbours":
        placed = [pod for pod in pods if pod["spec"].get("nodeName") and not is_over(pod)]
        return Neighbours(placed, {node["metadata"]["name"]: node for node in nodes},
                          {one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in namespaces})

    def in_domain(self, term: Json, node: Json) -> Iterator[Json]:
        """Pods in the part of the cluster that a term means, seen from a node."""
        return (pod for pod in self.pods if self.is_near(term, node, pod))

    def is_near(self, term: Json, node: Json, pod: Json) -> bool:
        here = _label(node, term["topologyKey"])
        return here is not None and _label(self.nodes.get(pod["spec"]["nodeName"]), term["topologyKey"]) == here

    def matches(self, term: Json, owner: Json, pod: Json) -> bool:
        """Whether a term of the owner's means the pod."""
        if not self._is_namespace(term, owner, pod["metadata"].get("namespace", "")) or term.get("labelSelector") is None:
            return False
        return from_selector(term["labelSelector"]).matches(pod["metadata"].get("labels") or {})

    def _is_namespace(self, term: Json, owner: Json, namespace: str) -> bool:
        listed, selector = term.get("namespaces") or [], term.get("namespaceSelector")
        if not listed and selector is None:
            return bool(namespace == owner["metadata"].get("namespace", ""))
        return namespace in listed or (selector is not None and from_selector(selector).matches(self.namespaces.get(namespace, {})))


NOBODY = Neighbours()


def unwelcome(pod: Json, node: Json, neighbours: Neighbours) -> str | None:
    """Why the pod may not stand on the node because of others, in the scheduler's usual words, or None."""
    wanted = _terms(pod, "podAffinity")
    if wanted and not all(any(neighbours.matches(term, pod, other) for other in neighbours.in_domain(term, node)) for term in wanted) \
            and not _is_first(pod, node, wanted, neighbours):
        return "node(s) didn't match pod affinity rules"
    if any(neighbours.matches(term, pod, other) for term in _terms(pod, "podAntiAffinity") for other in neighbours.in_domain(term, node)):
        return "node(s) didn't match pod anti-affinity rules"
    for other in neighbours.pods:
        for term in _terms(other, "podAntiAffinity"):
            if neighbours.is_near(term, node, other) and neighbours.matches(term, other, pod):
                return "node(s) didn't satisfy existing pods anti-affinity rules"
    return None


def _is_first(pod: Json, node: Json, terms: Sequence[Json], neighbours: Neighbours) -> bool:
    """The first pod of a group that wants to be with its own kind: there is nobody yet whom it could join."""
    return all(neighbours.matches(term, pod, pod) and _label(node, term["topologyKey"]) is not None for term in terms) and not any(
        all(neighbours.matches(term, pod, other) for term in terms) for other in neighbours.pods)


def _terms(pod: Json, kind: str) -> list[Json]:
    return list(((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or ())


def _label(node: Json | None, key: str) -> str | None:
    return None if node is None else (node["metadata"].get("labels") or {}).get(key)
