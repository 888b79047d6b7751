"""Every endpoint of a running server under requests that are wrong in every way: no 500, no crash, no memory kept."""
import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serveplane.dataplane.modelserver.rpc import messages
from serveplane.dataplane.modelserver.tensors import InferInput, InferRequest
from serveplane.http import Client
from tests.counts import COUNTS, SEED
from tests.e2e.dataplane.processes import Serving, serving
from tests.unit.dataplane import models

pytestmark = pytest.mark.stress
AT_ONCE = 8
KEPT_MEGABYTES = 48.0      # what allocators may keep; a leak of one body per request would be far above
ALLOWED = {200, 400, 404, 405, 413, 501, 503}
NAMES = ("iris", "near", "code", "none", "%00", "..%2F..%2Fetc", "é".encode().hex(), "a" * 300, "iris%3Apredict")
PATHS = ("/", "/metrics", "/v1/models", "/v1/models/{}", "/v1/models/{}:predict", "/v1/models/{}:explain", "/v2", "/v2/health/live",
         "/v2/health/ready", "/v2/models", "/v2/models/{}", "/v2/models/{}/ready", "/v2/models/{}/infer", "/v2/models/{}/versions/1/infer",
         "/v2/models/{}/versions/1", "/v2/repository/index", "/v2/repository/models/{}/load",
         "/v2/repository/models/none/unload", "/nowhere/{}")
ODD = (None, True, False, "", "x", "NaN", 0, -1, 1.5, 1e308, -1e308, 2**63, 2**64, 10**400, [], {}, [[]], [None], {"a": 1},
       [[1, 2], [3]], "é\0")
TYPES = ("application/json", "application/octet-stream", "text/plain", "application/cloudevents+json", "", "application/x-protobuf")
DATATYPES = ("FP32", "FP64", "FP16", "INT8", "INT64", "UINT8", "UINT64", "BOOL", "BYTES", "FP99", "")
METHODS = ("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer", "RepositoryIndex",
           "RepositoryModelLoad", "RepositoryModelUnload", "Nothing")


class Chaos:
    """Requests that are almost right, and some that are nothing at all."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def request(self) -> tuple[str, str, bytes, list[tuple[str, str]]]:
        chance = self._random
        weighty = chance.random() < 0.7
        path = chance.choice(PATHS[4:5] + PATHS[12:13] if weighty else PATHS).format(chance.choice(NAMES[:3] if weighty else NAMES))
        method = "POST" if weighty else chance.choice(("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"))
        body = self.body("infer" in path) if method in ("POST", "PUT", "PATCH") else b""
        return method, path + chance.choice(("", "", "?ready=true", "?%zz&=", "/")), body, list(self.headers(body))

    def headers(self, body: bytes) -> Iterator[tuple[str, str]]:
        chance = self._random
        yield "Content-Type", chance.choice(TYPES)
        if chance.random() < 0.15:
            lengths = ("", "-1", "0", "x", "9" * 30, str(len(body)), str(chance.randrange(len(body) + 1)))
            yield "Inference-Header-Content-Length", chance.choice(lengths)
        if chance.random() < 0.1:
            yield from ((f"ce-{name}", chance.choice(("", "1.0", "2.0", "x" * 100))) for name in ("specversion", "id", "source", "type"))
        if chance.random() < 0.1:
            yield chance.choice(("traceparent", "x-request-id", "b3")), chance.choice(("00-zz", "a" * 2000, "é"))

    def body(self, is_v2: bool) -> bytes:
        chance, kind = self._random, self._random.random()
        if kind < 0.05:
            return chance.randbytes(chance.randrange(200))
        if kind < 0.08:
            return b"[" * chance.choice((10, 2_000, 200_000))
        raw = json.dumps(self.v2() if is_v2 else self.v1()).encode()
        if kind < 0.35:
            return self.bent(raw)
        return raw + chance.randbytes(32) if kind < 0.4 else raw

    def bent(self, raw: bytes) -> bytes:
        """A few bytes changed, dropped or doubled."""
        chance, content = self._random, bytearray(raw)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(content)) if content else 0
            instead = (b"", b'"', b"[", b"]", b"{", b",", b"null", b"\xff", b"1e999", content[at:at + 5])
            content[at:at + chance.randrange(3)] = chance.choice(instead)
        return bytes(content)

    def v1(self) -> Any:
        chance = self._random
        rows: Any = [self.row(chance.choice((4, 4, 4, 4, 0, 3, 5))) for _ in range(chance.choice((1, 1, 2, 3, 0)))]
        key = chance.choice(("instances", "instances", "instances", "inputs", "else"))
        body = {key: rows if chance.random() < 0.8 else chance.choice(ODD)}
        if chance.random() < 0.05:
            body = {"specversion": chance.choice(ODD), "id": "1", "source": chance.choice(ODD), "type": "t", "data": body}
        return body if chance.random() < 0.95 else chance.choice(ODD)

    def row(self, width: int) -> list[Any]:
        chance = self._random
        return [chance.choice(ODD) if chance.random() < 0.05 else chance.uniform(0, 9) for _ in range(width)]

    def v2(self) -> Any:
        chance = self._random
        body: dict[str, Any] = {"inputs": [self.tensor() for _ in range(chance.choice((1, 1, 1, 1, 0, 2)))]}
        for name in ("id", "parameters", "outputs"):
            if chance.random() < 0.1:
                body[name] = chance.choice(ODD)
        if chance.random() < 0.1:
            body["outputs"] = [{"name": chance.choice(("output-0", "z")), "parameters": {"binary_data": chance.choice(ODD)}}]
        return body if chance.random() < 0.95 else chance.choice(ODD)

    def tensor(self) -> Any:
        chance = self._random
        tensor = {"name": "input-0", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
        if chance.random() < 0.6:
            name = chance.choice(list(tensor))
            tensor[name] = chance.choice(ODD)
        if chance.random() < 0.3:
            tensor["shape"] = [chance.choice((-1, 0, 1, 2, 4, 2**31, 2**63, 2**70)) for _ in range(chance.randrange(5))]
        if chance.random() < 0.3:
            tensor["datatype"] = chance.choice(DATATYPES)
        if chance.random() < 0.1:
            tensor["parameters"] = {"binary_data_size": chance.choice((0, 16, 32, -1, 2**40, None, "x"))}
        return tensor

    def message(self) -> bytes:
        """A call's bytes: a valid request bent, or noise."""
        chance = self._random
        tensor = InferInput("input-0", [1, 4], "FP32", np.arange(4, dtype=np.float32).reshape(1, 4))
        raw = messages.write_infer_request(InferRequest(chance.choice(("iris", "near", "none")), [tensor], "7", {"a": 1}))
        if chance.random() < 0.2:
            return chance.randbytes(chance.randrange(80))
        content = bytearray(raw)
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(content))
            content[at:at + chance.randrange(2)] = chance.randbytes(chance.randrange(3))
        return bytes(content)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    from sklearn.neighbors import KNeighborsClassifier
    folder = tmp_path_factory.mktemp("fuzz")
    models.save(models.classifier(), folder / "models" / "iris")
    models.save(KNeighborsClassifier().fit(*models.iris()), folder / "models" / "near")
    (folder / "models" / "code").mkdir()
    (folder / "models" / "code" / "model.py").write_text("def predict(rows):\n    return [str(row) for row in rows]\n")
    with serving(folder, "--model_dir", str(folder / "models"), "--max_body_bytes", str(8 << 20)) as server:
        yield server


