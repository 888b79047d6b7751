"""Regenerate the embedded API server's tables from the sources Kubernetes publishes as Go modules.

    python scripts/apiserver_tables.py GOMODCACHE/k8s.io/kubernetes@v1.34.4

Facts only: which resources exist (published discovery), what kubectl explain shows (published OpenAPI) and the
protobuf field numbers (published .proto files). Alpha and beta versions are left out, as a real server does by default.
"""

import json
import lzma
import re
import sys
from pathlib import Path

DATA = Path(__file__).parent.parent / "src/serveplane/embedded/apiserver/data"
LEFT_OUT = {
    "apiregistration.k8s.io",
    "internal.apiserver.k8s.io",
    "storagemigration.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "certificates.k8s.io",
}
LEFT_OUT_VERSIONS = {("autoscaling", "v1")}
GROUP_ORDER = [
    "",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
]
FIELD = re.compile(
    r"^\s*(repeated\s+|optional\s+|required\s+)?(map<\s*([\w.]+)\s*,\s*([\w.]+)\s*>|[\w.]+)\s+(\w+)\s*=\s*(\d+)\s*(\[.*\])?;"
)


def main() -> None:
    source = Path(sys.argv[1])
    DATA.mkdir(exist_ok=True)
    resources = sorted(_resources(source / "api/discovery"), key=lambda r: (GROUP_ORDER.index(r["group"]), r["plural"]))
    (DATA / "resources.json").write_text(json.dumps(resources, separators=(",", ":")))
    (DATA / "openapi.json.xz").write_bytes(
        lzma.compress(json.dumps(_definitions(source), separators=(",", ":")).encode(), preset=9)
    )
    (DATA / "protobuf.json.xz").write_bytes(
        lzma.compress(json.dumps(_messages(source), separators=(",", ":")).encode(), preset=9)
    )


def _resources(folder: Path):
    for path in sorted(folder.glob("api*__v*.json")):
        listing = json.loads(path.read_text())
        group, _, version = listing["groupVersion"].rpartition("/")
        if re.search("alpha|beta", version) or group in LEFT_OUT or (group, version) in LEFT_OUT_VERSIONS:
            continue
        found = {}
        for entry in listing["resources"]:
            name, _, subresource = entry["name"].partition("/")
            if not subresource:
                found[name] = {
                    "group": group,
                    "version": version,
                    "plural": name,
                    "singular": entry["singularName"],
                    "kind": entry["kind"],
                    "namespaced": entry["namespaced"],
                    "short": entry.get("shortNames", []),
                    "categories": entry.get("categories", []),
                    "verbs": entry["verbs"],
                    "subresources": {},
                }
            else:
                found[name]["subresources"][subresource] = {
                    "kind": entry["kind"],
                    "verbs": entry["verbs"],
                    "group": entry.get("group", group),
                    "version": entry.get("version", version),
                }
        yield from found.values()


def _definitions(source: Path):
    """Every published schema, by its OpenAPI v3 name, with descriptions."""
    found = {}
    for path in sorted((source / "api/openapi-spec/v3").glob("*.json")):
        found.update(json.loads(path.read_text()).get("components", {}).get("schemas", {}))
    return dict(sorted(found.items()))


def _messages(source: Path):
    """Protobuf messages by full name: field number -> [JSON name, type, how]. `how` is '' one, '*' repeated, 'm' map."""
    found = {}
    for root in ("api", "apimachinery", "apiextensions-apiserver"):
        for path in sorted(_module(source, root).rglob("generated.proto")):
            if not re.search("alpha|beta", str(path)):
                found.update(_messages_of(path))
    return found


def _module(source: Path, root: str) -> Path:
    """The library beside `k8s.io/kubernetes` in Go's module cache: v0.34.4 goes with v1.34.4."""
    return source.parent / f"{root}@v0.{source.name.split('@v1.')[1]}"


def _messages_of(path: Path):
    found, package, message = {}, "", None
    for line in path.read_text().splitlines():
        if match := re.match(r"package ([\w.]+);", line):
            package = match[1]
        elif match := re.match(r"\s*message (\w+)", line):
            message = found.setdefault(f"{package}.{match[1]}", {})
        elif message is not None and not line.strip().startswith("//") and (match := FIELD.match(line)):
            kind, how = (
                (match[4], "m") if match[3] else (match[2], "*" if (match[1] or "").strip() == "repeated" else "")
            )
            full = (
                kind
                if "." not in kind and kind[0].islower()
                else kind.lstrip(".")
                if "." in kind
                else f"{package}.{kind}"
            )
            message[match[6]] = [match[5], full, how]
    return found


if __name__ == "__main__":
    main()
