"""Unmodified kubectl against the embedded server: what people type, and what they get."""

import json
import os
import shutil
import subprocess
import time

import pytest

from tests.embedded.conftest import install
from tests.embedded.servers import Embedded

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
    },
}


class Shell:
    """A namespace of its own, and kubectl in it."""

    def __init__(self, server: Embedded, namespace: str) -> None:
        self.server = server
        self.namespace = namespace

    def __call__(
        self, *words: str, stdin: object = None, fails: bool = False, env: dict[str, str] | None = None
    ) -> str:
        text = None if stdin is None else stdin if isinstance(stdin, str) else json.dumps(stdin)
        command = [
            str(KUBECTL),
            "--kubeconfig",
            self.server.kubeconfig,
            "--cache-dir",
            str(self.server.folder / "cache"),
            "-n",
            self.namespace,
            *words,
        ]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=180, env={**os.environ, **(env or {})}
        )
        assert (done.returncode != 0) == fails, f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def kubectl(embedded: Embedded, request: pytest.FixtureRequest) -> Shell:
    name = request.node.name.replace("_", "-").lower()[:50]
    shell = Shell(embedded, name)
    shell("create", "namespace", name)
    return shell


def test_create_get_and_delete(kubectl: Shell) -> None:
    kubectl("create", "configmap", "a", "--from-literal=x=y")  # kubectl sends this one as protobuf
    assert kubectl("get", "configmap", "a", "-o", "jsonpath={.data.x}") == "y"
    kubectl("create", "secret", "generic", "s", "--from-literal=p=q")
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.p}") == "cQ=="
    assert "a      1" in kubectl("get", "configmaps")
    assert kubectl.namespace in kubectl("get", "configmaps", "-A")
    assert "not found" in kubectl("get", "configmap", "ghost", fails=True)
    kubectl("delete", "configmap", "a")
    assert "not found" in kubectl("get", "configmap", "a", fails=True)


def test_apply_from_the_client_and_from_the_server(kubectl: Shell) -> None:
    assert "created" in kubectl("apply", "-f", "-", stdin=WEB)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=WEB)
    changed = {**WEB, "spec": {**WEB["spec"], "replicas": 3}}
    assert "configured" in kubectl("apply", "-f", "-", stdin=changed)
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"
    assert "serverside-applied" in kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        "-f",
        "-",
        stdin={**changed, "metadata": {"name": "web", "labels": {"a": "b"}}},
    )
    other = {**WEB, "spec": {**WEB["spec"], "replicas": 5}}
    assert "conflict" in kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=other, fails=True)
    assert "serverside-applied" in kubectl(
        "apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", stdin=other
    )


def test_strict_validation_names_the_field(kubectl: Shell) -> None:
    wrong = {**WEB, "spec": {**WEB["spec"], "replicass": 3}}
    assert 'unknown field "spec.replicass"' in kubectl("apply", "-f", "-", stdin=wrong, fails=True)
    assert "is invalid" in kubectl(
        "apply",
        "-f",
        "-",
        stdin={**WEB, "spec": {**WEB["spec"], "selector": {"matchLabels": {"app": "x"}}}},
        fails=True,
    )


def test_diff_shows_what_would_change(kubectl: Shell) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    assert kubectl("diff", "-f", "-", stdin=WEB) == ""
    assert "+  replicas: 4" in kubectl(
        "diff", "-f", "-", stdin={**WEB, "spec": {**WEB["spec"], "replicas": 4}}, fails=True
    )


def test_label_annotate_patch_edit_scale(kubectl: Shell) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("label", "deployment", "web", "tier=front")
    kubectl("annotate", "deployment", "web", "note=yes")
    kubectl(
        "patch",
        "deployment",
        "web",
        "-p",
        '{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:2"}]}}}}',
    )
    kubectl("patch", "deployment", "web", "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":2}]')
    kubectl("scale", "deployment", "web", "--replicas=4")
    kubectl("edit", "deployment", "web", env={"EDITOR": "sed -i s/nginx:2/nginx:3/"})
    found = json.loads(kubectl("get", "deployment", "web", "-o", "json"))
    assert found["spec"]["replicas"] == 4
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:3"
    assert found["metadata"]["labels"] == {"tier": "front"}
    assert "front" in kubectl("get", "deployments", "-l", "tier=front", "-o", "wide", "--show-labels")


def test_describe_and_explain(kubectl: Shell) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    assert "StrategyType:           RollingUpdate" in kubectl("describe", "deployment", "web")
    assert "maxSurge" in kubectl("explain", "deployment.spec.strategy.rollingUpdate")
    install(kubectl.server.api())
    time.sleep(0.2)
    assert "size" in kubectl("explain", "widget.spec")


def test_wait_and_watch(kubectl: Shell) -> None:
    kubectl("create", "configmap", "w", "--from-literal=a=b")
    kubectl("wait", "--for=jsonpath={.data.a}=b", "configmap/w", "--timeout=5s")
    command = [
        str(KUBECTL),
        "--kubeconfig",
        kubectl.server.kubeconfig,
        "-n",
        kubectl.namespace,
        "get",
        "configmaps",
        "-w",
        "--no-headers",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().startswith("w")
        kubectl("create", "configmap", "later")
        assert watch.stdout.readline().startswith("later")
        watch.terminate()
    kubectl("delete", "configmap", "w", "--wait=true")


def test_rights_and_tokens(kubectl: Shell) -> None:
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    kubectl("create", "serviceaccount", "worker")
    token = kubectl("create", "token", "worker").strip()
    assert token.count(".") == 2
    who = f"system:serviceaccount:{kubectl.namespace}:worker"
    assert "no" in kubectl("auth", "can-i", "list", "configmaps", "--as", who, fails=True)
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    kubectl("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={kubectl.namespace}:worker")
    assert kubectl("auth", "can-i", "list", "configmaps", "--as", who).strip() == "yes"
    assert who in kubectl("auth", "whoami", "--as", who)


def test_api_resources_and_custom_columns(kubectl: Shell) -> None:
    install(kubectl.server.api())
    listed = kubectl("api-resources")
    assert "widgets" in listed
    assert "deployments" in listed
    kubectl(
        "apply",
        "-f",
        "-",
        stdin={"apiVersion": "suite.example.com/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": {"size": 3}},
    )
    assert kubectl("get", "wi").split() == ["NAME", "SIZE", "x", "3"]
    kubectl("scale", "widget", "x", "--replicas=5")
    assert kubectl("get", "widget", "x", "-o", "jsonpath={.spec.size}") == "5"


def test_a_namespace_goes_with_everything_in_it(kubectl: Shell) -> None:
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("create", "configmap", "a")
    kubectl("delete", "namespace", kubectl.namespace, "--timeout=20s")
    assert "not found" in kubectl("get", "namespace", kubectl.namespace, fails=True)
