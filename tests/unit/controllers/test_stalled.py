"""Pods that wait for a Secret or a ServiceAccount are tried again when it has come, and not before."""
from typing import Any

import pytest

from serveplane.controllers.inferenceservice.credentials import SECRET, SERVICE_ACCOUNT
from serveplane.controllers.inferenceservice.stalled import MARK, Want, stalled, try_again, want_of
from serveplane.kube.kind import Kind
from tests.unit.kube.clocks import FakeClock

Json = dict[str, Any]
WEBHOOK = 'admission webhook "inferenceservice.kserve-webhook-server.pod-mutator" denied the request: '


def deployment(words: str, status: str = "True") -> Json:
    failure = {"type": "ReplicaFailure", "status": status, "reason": "FailedCreate", "message": words}
    metadata = {"name": "iris-predictor", "namespace": "ml", "uid": "u"}
    return {"kind": "Deployment", "metadata": metadata, "status": {"conditions": [failure]}}


@pytest.mark.parametrize(("words", "want"), [
    (f"{WEBHOOK}there is no secret s3-login", Want(SECRET, "s3-login")),
    (f"{WEBHOOK}the secret storage-config has no key minio", Want(SECRET, "storage-config", "minio")),
    ('pods "x" is forbidden: error looking up service account ml/late: serviceaccount "late" not found', Want(SERVICE_ACCOUNT, "late")),
    ('pods "x" is forbidden: exceeded quota: none', None),
    ("", None),
])
def test_the_refusal_says_what_is_missing(words: str, want: Want | None) -> None:
    assert want_of(deployment(words)) == want
    assert want_of(deployment(words, status="False")) is None


class Cluster:
    def __init__(self, **objects: Json) -> None:
        self.objects, self.marked = objects, list[str]()

    async def find(self, kind: Kind, name: str, namespace: str) -> Json | None:
        return self.objects.get(name)

    async def patch(self, kind: Kind, name: str, namespace: str, body: Json, **_how: Any) -> None:
        assert body["metadata"]["uid"] == "u"
        assert list(body["metadata"]["annotations"]) == [MARK]
        self.marked.append(name)


@pytest.mark.parametrize(("objects", "marked"), [({}, []), ({"storage-config": {"data": {"other": ""}}}, []),
                                                ({"storage-config": {"data": {"minio": ""}}}, ["iris-predictor"])])
async def test_it_is_tried_again_when_it_has_come(objects: Json, marked: list[str]) -> None:
    cluster = Cluster(**objects)
    waiting = stalled([deployment("the secret storage-config has no key minio"), deployment("exceeded quota")])
    await try_again(cluster, waiting, FakeClock())  # type: ignore[arg-type]
    assert cluster.marked == marked
