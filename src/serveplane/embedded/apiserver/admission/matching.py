"""Which webhooks a write concerns: rules, scope, namespace and object selectors, match policy."""

from typing import TYPE_CHECKING

from serveplane.embedded.apiserver.resources import Resource
from serveplane.embedded.store import Key
from serveplane.objects import Json, selectors

if TYPE_CHECKING:
    from serveplane.embedded.apiserver.core import Core
    from serveplane.embedded.apiserver.writing import Write

EXEMPT_GROUP = "admissionregistration.k8s.io"


def matched_resource(core: "Core", webhook: Json, write: "Write", operation: str) -> Resource | None:
    """The resource version the webhook wants to see, or nothing if the write is none of its business."""
    if write.resource.group == EXEMPT_GROUP and write.resource.kind.endswith("WebhookConfiguration"):
        return None
    if not _selected(core, webhook, write):
        return None
    for rule in webhook.get("rules") or ():
        if _rule_matches(rule, write.resource, write.subresource, operation):
            return write.resource
    if webhook.get("matchPolicy", "Equivalent") == "Exact":
        return None
    others = [
        one
        for one in core.registry.in_group(write.resource.group)
        if one.plural == write.resource.plural and one is not write.resource
    ]
    for other in others:
        if any(_rule_matches(rule, other, write.subresource, operation) for rule in webhook.get("rules") or ()):
            return other
    return None


def _rule_matches(rule: Json, resource: Resource, subresource: str, operation: str) -> bool:
    if not ({operation, "*"} & set(rule.get("operations") or ())):
        return False
    if not ({resource.group, "*"} & set(rule.get("apiGroups") or ())) or not (
        {resource.version, "*"} & set(rule.get("apiVersions") or ())
    ):
        return False
    scope = rule.get("scope") or "*"
    if scope != "*" and (scope == "Namespaced") != (resource.namespaced or False):
        return False
    return any(_names_resource(name, resource.plural, subresource) for name in rule.get("resources") or ())


def _names_resource(name: str, plural: str, subresource: str) -> bool:
    """`pods`, `pods/status`, `pods/*`, `*`, `*/status`, `*/*`."""
    wanted, _, sub = name.partition("/")
    if wanted not in ("*", plural):
        return False
    return sub == "*" or sub == subresource


def _selected(core: "Core", webhook: Json, write: "Write") -> bool:
    namespaced, wanted = webhook.get("namespaceSelector") or {}, webhook.get("objectSelector") or {}
    if namespaced and not _namespace_selected(core, namespaced, write):
        return False
    if not wanted:
        return True
    selector = selectors.from_selector(wanted)
    return any(
        selector.matches((value["metadata"].get("labels") if value else None) or {})
        for value in (write.value, write.live)
        if value
    )


def _namespace_selected(core: "Core", selector: Json, write: "Write") -> bool:
    value = write.value or write.live
    if write.resource.bucket == "namespaces":
        return selectors.from_selector(selector).matches(value["metadata"].get("labels") or {})
    namespace = value["metadata"].get("namespace", "")
    if not namespace:
        return True  # cluster-scoped objects are never left out by a namespace selector
    record = core.store.get("namespaces", Key("", namespace))
    return record is not None and selectors.from_selector(selector).matches(record.labels)
