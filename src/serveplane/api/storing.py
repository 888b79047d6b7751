"""What an API server makes of an object by its schema alone: unknown fields go, defaults come.

Used offline, where no API server does it: `serveplane plan` must render what would be stored.
"""

from typing import Any

from serveplane.objects import Json

ALWAYS = ("apiVersion", "kind", "metadata")


def pruned(obj: Json, schema: Json) -> Json:
    """The object without fields that its schema does not know; metadata is kept whole."""
    result: Json = _pruned(obj, schema)
    return result | {key: obj[key] for key in ALWAYS if key in obj}


def _pruned(value: Any, schema: Json) -> Any:
    if isinstance(value, dict):
        properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
        keep = schema.get("x-kubernetes-preserve-unknown-fields", not schema.get("type"))
        known = {name: properties.get(name, rest) for name in value}
        return {
            name: _pruned(item, known[name]) if isinstance(known[name], dict) else item
            for name, item in value.items()
            if known[name] is not None or keep
        }
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [_pruned(item, schema["items"]) for item in value]
    return value


def with_defaults(value: Any, schema: Json) -> Any:
    """The value with the schema's defaults wherever something they belong to is there."""
    if isinstance(value, dict):
        properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
        filled = {
            name: with_defaults(item, properties.get(name) or rest or {}) if item is not None else item
            for name, item in value.items()
        }
        missing = {
            name: child["default"]
            for name, child in properties.items()
            if "default" in child and filled.get(name) is None
        }
        return filled | missing
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [with_defaults(item, schema["items"]) for item in value]
    return value
