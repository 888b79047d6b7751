"""Pods as admitted here against pods as KServe was observed to admit them."""
import copy
from pathlib import Path

import pytest

from serveplane.api.inferenceservice import inference_service
from serveplane.objects import Json
from serveplane.render.pods.mutate import mutated
from tests.golden.comparison import differences
from tests.golden.observed import ROOT, Case, cases
from tests.golden.test_observed_children import rendered

FOLDERS = [*cases("isvc-standard"), *cases("pods"), *cases("trainedmodel"), *cases("localmodel")]
WITH_PODS = [folder for folder in FOLDERS if (folder / "pods.yaml").exists() and (folder / "children.yaml").exists()]

# The API server dropped what its feature gates do not know.
DROPPED = ("pod-image-volume", "image-volume")
HELD_BACK = "stays-predictor"   # keeps a former runtime by annotation, which only the controller knows
PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def created(template: Json) -> Json:
    """A pod as its ReplicaSet asks for it: the template with the API server's defaults on probes and resources."""
    pod = copy.deepcopy({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]})
    pod["metadata"] = {key: value for key, value in pod["metadata"].items() if key in ("labels", "annotations", "namespace")}
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        if "limits" in resources:
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
        for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
            if probe in container:
                container[probe] = {**PROBE_DEFAULTS, **container[probe]}
                if "httpGet" in container[probe]:
                    container[probe]["httpGet"].setdefault("scheme", "HTTP")
    return pod


@pytest.mark.skipif(not ROOT.is_dir(), reason=f"no observed cases at {ROOT}; set SERVEPLANE_GOLDEN")
@pytest.mark.parametrize("folder", WITH_PODS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_pods_are_admitted_as_kserve_admits_them(folder: Path) -> None:
    case = Case(folder)
    facts = case.facts()
    services = {item["metadata"]["name"]: inference_service(item) for item in case.services}
    theirs = {pod["metadata"]["labels"]["app"]: pod for pod in case.pods if "app" in pod["metadata"].get("labels", {})}
    problems = []
    for (kind, name), child in rendered(case).items():
        wanted = theirs.get(f"isvc.{name}")
        if kind != "Deployment" or wanted is None or name == HELD_BACK:
            continue
        service = services[wanted["metadata"]["labels"]["serving.kserve.io/inferenceservice"]]
        ours = mutated(created(child["spec"]["template"]), folder.name, service, facts)
        assert mutated(ours, folder.name, service, facts) == ours   # the API server may call again
        problems += [f"{name}: {line}" for line in differences(ours, wanted) if not _is_dropped(name, line)]
    assert problems == []


def _is_dropped(name: str, line: str) -> bool:
    return name.removesuffix("-predictor") in DROPPED and ("volumes" in line or "volumeMounts" in line)