def megabytes(server: Serving) -> float:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def test_rest(server: Serving) -> None:
    chaos = Chaos(SEED)
    asyncio.run(_flood(server, chaos, 300))   # what is allocated once is allocated now
    before = megabytes(server)
    seen = asyncio.run(_flood(server, chaos, COUNTS.fuzzed_objects * 4))
    assert seen[200] > COUNTS.fuzzed_objects // 10
    assert seen[400] > COUNTS.fuzzed_objects // 10
    assert megabytes(server) - before < KEPT_MEGABYTES
    assert server.post("/v1/models/iris:predict", {"instances": models.rows()}) == (200, {"predictions": [1, 1]})


async def _flood(server: Serving, chaos: Chaos, count: int) -> Counter[int]:
    seen: Counter[int] = Counter()
    async with Client() as client:
        async def worker() -> None:
            for _ in range(count // AT_ONCE):
                method, path, body, headers = chaos.request()
                response = await client.request(method, server.url + path, headers=headers, body=body, timeout=60)
                content = await response.read()
                assert response.status in ALLOWED, (method, path, headers, body[:500], content)
                seen[response.status] += 1
        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return seen


def test_many_large_bodies_at_once_take_bounded_memory(server: Serving) -> None:
    peak = asyncio.run(_press(server))
    assert peak < 1024
    assert server.post("/v1/models/near:predict", {"instances": models.rows()})[0] == 200


async def _press(server: Serving) -> float:
    """Far more than the server's room for bodies, slowly enough to be held all at once; the most memory it then took."""
    bodies = (b'{"instances": [[' + b"1," * (3 << 20) + b"1]]}", b'{"instances": "' + b"x" * (7 << 20) + b'"}', b"[" * (7 << 20),
              b"x" * (9 << 20))
    peak = 0.0
    async with Client() as client:
        async def ask(body: bytes) -> None:
            response = await client.request("POST", f"{server.url}/v1/models/iris:predict", body=body, timeout=120)
            await response.read()
            assert response.status in (400, 413, 503)
        asking = [asyncio.create_task(ask(bodies[number % len(bodies)])) for number in range(48)]
        while not all(task.done() for task in asking):
            peak = max(peak, megabytes(server))
            await asyncio.sleep(0.02)
        await asyncio.gather(*asking)
    return peak


def test_grpc(server: Serving) -> None:
    grpc = pytest.importorskip("grpc")
    chaos, before, seen = Chaos(SEED + 1), 0.0, Counter[str]()
    allowed = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "UNAVAILABLE"}
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        calls = [channel.unary_unary(f"/{messages.SERVICE}/{name}") for name in METHODS]
        for number in range(COUNTS.fuzzed_objects):
            raw, call = chaos.message(), calls[5] if number % 2 else calls[number // 2 % len(calls)]
            done = call.future(raw, timeout=60, wait_for_ready=True)
            done.exception()
            assert done.code().name in allowed, (done.details(), raw)
            seen[done.code().name] += 1
            before = before or (megabytes(server) if number == 100 else 0.0)
    assert seen["OK"] > 0
    assert megabytes(server) - before < KEPT_MEGABYTES
