"""AdmissionReviews and ConversionReviews, good and bad, through the real TLS server."""

import base64
import datetime
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from serveplane.http.client import Client as HttpClient
from serveplane.http.tls import ClientTls
from serveplane.kube import keypairs
from serveplane.kube.admission import AdmissionRequest, Refusal, mutating, validating
from serveplane.kube.webhook import WebhookServer
from tests.kit.verdicts import Problem, Verdict

Json = dict[str, Any]
NOW = datetime.datetime.now(datetime.UTC)
LIFE = datetime.timedelta(hours=1)
NAME = "hooks.ns.svc"


def label(request: AdmissionRequest) -> Json:
    metadata = request.object["metadata"]
    return {**request.object, "metadata": {**metadata, "labels": {"by": request.user["username"]}}}


def judge(request: AdmissionRequest) -> Verdict:
    if request.name == "breaks":
        raise RuntimeError("a bug")
    if request.name == "refused":
        raise Refusal("not today")
    bad = tuple(Problem(f"spec.{name}", "is not wanted") for name in request.object.get("spec") or {})
    return Verdict(bad, ("w" * 300,))


def convert(obj: Json, desired: str) -> Json:
    if obj["spec"].get("cannot"):
        raise ValueError("it cannot be told in that version")
    return {**obj, "apiVersion": desired}


@pytest.fixture
async def hooks() -> AsyncIterator[tuple[WebhookServer, HttpClient]]:
    ca = keypairs.authority("test", NOW, LIFE)
    server = WebhookServer()
    server.use(keypairs.server_pair(ca, [NAME], NOW, LIFE))
    server.admit("/mutate", mutating(label))
    server.admit("/validate", validating(judge))
    server.convert("/convert", convert)
    await server.start(socket.create_server(("127.0.0.1", 0)))
    async with HttpClient(tls=ClientTls(ca_data=ca.certificate.decode(), server_name=NAME)) as client:
        yield server, client
    await server.stop()


async def post(
    hooks: tuple[WebhookServer, HttpClient], path: str, body: Json | bytes, kind: str = "application/json"
) -> tuple[int, Any]:
    server, client = hooks
    sent = body if isinstance(body, bytes) else msgspec.json.encode(body)
    response = await client.request("POST", f"{server.url}{path}?timeout=5s", headers={"content-type": kind}, body=sent)
    text = await response.read()
    return response.status, msgspec.json.decode(text) if text[:1] == b"{" else text.decode()


def review(version: str = "v1", name: str = "a", **spec: Any) -> Json:
    obj = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": name}, "spec": spec}
    request = {
        "uid": "u1",
        "operation": "CREATE",
        "kind": {"group": "x", "version": "v1", "kind": "X"},
        "name": name,
        "namespace": "ns",
        "resource": {"group": "x", "version": "v1", "resource": "xs"},
        "object": obj,
        "oldObject": None,
        "userInfo": {"username": "me"},
    }
    return {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "request": request}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_mutation_is_answered_as_its_own_few_operations(hooks: Any, version: str) -> None:
    status, answer = await post(hooks, "/mutate", review(version))
    assert (status, answer["apiVersion"], answer["response"]["uid"]) == (200, f"admission.k8s.io/{version}", "u1")
    patch = msgspec.json.decode(base64.b64decode(answer["response"]["patch"]))
    assert patch == [{"op": "add", "path": "/metadata/labels", "value": {"by": "me"}}]
    assert answer["response"]["patchType"] == "JSONPatch"


async def test_a_refusal_has_all_reasons_at_once(hooks: Any) -> None:
    _, answer = await post(hooks, "/validate", review(one=1, two=2))
    response = answer["response"]
    assert response["allowed"] is False
    assert [cause["field"] for cause in response["status"]["details"]["causes"]] == ["spec.one", "spec.two"]
    assert response["status"]["message"] == "spec.one: is not wanted; spec.two: is not wanted"
    assert [len(warning) for warning in response["warnings"]] == [256]


async def test_trouble_in_a_handler_is_a_refusal_that_says_so(hooks: Any) -> None:
    _, answer = await post(hooks, "/validate", review(name="breaks"))
    assert (answer["response"]["allowed"], answer["response"]["status"]["code"]) == (False, 500)
    _, answer = await post(hooks, "/validate", review(name="refused"))
    assert answer["response"]["status"]["message"] == "not today"


async def test_conversion(hooks: Any) -> None:
    def question(*objects: Json) -> Json:
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": {"uid": "c", "desiredAPIVersion": "x/v2", "objects": list(objects)},
        }

    plain, impossible = {"apiVersion": "x/v1", "spec": {}}, {"apiVersion": "x/v1", "spec": {"cannot": True}}
    _, answer = await post(hooks, "/convert", question(plain))
    assert (answer["response"]["result"]["status"], answer["response"]["convertedObjects"][0]["apiVersion"]) == (
        "Success",
        "x/v2",
    )
    _, answer = await post(hooks, "/convert", question(plain, impossible))
    assert (answer["response"]["result"]["status"], answer["response"]["convertedObjects"]) == ("Failed", [])


@pytest.mark.parametrize(
    ("path", "body", "kind", "status"),
    [
        ("/validate", b"{", "application/json", 400),
        ("/validate", b"[]", "application/json", 400),
        ("/validate", b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v9"}', "application/json", 400),
        (
            "/validate",
            b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":5}}',
            "application/json",
            400,
        ),
        ("/validate", b"[" * 100_000, "application/json", 400),
        ("/convert", b'{"kind":"AdmissionReview"}', "application/json", 400),
        ("/nowhere", b"{}", "application/json", 404),
        ("/validate", b"{}", "text/plain", 415),
        ("/validate", b" " * (17 << 20), "application/json", 413),
    ],
)
async def test_what_is_no_review_is_refused(hooks: Any, path: str, body: bytes, kind: str, status: int) -> None:
    assert (await post(hooks, path, body, kind))[0] == status


async def test_odd_values_within_a_review_do_no_harm(hooks: Any) -> None:
    odd = review()
    odd["request"] |= {"object": None, "kind": "X", "userInfo": [], "name": None, "operation": None}
    _, answer = await post(hooks, "/validate", odd)
    assert answer["response"]["allowed"] is True


async def test_another_certificate_is_used_from_the_next_connection_on(hooks: Any) -> None:
    server, _ = hooks
    other = keypairs.authority("other", NOW, LIFE)
    server.use(keypairs.server_pair(other, [NAME], NOW, LIFE))
    async with HttpClient(tls=ClientTls(ca_data=other.certificate.decode(), server_name=NAME)) as client:
        assert (await post((server, client), "/mutate", review()))[0] == 200
