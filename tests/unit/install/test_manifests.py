"""What is generated from `config/` is up to date, and what `config/` says holds together."""

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from serveplane.cli.manifests import config_folder, objects
from serveplane.managers.options import GRACE_SECONDS
from serveplane.objects import Json, yamlio

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
import bootstrap  # noqa: E402
import charts  # noqa: E402


def test_the_bundle_is_what_its_folders_hold() -> None:
    assert (config_folder() / "bootstrap/configmap.yaml").read_text() == bootstrap.text(config_folder())


def test_the_chart_is_what_its_script_writes() -> None:
    stored = {str(path.relative_to(charts.CHART)): path.read_text() for folder in ("templates", "files")
              for path in (charts.CHART / folder).rglob("*.yaml")}  # fmt: skip
    wanted = charts.chart()
    assert {name for name in stored.keys() | wanted.keys() if stored.get(name) != wanted.get(name)} == set()


@functools.cache
def installed() -> list[Json]:
    """Read once: two thirds of a megabyte of YAML."""
    return objects()


def by_key(found: list[Json]) -> dict[tuple[str, str], Json]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in found}


def containers() -> list[tuple[str, Json, Json]]:
    workloads = [obj for obj in [*installed(), *objects("localmodelnodes")] if obj["kind"] in ("Deployment", "DaemonSet")]
    pods = [(obj["metadata"]["name"], obj["spec"]["template"]["spec"]) for obj in workloads]
    return [(name, pod, container) for name, pod in pods for container in pod["containers"]]


@pytest.mark.parametrize(("name", "pod", "container"), containers(), ids=lambda value: value if isinstance(value, str) else "")
def test_programs_run_without_privileges(name: str, pod: Json, container: Json) -> None:
    security = container["securityContext"]
    assert (container["name"], container["command"]) == ("manager", ["/manager"])
    assert security["readOnlyRootFilesystem"] is security["runAsNonRoot"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_a_stop_ends_before_the_pod_is_killed() -> None:
    pod = by_key(installed())["Deployment", "kserve-controller-manager"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > GRACE_SECONDS


def test_nobody_is_given_everything() -> None:
    roles = [obj for obj in installed() if obj["kind"] in ("Role", "ClusterRole")]
    rules = [rule for role in roles for rule in role["rules"]]
    assert rules
    assert [rule for rule in rules if "*" in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]] == []
    assert [rule for rule in rules if {"escalate", "bind", "impersonate"} & set(rule["verbs"])] == []
    assert [rule["verbs"] for rule in rules if "secrets" in rule["resources"] and "resourceNames" not in rule] == [["get"]]


def test_the_pod_webhook_never_selects_the_managers_own_namespace() -> None:
    hooks = by_key(installed())["MutatingWebhookConfiguration", "inferenceservice.serving.kserve.io"]["webhooks"]
    selector = next(hook for hook in hooks if hook["name"].endswith("pod-mutator"))["namespaceSelector"]
    assert {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kserve"]} in selector["matchExpressions"]


def test_the_agent_is_as_the_design_gives_it() -> None:
    (agent,) = [obj for obj in objects("localmodelnodes") if obj["kind"] == "DaemonSet"]
    pod = agent["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    names = {agent["metadata"]["name"], agent["metadata"]["labels"]["control-plane"], pod["serviceAccountName"]}
    assert names == {"kserve-localmodelnode-agent"}
    assert pod["nodeSelector"] == {"kserve/localmodel": "worker"}
    assert {env["name"]: env["valueFrom"]["fieldRef"]["fieldPath"] for env in container["env"]} == {
        "POD_NAMESPACE": "metadata.namespace", "NODE_NAME": "spec.nodeName"}  # fmt: skip
    assert container["resources"]["limits"] == {"cpu": "100m", "memory": "300Mi"}
    assert pod["volumes"] == [{"name": "models", "hostPath": {"path": "/models", "type": "DirectoryOrCreate"}}]
    assert container["volumeMounts"] == [{"name": "models", "mountPath": "/mnt/models"}]


def test_the_command_prints_all_of_it() -> None:
    printed = subprocess.run([sys.executable, "-m", "serveplane.cli.main", "manifests"], capture_output=True, text=True, check=True).stdout
    assert by_key(yamlio.load_all(printed)) == by_key(installed())
