"""Writes the table of Kubernetes' own types from its published OpenAPI v3 documents.

usage: kubernetes_types.py FOLDER   (FOLDER: api/openapi-spec/v3 of the k8s.io/kubernetes module, version 1.34)

Descriptions, formats nobody checks and unstable versions are left out, which turns 11 MB into a file that loads in milliseconds.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent.parent / "src/serveplane/objects/data/kubernetes.json"
STABLE = re.compile(r"apis?__(?:.*__)?v\d+_openapi\.json$")
KEPT = ("type", "format", "required", "enum", "default", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type", "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "x-kubernetes-unions",
        "x-kubernetes-preserve-unknown-fields")  # fmt: skip


def short(name: str) -> str:
    """`io.k8s.api.core.v1.Container` is long and repeated thousands of times; `core.v1.Container` says as much."""
    name = name.rsplit("/", 1)[-1]
    for prefix in ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apimachinery.pkg.", "io.k8s.apiextensions-apiserver.pkg.apis.",
                   "io.k8s.kube-aggregator.pkg.apis."):  # fmt: skip
        name = name.removeprefix(prefix)
    return name


def compact(node: dict[str, Any]) -> dict[str, Any]:
    """One schema without its prose; a reference wrapped in `allOf` (only there to carry a default) is unwrapped."""
    out = {key.removeprefix("x-kubernetes-"): node[key] for key in KEPT if key in node}
    reference = node.get("$ref") or next((part["$ref"] for part in node.get("allOf", []) if "$ref" in part), None)
    if reference:
        out["ref"] = short(reference)
    if "default" in out and not out["default"]:
        del out["default"]  # Go's zero value, not a default that anybody applies
    if "properties" in node:
        out["properties"] = {name: compact(child) for name, child in node["properties"].items()}
    for key, to in (("items", "items"), ("additionalProperties", "values")):
        if isinstance(node.get(key), dict):
            out[to] = compact(node[key])
    return out


def resources(paths: dict[str, Any]) -> dict[str, Any]:
    """`apps/v1 Deployment` -> plural, scope and subresources, read off the paths."""
    found: dict[str, Any] = {}
    for path, operations in paths.items():
        match = re.fullmatch(r"/(api/v1|apis/[^/]+/[^/]+)(/namespaces/\{namespace\})?/([a-z]+)/\{name\}(?:/([a-z]+))?", path)
        if not match:
            continue
        version, namespaced, plural, sub = match[1].split("/", 1)[1], bool(match[2]), match[3], match[4]
        gvks = (operation.get("x-kubernetes-group-version-kind") for operation in operations.values() if isinstance(operation, dict))
        gvk = next(filter(None, gvks), None)
        if sub:
            found.setdefault((version, plural), {}).setdefault("subresources", []).append(sub)
        elif gvk:
            found.setdefault((version, plural), {}).update(kind=gvk["kind"], namespaced=namespaced)
    named = ((version, plural, entry) for (version, plural), entry in found.items() if "kind" in entry)
    return {
        f"{version} {entry['kind']}": {
            "plural": plural, "namespaced": entry["namespaced"], "subresources": sorted(entry.get("subresources", []))
        }
        for version, plural, entry in named
    }  # fmt: skip


def main(folder: Path) -> None:
    types: dict[str, Any] = {}
    kinds: dict[str, Any] = {}
    for document in sorted(path for path in folder.iterdir() if STABLE.search(path.name)):
        content = json.loads(document.read_text())
        plurals = resources(content["paths"])
        for name, schema in content["components"]["schemas"].items():
            types[short(name)] = compact(schema)
            for gvk in schema.get("x-kubernetes-group-version-kind", []):
                version = f"{gvk['group']}/{gvk['version']}" if gvk["group"] else gvk["version"]
                if "properties" in schema and name.rsplit(".", 1)[-1] == gvk["kind"] and "items" not in schema["properties"]:
                    kinds[f"{version} {gvk['kind']}"] = {"type": short(name)}
        for key, entry in plurals.items():
            kinds.setdefault(key, {}).update(entry)
    types["api.resource.Quantity"] = {"format": "quantity"}  # published as "string or number" without a name for it
    kinds = {key: entry for key, entry in kinds.items() if "type" in entry and not key.endswith(("DeleteOptions", "WatchEvent"))}
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(json.dumps({"version": "1.34", "types": types, "kinds": kinds}, separators=(",", ":"), sort_keys=True) + "\n")
    print(f"{TABLE.name}: {len(types)} types, {len(kinds)} kinds, {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
