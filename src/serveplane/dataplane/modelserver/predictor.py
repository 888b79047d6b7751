"""Asking the predictor, for transformers and explainers: V1 or V2 over REST, V2 over gRPC."""
from typing import Any, Protocol

import msgspec

from serveplane.clock import SYSTEM, Clock
from serveplane.dataplane.modelserver import v2
from serveplane.dataplane.modelserver.errors import InvalidInput, ServingError
from serveplane.dataplane.modelserver.tensors import InferRequest
from serveplane.dataplane.modelserver.v1 import json_bytes
from serveplane.http.client import Client
from serveplane.http.errors import ClientError

# What belongs to the request rather than to one hop: who asks (as KServe), correlation, and W3C or B3 trace context.
PASSED_ON = ("authorization", "x-request-id", "traceparent", "tracestate", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid",
             "x-b3-sampled", "x-b3-flags")


class Predictor(Protocol):
    async def predict(self, model: str, payload: Any, headers: Any) -> Any: ...

    async def explain(self, model: str, payload: Any, headers: Any) -> Any: ...

    async def is_ready(self) -> bool: ...

    async def close(self) -> None: ...


class PredictorFailed(ServingError):
    """The predictor refused or did not answer; its own status is passed on, so that a client's mistake stays a 400."""

    def __init__(self, message: str, status: int = 503) -> None:
        super().__init__(message)
        self.status = status


class RestPredictor:
    """A predictor over V1 or V2 REST, with retries while it cannot be reached."""

    def __init__(self, host: str, protocol: str = "v1", tls: bool = False, timeout: float = 600.0, retries: int = 0,
                 clock: Clock = SYSTEM) -> None:
        self._client = Client()
        self._base = f"{'https' if tls else 'http'}://{host}"
        self._protocol, self._timeout, self._retries, self._clock = protocol, timeout, retries, clock

    async def predict(self, model: str, payload: Any, headers: Any) -> Any:
        if self._protocol == "v2":
            return await self._infer(model, payload, headers)
        return await self._post(f"/v1/models/{model}:predict", _v1_body(payload), headers)

    async def explain(self, model: str, payload: Any, headers: Any) -> Any:
        return await self._post(f"/v1/models/{model}:explain", _v1_body(payload), headers)

    async def is_ready(self) -> bool:
        path = "/v2/health/ready" if self._protocol == "v2" else "/"
        try:
            response = await self._client.request("GET", self._base + path, timeout=5.0)
            await response.read()
        except (OSError, ClientError):
            return False
        return bool(response.status == 200)

    async def close(self) -> None:
        await self._client.close()

    async def _infer(self, model: str, payload: Any, headers: Any) -> Any:
        body = v2.request_to_json(payload) if isinstance(payload, InferRequest) else json_bytes(payload)
        content, answered = await self._exchange(f"/v2/models/{model}/infer", body, headers)
        return v2.response_from_json(content, answered)

    async def _post(self, path: str, body: bytes, headers: Any) -> Any:
        content, _ = await self._exchange(path, body, headers)
        try:
            return msgspec.json.decode(content)
        except msgspec.DecodeError as error:
            raise PredictorFailed(f"the predictor's answer is not JSON: {error}", 502) from error

    async def _exchange(self, path: str, body: bytes, headers: Any) -> tuple[bytes, Any]:
        sent = [("Content-Type", "application/json"), *passed_on(headers)]
        for attempt in range(self._retries + 1):
            try:
                response = await self._client.request("POST", self._base + path, headers=sent, body=body, timeout=self._timeout)
                content = await response.read()
            except (OSError, ClientError) as error:
                if attempt == self._retries:
                    raise PredictorFailed(f"the predictor cannot be reached: {error or type(error).__name__}") from error
                await self._clock.sleep(min(2.0, 0.1 * 2**attempt))
                continue
            if response.status != 200:
                raise PredictorFailed(_said(content), response.status)
            return content, response.headers
        raise AssertionError("unreachable")


def predictor(host: str, protocol: str, tls: bool, timeout: float, retries: int) -> Predictor:
    if protocol == "grpc-v2":
        from serveplane.dataplane.modelserver.rpc.client import GrpcPredictor
        return GrpcPredictor(host, tls, timeout, retries)
    return RestPredictor(host, protocol, tls, timeout, retries)


def passed_on(headers: Any) -> list[tuple[str, str]]:
    return [(name, value) for name in PASSED_ON if (value := headers.get(name)) is not None]


def _v1_body(payload: Any) -> bytes:
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, InferRequest):   # a V2 client behind which a V1 predictor sits
        if len(payload.infer_inputs) != 1:
            raise InvalidInput("a V1 predictor takes one tensor", "inputs")
        return json_bytes({"instances": payload.infer_inputs[0].as_numpy()})
    return json_bytes(payload)


def _said(content: bytes) -> str:
    """The predictor's own words, if it has the usual form."""
    try:
        error = msgspec.json.decode(content, type=dict[str, Any]).get("error")
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = None
    return f"the predictor says: {str(error if error else content[:200].decode(errors='replace'))[:500]}"
