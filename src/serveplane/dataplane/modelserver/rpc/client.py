"""Asking a predictor over gRPC."""
from typing import Any

from serveplane.clock import SYSTEM, Clock
from serveplane.dataplane.modelserver.errors import InvalidInput, NotSupported
from serveplane.dataplane.modelserver.predictor import PredictorFailed, passed_on
from serveplane.dataplane.modelserver.rpc import messages
from serveplane.dataplane.modelserver.tensors import InferRequest

_STATUSES = {"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "UNIMPLEMENTED": 501, "DEADLINE_EXCEEDED": 504, "UNAVAILABLE": 503}


class GrpcPredictor:
    def __init__(self, host: str, tls: bool = False, timeout: float = 600.0, retries: int = 0, clock: Clock = SYSTEM) -> None:
        import grpc
        self._grpc: Any = grpc
        self._channel = grpc.aio.secure_channel(host, grpc.ssl_channel_credentials()) if tls else grpc.aio.insecure_channel(host)
        self._timeout, self._retries, self._clock = timeout, retries, clock

    async def predict(self, model: str, payload: Any, headers: Any) -> Any:
        if not isinstance(payload, InferRequest):
            raise InvalidInput("a gRPC predictor takes V2 requests; preprocess must give an InferRequest")
        payload.model_name = payload.model_name or model
        raw = await self._call("ModelInfer", messages.write_infer_request(payload), passed_on(headers))
        return messages.read_infer_response(raw)

    async def explain(self, model: str, payload: Any, headers: Any) -> Any:
        raise NotSupported("the gRPC protocol has no explain")

    async def is_ready(self) -> bool:
        try:
            return await self._call("ServerReady", b"", [], 5.0) == messages.write_flag(True)
        except PredictorFailed:
            return False

    async def close(self) -> None:
        await self._channel.close()

    async def _call(self, method: str, raw: bytes, metadata: list[tuple[str, str]], timeout: float | None = None) -> bytes:
        call = self._channel.unary_unary(f"/{messages.SERVICE}/{method}")
        for attempt in range(self._retries + 1):
            try:
                answer: bytes = await call(raw, timeout=timeout or self._timeout, metadata=metadata)
                return answer
            except self._grpc.aio.AioRpcError as error:
                status = _STATUSES.get(error.code().name, 500)
                if status != 503 or attempt == self._retries:
                    raise PredictorFailed(f"the predictor says: {error.details()}", status) from error
                await self._clock.sleep(min(2.0, 0.1 * 2**attempt))
        raise AssertionError("unreachable")
