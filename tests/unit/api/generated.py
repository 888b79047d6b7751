"""Objects made up from a schema: valid ones, and ones that somebody has broken."""

import copy
from random import Random
from typing import Any

from serveplane.api.admission import SCHEMAS

Json = dict[str, Any]
WORDS = (
    "a",
    "iris",
    "kserve-container",
    "v1",
    "v2",
    "s3://models/iris",
    "pvc://claim/x",
    "{{.Name}}",
    "",
    "ü",
    "x" * 70,
)
QUANTITIES = ("1", "100m", "1Gi", 2, "0", "2e3")
HOSTILE = (
    None,
    "",
    [],
    {},
    -1,
    2**70,
    1e308,
    True,
    "\0",
    "..",
    "{{",
    "x" * 5000,
    [[[]]],
    {"a": {"b": None}},
    "1Gi1",
    [None],
)
KINDS = sorted(SCHEMAS)


def value_of(schema: Json, random: Random, depth: int = 0, share: float = 0.15) -> Any:
    """A value that the schema accepts; the deeper, the fewer optional fields it has."""
    if "enum" in schema:
        return random.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            return _object(schema, random, depth, share)
        case "array":
            length = max(schema.get("minItems", 0), random.choice((0, 1, 1, 2)))
            return [value_of(schema["items"], random, depth + 1, share) for _ in range(length)]
        case "string":
            return _string(schema, random)
        case "integer":
            return random.randint(schema.get("minimum", 0), min(schema.get("maximum", 9), 100))
        case "number":
            return random.random()
        case "boolean":
            return random.random() < 0.5
    if schema.get("format") == "quantity":
        return random.choice(QUANTITIES)
    return random.choice((1, "50%", "http"))


def _object(schema: Json, random: Random, depth: int, share: float) -> Json:
    required = schema.get("required", ())
    chance = share / (1 + depth / 4)
    result = {
        name: value_of(child, random, depth + 1, share)
        for name, child in schema.get("properties", {}).items()
        if name in required or random.random() < chance
    }
    if isinstance(schema.get("additionalProperties"), dict):
        for key in random.sample(("a", "b/c", "serving.kserve.io/stop"), random.randint(0, 2)):
            result[key] = value_of(schema["additionalProperties"], random, depth + 1, share)
    return result


def _string(schema: Json, random: Random) -> str:
    if schema.get("pattern", "").startswith("^/"):
        return "/mnt/x"
    if schema.get("format") == "date-time":
        return "2026-01-01T00:00:00Z"
    if "pattern" in schema or schema.get("minLength"):
        return "10" if "\\d" in schema.get("pattern", "") else "abc"
    return random.choice(WORDS)[: schema.get("maxLength", 5000)]


def an_object(version: str, kind: str, random: Random) -> Json:
    """An object of a kind that its schema accepts."""
    schema = SCHEMAS[version, kind]()
    made = value_of(schema, random, share=random.choice((0.05, 0.2, 0.5)))
    metadata = {"name": random.choice(("iris", "a-b", "Bad_Name", "x" * 64)), "namespace": "ns"}
    if random.random() < 0.5:
        keys = ("serving.kserve.io/deploymentMode", "serving.kserve.io/autoscalerClass", "modelFormat")
        metadata["annotations"] = {key: random.choice(("Standard", "Serverless", "keda", "none", "?")) for key in keys}
    return (
        made
        | {"apiVersion": version, "kind": kind, "metadata": metadata}
        | ({"spec": value_of(schema["properties"]["spec"], random, share=0.2)} if "spec" not in made else {})
    )


def broken(obj: Json, random: Random) -> Json:
    """The object with some values replaced by what no schema asked for."""
    result = copy.deepcopy(obj)
    for _ in range(random.randint(1, 4)):
        places = list(_places(result))
        holder, key = random.choice(places)
        holder[key] = copy.deepcopy(random.choice(HOSTILE))
    return result


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from _places(value[key])
    elif isinstance(value, list):
        for index in range(len(value)):
            yield value, index
            yield from _places(value[index])
