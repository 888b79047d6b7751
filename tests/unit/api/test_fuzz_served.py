"""Generated and mutated objects over TLS to the webhook process: every review is answered, never with a 500, never late."""

import asyncio
import base64
import datetime
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from serveplane.api.llminferenceservice.conversion import NEWER, OLDER
from serveplane.http.client import Client as HttpClient
from serveplane.http.tls import ClientTls
from serveplane.kube import keypairs
from serveplane.kube.webhook_process import WebhookProcess
from serveplane.objects.jsonpatch import json_patched
from tests.counts import COUNTS, SEED
from tests.unit.api.generated import KINDS, an_object, broken

Json = dict[str, Any]
NAME = "hooks.ns.svc"
AT_ONCE = 16
SECONDS = 10.0
"""What the API server would wait."""


@asynccontextmanager
async def served() -> AsyncIterator[tuple[WebhookProcess, HttpClient]]:
    now, life = datetime.datetime.now(datetime.UTC), datetime.timedelta(hours=1)
    authority = keypairs.authority("test", now, life)
    process = WebhookProcess("tests.unit.api.answering", host="127.0.0.1", port=0)
    running = asyncio.create_task(process.run())
    try:
        await asyncio.wait_for(process.use(keypairs.server_pair(authority, [NAME], now, life)), 60)
        async with HttpClient(tls=ClientTls(ca_data=authority.certificate.decode(), server_name=NAME)) as client:
            yield process, client
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def admission(obj: Any, old: Any, operation: str) -> Json:
    request = {"uid": "u", "operation": operation, "name": "a", "namespace": "ns", "object": obj, "oldObject": old, "userInfo": {}}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def conversion(obj: Any) -> Json:
    wanted = OLDER if isinstance(obj, dict) and obj.get("apiVersion") == NEWER else NEWER
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": wanted, "objects": [obj]},
    }


class Reviewer:
    """Sends reviews as the API server does, and looks at every answer."""

    def __init__(self, process: WebhookProcess, client: HttpClient) -> None:
        self._process, self._client = process, client
        self.told: Counter[str] = Counter()

    async def ask(self, path: str, review: Json) -> Json:
        answer = await self._client.request(
            "POST", f"{self._process.url}{path}?timeout=10s", headers={"content-type": "application/json"},
            body=msgspec.json.encode(review), timeout=SECONDS)  # fmt: skip
        body = await answer.read()
        assert answer.status == 200, (answer.status, body, review)
        response: Json = msgspec.json.decode(body)["response"]
        assert response["uid"] == "u"
        assert (response.get("status") or {}).get("code", 0) < 500, (response, review)
        self.told[f"{path} {response.get('allowed', (response.get('result') or {}).get('status'))}"] += 1
        return response

    async def review(self, obj: Any, old: Any = None) -> None:
        """Defaults first, then the verdict on what they made of it, as an API server would ask."""
        response = await self.ask("/mutate", admission(obj, old, "UPDATE" if old else "CREATE"))
        patched = obj
        if "patch" in response:
            patched = json_patched(obj, msgspec.json.decode(base64.b64decode(response["patch"])))
        await self.ask("/validate", admission(patched, old, "UPDATE" if old else "CREATE"))

    async def all_about(self, version: str, kind: str, seed: str) -> None:
        """Three objects: one generated, the same broken, and the same broken again as it would be deleted and converted."""
        random = Random(seed)
        obj = an_object(version, kind, random)
        await self.review(obj)
        await self.review(broken(obj, random), obj)
        odd = broken(obj, random)
        await self.ask("/validate", admission(None, odd, "DELETE"))
        if kind.startswith("LLM"):
            await self.ask("/convert", conversion(obj))
            await self.ask("/convert", conversion(odd))


@pytest.mark.stress
async def test_the_webhook_process_answers_everything() -> None:
    async with served() as (process, client):
        reviewer, pid, places = Reviewer(process, client), process.pid, asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            version, kind = KINDS[number % len(KINDS)]
            async with places:
                await reviewer.all_about(version, kind, f"{SEED} {number}")

        await asyncio.gather(*map(one, range(COUNTS.fuzzed_objects // 3 + 1)))
        assert process.pid == pid, "it had to be replaced"
    print(dict(reviewer.told))
    assert {"/mutate True", "/validate True", "/validate False", "/convert Success"} <= set(reviewer.told)
