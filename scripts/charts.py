"""Writes the Helm chart from `config/`: one template an object, with values put into the places listed here.

Only `Chart.yaml`, `values.yaml` and the tables below are written by hand. A test holds `helm template` with default values equal to
what kustomize makes of `config/default`.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from serveplane.cli.manifests import config_folder, files, objects
from serveplane.objects import Json, yamlio

CHART = Path(__file__).parent.parent / "charts" / "serveplane"
NAMESPACE = "kserve"
CONTROLLER = ".Values.kserve.controller"

# Where in which object a value goes. A text is put in as it is; a block is indented to where it stands.
TEXTS = {
    ("Deployment", "kserve-controller-manager"): {
        "spec.replicas": f"{{{{ {CONTROLLER}.replicas }}}}",
        "spec.template.spec.containers.0.image": f'"{{{{ {CONTROLLER}.image }}}}:{{{{ {CONTROLLER}.tag }}}}"',
        "spec.template.spec.containers.0.imagePullPolicy": f"{{{{ {CONTROLLER}.imagePullPolicy }}}}",
    },
}
BLOCKS = {
    ("Deployment", "kserve-controller-manager"): {
        "spec.template.spec.containers.0.resources": f"{CONTROLLER}.resources",
        "spec.template.spec.securityContext": f"{CONTROLLER}.securityContext",
        "spec.template.spec.containers.0.securityContext": f"{CONTROLLER}.containerSecurityContext",
    },
}
# Whole fields that are only there if the value is set.
OPTIONAL = {
    ("Deployment", "kserve-controller-manager"): {
        "metadata": {"annotations": f"{CONTROLLER}.annotations"},
        "spec.template.spec": {name: f"{CONTROLLER}.{name}" for name in
                               ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "imagePullSecrets")},
    },
    ("Service", "kserve-controller-manager-service"): {"metadata": {"annotations": f"{CONTROLLER}.serviceAnnotations"}},
    ("Service", "kserve-webhook-server-service"): {"metadata": {"annotations": f"{CONTROLLER}.webhookServiceAnnotations"}},
}  # fmt: skip
# Entries that a value adds to a map.
ADDED = {
    ("Deployment", "kserve-controller-manager"): {
        "metadata.labels": f"{CONTROLLER}.labels",
        "spec.template.metadata.labels": f"{CONTROLLER}.podLabels",
        "spec.template.metadata.annotations": f"{CONTROLLER}.podAnnotations",
    },
}
# Uninstalling deletes no user's objects.
DEFINITIONS = """{{- if .Values.kserve.crds }}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" }}
{{- $definition := $.Files.Get $path | fromYaml }}
{{- $annotations := merge (dict "helm.sh/resource-policy" "keep") ($definition.metadata.annotations | default dict) }}
---
{{ toYaml (set $definition "metadata" (set $definition.metadata "annotations" $annotations)) }}
{{- end }}
{{- end }}
"""
BUNDLE = """{{- if .Values.kserve.bootstrap }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: serveplane-bootstrap
  namespace: {{ .Release.Namespace }}
  labels:
    app.kubernetes.io/name: kserve-controller-manager
    app.kubernetes.io/part-of: kserve
data:
{{ (.Files.Glob "files/bootstrap/*.yaml").AsConfig | indent 2 }}
{{- end }}
"""


ELSEWHERE = ("Namespace", "CustomResourceDefinition")  # Helm makes the one; the other has a template of its own
COPIED = (("crds", "crd"), *(("bootstrap", folder) for folder in ("configmap", "runtimes", "storagecontainers")))


class Template:
    """An object's YAML with marks in it, and what each mark stands for."""

    def __init__(self, obj: Json) -> None:
        self.obj: Json = msgspec.json.decode(msgspec.json.encode(obj))  # a copy in which nothing is shared, as YAML's anchors share
        self.meaning: dict[str, str] = {}

    def mark(self, expression: str) -> str:
        mark = f"@@{len(self.meaning)}@@"
        self.meaning[mark] = expression
        return mark

    def text(self) -> str:
        out: list[str] = []
        for line in yamlio.dump(self.obj).splitlines():
            found = next((mark for mark in self.meaning if mark in line), None)
            out.append(self._filled(line, found) if found else line)
        return "\n".join(out) + "\n"

    def _filled(self, line: str, mark: str) -> str:
        expression, indent = self.meaning[mark], len(line) - len(line.lstrip())
        if expression.startswith("block "):
            key = line.split(":", 1)[0]
            return f"{key}:{{{{- toYaml {expression.removeprefix('block ')} | nindent {indent + 2} }}}}"
        if expression.startswith("optional "):
            name, value = expression.removeprefix("optional ").split(" ")
            lines = (f"{{{{- with {value} }}}}", f"{name}:{{{{- toYaml . | nindent {indent + 2} }}}}", "{{- end }}")
            return "\n".join(" " * indent + part for part in lines)
        if expression.startswith("added "):
            lines = (f"{{{{- with {expression.removeprefix('added ')} }}}}", f"{{{{- toYaml . | nindent {indent} }}}}", "{{- end }}")
            return "\n".join(" " * indent + part for part in lines)
        return line.replace(f"'{mark}'", expression).replace(mark, expression)


def template(obj: Json) -> str:
    made = Template(obj)
    key = (obj["kind"], obj["metadata"]["name"])
    for path, expression in TEXTS.get(key, {}).items():
        _put(made.obj, path, made.mark(expression))
    for path, value in BLOCKS.get(key, {}).items():
        _put(made.obj, path, made.mark(f"block {value}"))
    for path, fields in OPTIONAL.get(key, {}).items():
        for name, value in fields.items():
            _put(made.obj, f"{path}.{name}", made.mark(f"optional {name} {value}"))
    for path, value in ADDED.get(key, {}).items():
        _put(made.obj, f"{path}.{made.mark(f'added {value}')}", "")
    for holder, field in namespaces(made.obj):
        holder[field] = _in_list(holder[field], made)
    return made.text()


def _in_list(value: Any, made: Template) -> Any:
    mark = made.mark("{{ .Release.Namespace }}")
    return [mark] if isinstance(value, list) else mark


def namespaces(value: Any) -> Iterator[tuple[Any, str]]:
    """Every place that names the installation's namespace."""
    if isinstance(value, dict):
        for name, child in value.items():
            if (name == "namespace" and child == NAMESPACE) or (name == "values" and child == [NAMESPACE]):
                yield value, name
            else:
                yield from namespaces(child)
    elif isinstance(value, list):
        for child in value:
            yield from namespaces(child)


def _put(obj: Any, path: str, value: str) -> None:
    *way, last = path.split(".")
    for step in way:
        obj = obj[int(step)] if isinstance(obj, list) else obj[step]
    obj[last] = value


def chart() -> dict[str, str]:
    """Every generated file of the chart."""
    out = {"templates/bootstrap.yaml": BUNDLE, "templates/crds.yaml": DEFINITIONS}
    for obj in objects():
        kind, name = obj["kind"], obj["metadata"]["name"]
        if kind not in ELSEWHERE and name != "serveplane-bootstrap":
            out[f"templates/{kind.lower()}-{name}.yaml"] = template(obj)
    for target, folder in COPIED:
        out |= {f"files/{target}/{file.name}": file.read_text() for file in files(config_folder() / folder)}
    return out


def main() -> None:
    for folder in ("templates", "files"):
        shutil.rmtree(CHART / folder, ignore_errors=True)
    for name, text in chart().items():
        path = CHART / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
