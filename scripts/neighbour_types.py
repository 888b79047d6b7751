"""Writes the table of types that our LLM kinds take from the Gateway API and KEDA.

usage: neighbour_types.py GATEWAY_API KEDA   (folders of the Go modules; versions in VERSIONS)

Prose and CEL rules are left out: the owners' own definitions check the children that carry these parts.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).parent.parent / "src/serveplane/api/data/neighbours.json"
VERSIONS = "gateway-api 1.5, keda 2.18"
KEPT = ("type", "format", "required", "enum", "default", "pattern", "minimum", "maximum", "minLength", "maxLength",
        "minItems", "maxItems", "minProperties", "maxProperties")  # fmt: skip
MARKS = ("list-type", "list-map-keys", "map-type", "preserve-unknown-fields")
SOURCES = {
    "gateway.HTTPRouteSpec": (0, "config/crd/experimental/gateway.networking.k8s.io_httproutes.yaml", "v1", ("spec",)),
    "keda.Advanced": (1, "config/crd/bases/keda.sh_scaledobjects.yaml", "v1alpha1", ("spec", "advanced")),
    "keda.Fallback": (1, "config/crd/bases/keda.sh_scaledobjects.yaml", "v1alpha1", ("spec", "fallback")),
    "keda.Triggers": (1, "config/crd/bases/keda.sh_scaledobjects.yaml", "v1alpha1", ("spec", "triggers")),
}  # fmt: skip


def compact(node: dict[str, Any]) -> dict[str, Any]:
    """A structural schema in the form of the table of Kubernetes' own types."""
    out = {key: node[key] for key in KEPT if key in node} | {
        mark: node[f"x-kubernetes-{mark}"] for mark in MARKS if f"x-kubernetes-{mark}" in node
    }
    if node.get("x-kubernetes-int-or-string"):
        out["format"] = "quantity" if "pattern" in node else "int-or-string"
        out.pop("pattern", None)
    if "properties" in node:
        out["properties"] = {name: compact(child) for name, child in node["properties"].items()}
    for key, to in (("items", "items"), ("additionalProperties", "values")):
        if isinstance(node.get(key), dict):
            out[to] = compact(node[key])
    return out


def spec_of(file: Path, version: str, path: tuple[str, ...]) -> dict[str, Any]:
    definition = yaml.safe_load(file.read_text())
    found = next(item for item in definition["spec"]["versions"] if item["name"] == version)
    schema: dict[str, Any] = found["schema"]["openAPIV3Schema"]
    for step in path:
        schema = schema["properties"][step]
    return schema


def main(folders: list[Path]) -> None:
    types = {name: compact(spec_of(folders[index] / file, version, path)) for name, (index, file, version, path) in SOURCES.items()}
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(json.dumps({"versions": VERSIONS, "types": types}, separators=(",", ":"), sort_keys=True) + "\n")
    print(f"{TABLE.name}: {len(types)} types, {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:3]])
