"""The Helm chart, installed, upgraded and removed on an empty cluster."""

import pytest

from serveplane.objects import yamlio
from tests.kit.testbed import Testbed
from tests.kit.waiting import soon
from tests.testbed.install.conftest import Run

pytestmark = pytest.mark.testbed
CHART = ("charts/serveplane", "-n", "kserve", "--create-namespace")
RUNTIMES = "/apis/serving.kserve.io/v1alpha1/namespaces/default/servingruntimes"


def test_values_named_like_kserves_go_where_they_say(helm: Run) -> None:
    given = {"labels": "a", "annotations": "b", "podLabels": "c", "podAnnotations": "d",
             "serviceAnnotations": "e", "webhookServiceAnnotations": "f"}  # fmt: skip
    words = [f"kserve.controller.{name}.mark={mark}" for name, mark in given.items()]
    told = helm("template", "kserve", "charts/serveplane", "-n", "kserve", "--set", ",".join([*words, "kserve.crds=false"])).stdout
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in yamlio.load_all(told)}
    deployment = found["Deployment", "kserve-controller-manager"]
    template = deployment["spec"]["template"]
    marks = {name: obj["metadata"].get(field, {}).get("mark") for name, obj, field in (
        ("labels", deployment, "labels"), ("annotations", deployment, "annotations"),
        ("podLabels", template, "labels"), ("podAnnotations", template, "annotations"),
        ("serviceAnnotations", found["Service", "kserve-controller-manager-service"], "annotations"),
        ("webhookServiceAnnotations", found["Service", "kserve-webhook-server-service"], "annotations"))}  # fmt: skip
    assert marks == given
    assert not [kind for kind, _ in found if kind == "CustomResourceDefinition"]


def test_uninstalling_deletes_no_users_object(empty: Testbed, helm: Run, kubectl: Run) -> None:
    helm("install", "kserve", *CHART)
    soon(lambda: "condition met" in kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=20s").stdout)
    # No manager runs here, so its webhooks are out of the way while the user's object is made.
    kubectl("delete", "validatingwebhookconfiguration,mutatingwebhookconfiguration", "-l", "app.kubernetes.io/part-of=kserve")
    container = {"name": "kserve-container", "image": "x"}
    empty.call("POST", RUNTIMES, {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "metadata": {"name": "mine"},
                                  "spec": {"containers": [container], "supportedModelFormats": [{"name": "x"}]}})  # fmt: skip
    helm("upgrade", "kserve", *CHART, "--set", "kserve.controller.replicas=2")
    assert kubectl("get", "deploy", "-n", "kserve", "kserve-controller-manager", "-o", "jsonpath={.spec.replicas}").stdout == "2"
    helm("uninstall", "kserve", "-n", "kserve")
    assert kubectl("get", "deploy", "-n", "kserve", "-o", "name").stdout == ""
    assert [obj["metadata"]["name"] for obj in empty.call("GET", RUNTIMES)["items"]] == ["mine"]
