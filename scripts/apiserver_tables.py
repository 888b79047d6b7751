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
LEFT_OUT_VERSIONS: set[tuple[str, str]] = set()
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
    (DATA / "gotypes.json").write_text(json.dumps(_go_types(source), separators=(",", ":")))
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


# --- Go types: which fields are pointers, which are left out when empty. The published OpenAPI does not say so.

STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.S | re.M)
ALIAS = re.compile(r"^type (\w+) =? ?([\w.\[\]*]+)$", re.M)
MEMBER = re.compile(r"^\t(?:(\w+)\s+)?([\w.\[\]*]+)\s+`([^`]*)`", re.M)
SCALARS = {
    "string": "s",
    "bool": "b",
    "int32": "i",
    "int64": "I",
    "int": "I",
    "float64": "f",
    "[]byte": "y",
    "byte": "y",
    "int16": "i",
    "uint32": "i",
}
SPECIAL = {
    "resource.Quantity": "q",
    "intstr.IntOrString": "x",
    "metav1.Time": "t",
    "metav1.MicroTime": "T",
    "metav1.Duration": "d",
    "runtime.RawExtension": "a",
    "runtime.Object": "a",
    "types.UID": "s",
    "meta.v1.FieldsV1": "a",
    "apiextensions.v1.JSON": "a",
    "meta.v1.Time": "t",
    "meta.v1.MicroTime": "T",
    "meta.v1.Duration": "d",
    "apiextensions.v1.JSONSchemaProps": "@apiextensions.v1.JSONSchemaProps",
    "apiextensions.v1.JSONSchemaPropsOrBool": "a",
    "apiextensions.v1.JSONSchemaPropsOrArray": "a",
    "apiextensions.v1.JSONSchemaPropsOrStringArray": "a",
}
IMPORTS = {
    "metav1": "meta.v1",
    "v1": "core.v1",
    "corev1": "core.v1",
    "apiv1": "core.v1",
    "authenticationv1": "authentication.v1",
}


def _go_types(source: Path):
    """Struct name -> JSON field -> 'flags:type'. Flags: p pointer, o omitempty, z omitzero, i inlined."""
    texts = dict(_go_sources(source))
    aliases = {
        f"{package}.{name}": (package, kind) for package, text in texts.items() for name, kind in ALIAS.findall(text)
    }
    found = {}
    for package, text in texts.items():
        for name, body in STRUCT.findall(text):
            fields = {}
            for member, kind, tag in MEMBER.findall(body):
                label = re.search(r'json:"([^"]*)"', tag)
                if not label or label[1] == "-":
                    continue
                json_name, *options = label[1].split(",")
                flags = (
                    "p" * kind.startswith("*")
                    + "o" * ("omitempty" in options)
                    + "z" * ("omitzero" in options)
                    + "i" * ("inline" in options)
                )
                fields[json_name or member or kind.split(".")[-1]] = (
                    f"{flags}:{_go_type(kind.lstrip('*'), package, aliases)}"
                )
            found[f"{package}.{name}"] = fields
    return {name: {field: _resolved(kind, found) for field, kind in fields.items()} for name, fields in found.items()}


def _resolved(kind: str, known) -> str:
    """`v1` is the core package in some files and the meta package in others; structs without fields are anything."""
    flags, at, name = kind.partition("@")
    if not at or name in known:
        return kind
    other = name.replace("core.v1.", "meta.v1.")
    return f"{flags}@{other}" if other in known else f"{flags}a"


def _go_sources(source: Path):
    for root, pattern in (
        ("api", "*/v*/types.go"),
        ("apimachinery", "pkg/apis/meta/v1/types.go"),
        ("apiextensions-apiserver", "pkg/apis/apiextensions/v1/types*.go"),
    ):
        grouped = {}
        for path in sorted(_module(source, root).glob(pattern)):
            version = path.parent.name
            if not re.search("alpha|beta", version):
                grouped.setdefault(f"{path.parent.parent.name}.{version}", []).append(path.read_text())
        for package, texts in grouped.items():
            yield package, "\n".join(texts)


def _go_type(kind: str, package: str, aliases) -> str:
    kind = kind.lstrip("*")
    if kind in SCALARS:
        return SCALARS[kind]
    if kind.startswith("[]"):
        return "[" + _go_type(kind[2:], package, aliases)
    if match := re.match(r"map\[[\w.]+\](.*)", kind):
        return "{" + _go_type(match[1], package, aliases)
    if kind in SPECIAL:
        return SPECIAL[kind]
    prefix, _, name = kind.rpartition(".")
    full = f"{IMPORTS.get(prefix, prefix) if prefix else package}.{name}"
    if full in SPECIAL:
        return SPECIAL[full]
    if full in aliases:
        return _go_type(aliases[full][1], aliases[full][0], aliases)
    return "@" + full


if __name__ == "__main__":
    main()
