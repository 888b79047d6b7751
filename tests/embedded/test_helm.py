"""Unmodified Helm: a chart made here is installed, upgraded, rolled back and uninstalled."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.conftest import NUMBERS
from tests.embedded.servers import Embedded
from tests.kit.testbed import Unavailable, program

pytestmark = pytest.mark.testbed
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gears.chart.example.com}
spec:
  group: chart.example.com
  scope: Namespaced
  names: {plural: gears, singular: gear, kind: Gear}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {teeth: {type: integer}}}}}}
"""
OBJECTS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-settings
  labels: {app.kubernetes.io/managed-by: {{ .Release.Service }}}
data:
  colour: {{ .Values.colour | quote }}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {selector: {app: {{ .Release.Name }}}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: c, image: "nginx:{{ .Values.tag }}"}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: {{ .Release.Name }}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
---
apiVersion: chart.example.com/v1
kind: Gear
metadata: {name: {{ .Release.Name }}}
spec: {teeth: {{ .Values.teeth }}}
{{- if .Values.extra }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-extra}
{{- end }}
{{- if not (.Capabilities.APIVersions.Has "apps/v1/Deployment") }}
{{ fail "this server says it has no Deployments" }}
{{- end }}
"""
HOOK = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-hook
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: before-hook-creation}
data: {revision: "{{ .Release.Revision }}"}
"""


@pytest.fixture(scope="module")
def helm_program() -> Path:
    try:
        return program("helm")
    except Unavailable as reason:
        pytest.skip(f"there is no Helm here: {reason}")


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chart")
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text('colour: red\nreplicas: 1\ntag: "1"\nteeth: 12\nextra: true\n')
    for name, text in {
        "templates/objects.yaml": OBJECTS,
        "templates/hook.yaml": HOOK,
        "crds/gears.yaml": DEFINITION,
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


class Helm:
    """Helm in a namespace of its own."""

    def __init__(self, place: Path, server: Embedded, namespace: str) -> None:
        self._place = place
        self._server = server
        self._namespace = namespace
        self.api = server.api()

    def __call__(self, *words: str, fails: bool = False) -> str:
        command = [str(self._place), "--kubeconfig", self._server.kubeconfig, "-n", self._namespace, *words]
        home = str(self._server.folder / "helm")
        where = {"HOME": home, "HELM_CACHE_HOME": home, "HELM_CONFIG_HOME": home, "HELM_DATA_HOME": home}
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=where)
        assert (done.returncode != 0) == fails, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout + (done.stderr if fails else "")

    def get(self, path: str, group: str = "/api/v1") -> Any:
        answer = self.api.call("GET", f"{group}/namespaces/{self._namespace}/{path}")
        return answer.value if answer.status == 200 else None


@pytest.fixture
def helm(helm_program: Path, embedded: Embedded) -> Helm:
    return Helm(helm_program, embedded, f"helm-{next(NUMBERS)}")


@pytest.mark.parametrize("way", ["--server-side=true", "--server-side=false"])
def test_the_life_of_a_release(helm: Helm, chart: Path, way: str) -> None:
    """Helm applies on the server, or (as before version 4) merges on its own side."""
    gears, apps = "/apis/chart.example.com/v1", "/apis/apps/v1"
    helm("install", "small", str(chart), "--create-namespace", way)
    assert helm.get("configmaps/small-settings")["data"] == {"colour": "red"}
    assert helm.get("gears/small", gears)["spec"] == {"teeth": 12}
    assert helm.get("configmaps/small-hook")["data"] == {"revision": "1"}
    assert "still in use" in helm("install", "small", str(chart), fails=True)

    changes = ["colour=blue", "replicas=3", "teeth=24", "extra=false"]
    helm("upgrade", "small", str(chart), way, *(word for change in changes for word in ("--set", change)))
    assert helm.get("configmaps/small-settings")["data"] == {"colour": "blue"}
    assert helm.get("deployments/small", apps)["spec"]["replicas"] == 3
    assert helm.get("gears/small", gears)["spec"] == {"teeth": 24}
    assert helm.get("configmaps/small-hook")["data"] == {"revision": "2"}
    assert helm.get("configmaps/small-extra") is None

    helm("rollback", "small", "1", way)
    assert helm.get("deployments/small", apps)["spec"]["replicas"] == 1
    assert helm.get("configmaps/small-extra") is not None
    assert [one["status"] for one in json.loads(helm("history", "small", "-o", "json"))] == [
        "superseded",
        "superseded",
        "deployed",
    ]
    assert json.loads(helm("list", "-o", "json"))[0]["revision"] == "3"
    assert 'colour: "red"' in helm("get", "manifest", "small")

    helm("uninstall", "small", "--wait")
    for path, group in (
        ("configmaps/small-settings", "/api/v1"),
        ("services/small", "/api/v1"),
        ("deployments/small", apps),
        ("gears/small", gears),
    ):
        assert helm.get(path, group) is None
    assert json.loads(helm("list", "-o", "json")) == []


def test_what_the_server_refuses_fails_the_release(helm: Helm, chart: Path) -> None:
    assert "spec.teeth" in helm(
        "install", "wrong", str(chart), "--create-namespace", "--set", "teeth=many", fails=True
    )
    assert [(one["name"], one["status"]) for one in json.loads(helm("list", "-o", "json"))] == [
        ("wrong", "failed")
    ]
    helm("uninstall", "wrong")


def test_an_atomic_install_leaves_nothing(helm: Helm, chart: Path) -> None:
    """Nobody runs Deployments here, so waiting for them ends in a rollback."""
    helm("install", "never", str(chart), "--create-namespace", "--rollback-on-failure", "--timeout", "2s", fails=True)
    assert helm.get("configmaps/never-settings") is None
    assert json.loads(helm("list", "-o", "json")) == []
