"""The Helm chart, installed, upgraded and removed on an empty cluster."""

import pytest

from tests.kit.testbed import Testbed
from tests.kit.waiting import soon
from tests.testbed.install.conftest import Run

pytestmark = pytest.mark.testbed
CHART = ("charts/serveplane", "-n", "kserve", "--create-namespace")
RUNTIMES = "/apis/serving.kserve.io/v1alpha1/namespaces/default/servingruntimes"


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
