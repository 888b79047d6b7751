"""A predictor over several nodes: which GPUs decide how many there are."""
from typing import Any

import pytest

from serveplane.api.inferenceservice.components import components
from serveplane.api.inferenceservice.types import InferenceService
from serveplane.api.model import read
from serveplane.api.servingruntime import ServingRuntime
from serveplane.render.facts import Facts
from serveplane.render.multinode import Sizes
from serveplane.render.workloads import predictor_workload, select_runtime
from serveplane.settings import parse

Json = dict[str, Any]
RUNTIME = read(ServingRuntime, {"metadata": {"name": "group"}, "spec": {
    "supportedModelFormats": [{"name": "llm", "autoSelect": True}],
    "containers": [{"name": "kserve-container", "image": "head:1"}],
    "workerSpec": {"containers": [{"name": "worker-container", "image": "worker:1"}]}}})
FACTS = Facts(settings=parse({}), cluster_runtimes=[RUNTIME])
GPU = "nvidia.com/gpu"


def sizes(head: Json, worker: Json) -> Sizes:
    model = {"modelFormat": {"name": "llm"}, "storageUri": "pvc://w", "resources": head}
    workers = {"pipelineParallelSize": 3, "tensorParallelSize": 2, "containers": [{"name": "worker-container", "resources": worker}]}
    service = read(InferenceService, {"metadata": {"name": "big", "namespace": "ml", "generation": 1},
                                      "spec": {"predictor": {"model": model, "workerSpec": workers}}})
    component = components(service)[0]
    workload, _ = predictor_workload(service, component, select_runtime(component, FACTS), FACTS)
    assert workload.multi_node is not None
    return workload.multi_node.sizes


@pytest.mark.parametrize(("head", "worker", "expected"), [
    ({"requests": {GPU: "2"}, "limits": {GPU: "2"}}, {"requests": {GPU: "2"}, "limits": {GPU: "2"}}, Sizes(3, 2, 2)),
    ({"requests": {GPU: "2"}}, {"limits": {GPU: "2"}}, Sizes(5, 2, 1)),
    ({"limits": {GPU: "2"}}, {}, Sizes(6, 1, 1)),
])
def test_requests_are_counted_and_limits_alone_are_not(head: Json, worker: Json, expected: Sizes) -> None:
    assert sizes(head, worker) == expected
