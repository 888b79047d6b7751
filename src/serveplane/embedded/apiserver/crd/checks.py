"""Whether a CustomResourceDefinition is one: names, versions, structural schemas. And which of its rules cannot run here."""

import re
from collections.abc import Iterator
from typing import Any

from serveplane.embedded.apiserver.crd.schema import Node
from serveplane.embedded.apiserver.errors import Cause
from serveplane.objects import Json, names

REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
_VERSION = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def problems(value: Json, live: Json) -> Iterator[Cause]:
    spec = value["spec"]
    group, plural = spec.get("group") or "", (spec.get("names") or {}).get("plural") or ""
    if not group:
        yield Cause(REQUIRED, "Required value", "spec.group")
    elif not names.is_dns_subdomain(group) or "." not in group:
        yield Cause(INVALID, f'Invalid value: "{group}": should be a domain with at least one dot', "spec.group")
    name = value["metadata"].get("name", "")
    if name != f"{plural}.{group}":
        yield Cause(INVALID, f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group', "metadata.name")
    for field in ("plural", "kind", "singular", "listKind"):
        if not spec["names"].get(field):
            yield Cause(REQUIRED, "Required value", f"spec.names.{field}")
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        shown = spec.get("scope") or ""
        reason = Cause(
            "FieldValueNotSupported",
            f'Unsupported value: "{shown}": supported values: "Cluster", "Namespaced"',
            "spec.scope",
        )
        yield reason if shown else Cause(REQUIRED, "Required value", "spec.scope")
    yield from _versions(spec.get("versions") or [])
    yield from _conversion(spec.get("conversion") or {})
    if live:
        yield from _unchanged(spec, live["spec"])


def _versions(versions: list[Json]) -> Iterator[Cause]:
    if sum(bool(entry.get("storage")) for entry in versions) != 1:
        yield Cause(
            INVALID,
            "Invalid value: " + _listed(versions) + ": must have exactly one version marked as storage version",
            "spec.versions",
        )
    seen: set[str] = set()
    for index, entry in enumerate(versions):
        at, name = f"spec.versions[{index}]", entry.get("name") or ""
        if not _VERSION.fullmatch(name):
            yield Cause(
                INVALID,
                f"Invalid value: \"{name}\": a DNS-1035 label must consist of lower case alphanumeric characters or '-'",
                f"{at}.name",
            )
        if name in seen:
            yield Cause(INVALID, f'Invalid value: "{name}": must contain unique version names', f"{at}.name")
        seen.add(name)
        schema = (entry.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            yield Cause(REQUIRED, "Required value", f"{at}.schema.openAPIV3Schema")
            continue
        yield from _structural(schema, f"{at}.schema.openAPIV3Schema", root=True)


def _listed(versions: list[Json]) -> str:
    return str([entry.get("name") for entry in versions])


def _structural(schema: Any, at: str, root: bool = False) -> Iterator[Cause]:
    """Every place has a type, and is an object with fields or a map, not both."""
    if not isinstance(schema, dict):
        return
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not (free and not root):
        yield Cause(
            REQUIRED,
            "Required value: must not be empty" + (" at the root" if root else " for specified object fields"),
            f"{at}.type",
        )
    elif root and schema.get("type") != "object":
        yield Cause(INVALID, f'Invalid value: "{schema.get("type")}": must be object at the root', f"{at}.type")
    if schema.get("properties") and schema.get("additionalProperties"):
        yield Cause(
            "FieldValueForbidden",
            "Forbidden: additionalProperties and properties are mutual exclusive",
            f"{at}.additionalProperties",
        )
    if schema.get("type") == "array" and schema.get("items") is None:
        yield Cause(REQUIRED, "Required value: must be specified", f"{at}.items")
    if schema.get("x-kubernetes-list-type") == "map" and not schema.get("x-kubernetes-list-map-keys"):
        yield Cause(
            REQUIRED,
            "Required value: must not be empty if x-kubernetes-list-type is map",
            f"{at}.x-kubernetes-list-map-keys",
        )
    for name, child in (schema.get("properties") or {}).items():
        if root and name == "metadata":
            continue
        yield from _structural(child, f"{at}.properties[{name}]")
    yield from _structural(schema.get("items"), f"{at}.items")
    yield from _structural(schema.get("additionalProperties"), f"{at}.additionalProperties")


def _conversion(conversion: Json) -> Iterator[Cause]:
    strategy = conversion.get("strategy") or "None"
    if strategy not in ("None", "Webhook"):
        yield Cause(
            "FieldValueNotSupported",
            f'Unsupported value: "{strategy}": supported values: "None", "Webhook"',
            "spec.conversion.strategy",
        )
    if strategy == "Webhook":
        webhook = conversion.get("webhook") or {}
        if not webhook.get("clientConfig"):
            yield Cause(
                REQUIRED,
                "Required value: required when strategy is set to Webhook",
                "spec.conversion.webhook.clientConfig",
            )
        if not webhook.get("conversionReviewVersions"):
            yield Cause(REQUIRED, "Required value", "spec.conversion.webhook.conversionReviewVersions")


def _unchanged(spec: Json, old: Json) -> Iterator[Cause]:
    for path in ("group", "scope"):
        if spec.get(path) != old.get(path):
            yield Cause(INVALID, f'Invalid value: "{spec.get(path)}": field is immutable', f"spec.{path}")
    for path in ("kind", "plural"):
        if spec["names"].get(path) != old["names"].get(path):
            yield Cause(
                INVALID, f'Invalid value: "{spec["names"].get(path)}": field is immutable', f"spec.names.{path}"
            )


def warnings(value: Json) -> Iterator[str]:
    """Rules of the definition that will not be run here, each with the reason."""
    for entry in value["spec"].get("versions") or ():
        schema = (entry.get("schema") or {}).get("openAPIV3Schema")
        if not schema or "x-kubernetes-validations" not in str(schema):
            continue
        for path, rule in Node(schema, root=True).all_rules():
            if rule.trouble:
                yield f"{entry['name']}: the rule at {path or 'the root'} is not enforced here ({rule.trouble}): {rule.text.strip()[:200]}"
