"""The minimal definitions: the API server knows nothing of pods, so the webhooks check them."""

from typing import Any

import pytest

from serveplane.api.mode import Mode
from serveplane.api.policy import Policy
from tests.kit.api import Api, Refused
from tests.testbed.api.conftest import MINIMAL_KINDS
from tests.testbed.api.hooks import Hooks
from tests.unit.api.test_samples import ALL

pytestmark = pytest.mark.testbed
Json = dict[str, Any]
SAMPLES = {file: obj for file, obj in ALL.items() if obj["kind"] in MINIMAL_KINDS}


def service(container: Json) -> Json:
    predictor = {"containers": [{"name": "kserve-container", "image": "a"} | container]}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "mine"},
        "spec": {"predictor": predictor},
    }


@pytest.mark.parametrize(
    ("container", "told"),
    [
        ({"env": "none"}, "containers\\[0\\].env: must be a list"),
        ({"resources": {"limits": {"cpu": "lots"}}}, "limits.cpu: must be a quantity"),
        ({"ports": [{}]}, "ports\\[0\\].containerPort: is required"),
        ({"livenessProbe": {"periodSeconds": "often"}}, "periodSeconds: must be a whole number"),
    ],
)
async def test_a_wrong_pod_part_is_refused(
    container: Json, told: str, minimal_hooks: Hooks, api: Api, namespace: str
) -> None:
    with pytest.raises(Refused, match=told):
        await api.create(service(container), namespace)


async def test_samples_apply(minimal_hooks: Hooks, api: Api, namespace: str) -> None:
    minimal_hooks.objects, minimal_hooks.policy = list(SAMPLES.values()), Policy(default_mode=Mode.STANDARD)
    for obj in SAMPLES.values():
        await api.apply(obj, namespace)
    minimal_hooks.objects = []
    for obj in SAMPLES.values():
        await api.delete(obj, namespace)
