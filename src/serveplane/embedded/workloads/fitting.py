"""Whether a pod may run on a node: selectors, affinity, taints, room. Pure; a refusal is a reason in words."""
from collections.abc import Iterable, Mapping
from fractions import Fraction

from serveplane.embedded.workloads.pods import is_over
from serveplane.objects import Json, quantity
from serveplane.objects.amounts import with_overhead
from serveplane.objects.conditions import is_true

Resources = dict[str, Fraction]


def refusal(pod: Json, node: Json, used: Resources) -> str | None:
    """Why the node does not take the pod, in the scheduler's usual words, or None."""
    if node["spec"].get("unschedulable") and not _tolerates(pod, {"key": "node.kubernetes.io/unschedulable",
                                                                   "effect": "NoSchedule"}):
        return "node(s) were unschedulable"
    if not is_true((node.get("status") or {}).get("conditions"), "Ready"):
        return "node(s) were not ready"
    if not matches_selectors(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    taint = untolerated_taint(pod, node)
    if taint:
        return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    return _shortage(pod, node, used)


def matches_selectors(pod: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    wanted = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(matches_term(term, node) for term in required.get("nodeSelectorTerms") or ())


def matches_term(term: Json, node: Json) -> bool:
    """One term of a node affinity: all its expressions over labels, and fields (only the name is one)."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    labels = node["metadata"].get("labels") or {}
    names = {"metadata.name": node["metadata"]["name"]}
    return all(_holds(one, labels) for one in expressions) and all(_holds(one, names) for one in fields)


def _holds(expression: Json, values: Mapping[str, str]) -> bool:
    operator, key, wanted = expression["operator"], expression["key"], expression.get("values") or []
    if operator in ("Gt", "Lt"):
        there = values.get(key, "")
        if not there.lstrip("-").isdigit():
            return False
        return int(there) > int(wanted[0]) if operator == "Gt" else int(there) < int(wanted[0])
    there_is = key in values
    match operator:
        case "In": return there_is and values[key] in wanted
        case "NotIn": return not there_is or values[key] not in wanted
        case "Exists": return there_is
        case "DoesNotExist": return not there_is
    return False


def untolerated_taint(pod: Json, node: Json) -> Json | None:
    taints: Iterable[Json] = node["spec"].get("taints") or ()
    return next((taint for taint in taints
                 if taint.get("effect") in ("NoSchedule", "NoExecute") and not _tolerates(pod, taint)), None)


def _tolerates(pod: Json, taint: Json) -> bool:
    return any(_tolerated(toleration, taint) for toleration in pod["spec"].get("tolerations") or ())


def _tolerated(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def requests_of(pod: Json) -> Resources:
    return {name: quantity.parse(amount) for name, amount in with_overhead(pod["spec"], "requests").items()}


def used_on(node: str, pods: Iterable[Json]) -> Resources:
    """What the pods of a node ask for together; the pods themselves count as well."""
    total: Resources = {"pods": Fraction(0)}
    for pod in pods:
        if pod["spec"].get("nodeName") == node and not is_over(pod):
            _add(total, requests_of(pod) | {"pods": Fraction(1)})
    return total


def _shortage(pod: Json, node: Json, used: Resources) -> str | None:
    room = (node.get("status") or {}).get("allocatable") or {}
    for name, amount in (requests_of(pod) | {"pods": Fraction(1)}).items():
        if amount and used.get(name, Fraction(0)) + amount > quantity.parse(room.get(name, "0")):
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
    return None


def _add(total: Resources, more: Resources) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount
