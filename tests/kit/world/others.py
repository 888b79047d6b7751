"""What the owners of other kinds would report: Knative, gateways, LeaderWorkerSet, inference pools. Pure, as `pods`.

Each function gives the new status, or None if the present one already answers for this generation.
"""
from typing import Any

from tests.kit.world.rules import Outcome, Rule

Json = dict[str, Any]
CONTROLLER = "example.com/world"
GATEWAY_ADDRESS = "203.0.113.10"
REASON = "World"      # where a condition needs some reason; comparisons leave it out


def knative_status(service: Json, rule: Rule, now: str) -> Json | None:
    """A ready Service with one revision per generation; nothing gives it pods."""
    generation, status = service["metadata"]["generation"], service.get("status") or {}
    if status.get("observedGeneration") == generation and _says(status, "Ready", rule):
        return None
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    revision = f"{name}-{generation:05d}"
    if rule.outcome is Outcome.REFUSED:
        refusal = _condition("Ready", now, None, False, "RevisionFailed", rule.message or f'Revision "{revision}" failed')
        return {**status, "observedGeneration": generation, "latestCreatedRevisionName": revision, "conditions": [refusal]}
    conditions = [_condition(kind, now) for kind in ("ConfigurationsReady", "RoutesReady", "Ready")]
    traffic = service["spec"].get("traffic") or [{"latestRevision": True, "percent": 100}]
    return {"observedGeneration": generation, "url": f"http://{name}.{namespace}.example.com",
            "address": {"url": f"http://{name}.{namespace}.svc.cluster.local"},
            "latestCreatedRevisionName": revision, "latestReadyRevisionName": revision,
            "traffic": [_target(entry, revision, name, namespace) for entry in traffic], "conditions": conditions}


def _target(entry: Json, latest: str, name: str, namespace: str) -> Json:
    url = {"url": f"http://{entry['tag']}-{name}.{namespace}.example.com"} if entry.get("tag") else {}
    return {**entry, "revisionName": entry.get("revisionName") or latest, **url}


def route_status(route: Json, rule: Rule, now: str) -> Json | None:
    """Accepted (or not) by every parent it names."""
    generation, refused = route["metadata"]["generation"], rule.outcome is Outcome.REFUSED
    parents = (route.get("status") or {}).get("parents") or []
    if parents and all(_answers(parent, generation, rule) for parent in parents):
        return None
    accepted = _condition("Accepted", now, generation, not refused, "NotAllowedByListeners" if refused else "Accepted", rule.message)
    resolved = _condition("ResolvedRefs", now, generation, reason="ResolvedRefs")
    references = route["spec"].get("parentRefs") or []
    return {"parents": [{"parentRef": parent, "controllerName": CONTROLLER, "conditions": [accepted, resolved]} for parent in references]}


def gateway_status(gateway: Json, rule: Rule, now: str) -> Json | None:
    generation, status = gateway["metadata"]["generation"], gateway.get("status") or {}
    if status.get("addresses") and _answers(status, generation, rule, "Programmed"):
        return None
    refused = rule.outcome is Outcome.REFUSED
    accepted = _condition("Accepted", now, generation, not refused, message=rule.message)
    programmed = _condition("Programmed", now, generation, not refused, message=rule.message)
    kinds = [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}]
    listeners = [{"name": listener["name"], "attachedRoutes": 0, "supportedKinds": kinds, "conditions": [programmed]}
                 for listener in gateway["spec"]["listeners"]]
    return {"addresses": [{"type": "IPAddress", "value": GATEWAY_ADDRESS}], "conditions": [accepted, programmed], "listeners": listeners}


def leader_worker_set_status(group: Json, rule: Rule, now: str) -> Json | None:
    status, replicas = group.get("status") or {}, group["spec"].get("replicas", 1)
    ready = 0 if rule.outcome is Outcome.REFUSED else replicas
    if status.get("readyReplicas") == ready and status.get("replicas") == replicas and _says(status, "Available", rule):
        return None
    available = _condition("Available", now, ok=rule.outcome is not Outcome.REFUSED, message=rule.message)
    return {"replicas": replicas, "readyReplicas": ready, "updatedReplicas": replicas, "conditions": [available]}


def pool_status(pool: Json, rule: Rule, now: str) -> Json | None:
    """Accepted by the one gateway there is. The older version of the API spells the list in the singular."""
    field = "parent" if pool["apiVersion"].endswith("/v1alpha2") else "parents"
    generation, parents = pool["metadata"]["generation"], (pool.get("status") or {}).get(field) or []
    if parents and all(_says(parent, "Accepted", rule) for parent in parents):
        return None
    refused = rule.outcome is Outcome.REFUSED
    gateway = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "kserve-ingress-gateway", "namespace": "kserve"}
    accepted = _condition("Accepted", now, generation, not refused, "NotSupportedByParent" if refused else "Accepted", rule.message)
    return {field: [{"parentRef": gateway, "conditions": [accepted, _condition("ResolvedRefs", now, generation, reason="ResolvedRefs")]}]}


def scaled_object_status(scaled: Json, rule: Rule, now: str) -> Json | None:
    """KEDA is silent unless a rule names it: most tests run without it."""
    if rule.kind != "ScaledObject" or _says(scaled.get("status") or {}, "Ready", rule):
        return None
    ok = rule.outcome is not Outcome.REFUSED
    return {"conditions": [_condition("Ready", now, None, ok, "ScaledObjectReady" if ok else "ScaledObjectCheckFailed", rule.message)]}


def _answers(holder: Json, generation: int, rule: Rule, kind: str = "Accepted") -> bool:
    conditions = holder.get("conditions") or []
    return all(condition.get("observedGeneration") == generation for condition in conditions) and _says(holder, kind, rule)


def _says(status: Json, kind: str, rule: Rule) -> bool:
    """Whether a status has the verdict that the rule wants."""
    wanted = "False" if rule.outcome is Outcome.REFUSED else "True"
    return any(condition["type"] == kind and condition["status"] == wanted for condition in status.get("conditions") or [])


def _condition(kind: str, now: str, generation: int | None = None, ok: bool = True, reason: str = REASON, message: str = "") -> Json:
    observed = {"observedGeneration": generation} if generation is not None else {}
    return {"type": kind, "status": "True" if ok else "False", "lastTransitionTime": now, "reason": reason, "message": message, **observed}
