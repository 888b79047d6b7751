"""The methods of the inference service.

Requests stay bytes until our own reader has judged them, so a bad one is an answer and never a crash.
"""
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from serveplane import __version__
from serveplane.dataplane.modelserver.errors import ModelNotFound, ModelNotReady, ServingError
from serveplane.dataplane.modelserver.model import Model, Verb
from serveplane.dataplane.modelserver.rpc import messages
from serveplane.dataplane.modelserver.server import EXTENSIONS, Application, metadata
from serveplane.dataplane.modelserver.tensors import InferResponse
from serveplane.http.headers import Headers

log = logging.getLogger(__name__)
Method = Callable[[bytes, Any], Awaitable[bytes]]
_CODES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}


async def start(application: Application, address: str, max_message: int) -> Any:
    """A gRPC server on this address, started."""
    options = [("grpc.max_send_message_length", max_message), ("grpc.max_receive_message_length", max_message), ("grpc.so_reuseport", 1)]
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((_handlers(Service(application)),))
    if not server.add_insecure_port(address):
        raise OSError(f"gRPC cannot listen on {address}")
    await server.start()
    return server


class Service:
    """One coroutine per method: request bytes in, response bytes out."""

    def __init__(self, application: Application) -> None:
        self._application, self._repository, self._metrics = application, application.repository, application.metrics
        self.methods: dict[str, Method] = {
            "ServerLive": self._live, "ServerReady": self._ready, "ModelReady": self._model_ready, "ServerMetadata": self._server,
            "ModelMetadata": self._model, "ModelInfer": self._infer, "RepositoryIndex": self._index,
            "RepositoryModelLoad": self._load, "RepositoryModelUnload": self._unload,
        }

    async def _live(self, raw: bytes, context: Any) -> bytes:
        return messages.write_flag(True)

    async def _ready(self, raw: bytes, context: Any) -> bytes:
        return messages.write_flag(await self._application.is_ready())

    async def _model_ready(self, raw: bytes, context: Any) -> bytes:
        name, version = messages.read_model(raw)
        try:
            return messages.write_flag(await self._found(name, version).healthy())
        except ModelNotReady:
            return messages.write_flag(False)

    async def _server(self, raw: bytes, context: Any) -> bytes:
        return messages.write_server("serveplane", __version__, EXTENSIONS)

    async def _model(self, raw: bytes, context: Any) -> bytes:
        return messages.write_metadata(metadata(self._found(*messages.read_model(raw))))

    async def _infer(self, raw: bytes, context: Any) -> bytes:
        request, was_raw = messages.read_infer_request(raw)
        model = self._found(request.model_name, request.model_version)
        headers = Headers((name, value) for name, value in context.invocation_metadata() or () if isinstance(value, str))
        result = await model.answer(request, headers, Verb.PREDICT, self._metrics)
        if not isinstance(result, InferResponse):
            raise ServingError(f"model {model.name} answered a V2 request with a {type(result).__name__} instead of an InferResponse")
        return messages.write_infer_response(self._application.chosen(result, request), was_raw)

    async def _index(self, raw: bytes, context: Any) -> bytes:
        return messages.write_index(await self._repository.index(messages.read_ready_only(raw)))

    async def _load(self, raw: bytes, context: Any) -> bytes:
        name = messages.read_repository_model(raw)
        await self._application.siblings.load(name)
        return messages.write_loaded(name)

    async def _unload(self, raw: bytes, context: Any) -> bytes:
        name = messages.read_repository_model(raw)
        await self._application.siblings.unload(name)
        return messages.write_loaded(name)

    def _found(self, name: str, version: str) -> Model:
        model = self._repository.get(name)
        if version and version != model.version:
            raise ModelNotFound(f"{name} version {version}")
        return model


def _handlers(service: Service) -> Any:
    handlers = {name: grpc.unary_unary_rpc_method_handler(_guarded(service, name, method)) for name, method in service.methods.items()}
    return grpc.method_handlers_generic_handler(messages.SERVICE, handlers)


def _guarded(service: Service, name: str, method: Method) -> Method:
    """Errors as gRPC codes with the same sentences that REST gives."""
    async def call(raw: bytes, context: Any) -> bytes:
        try:
            answer = await method(raw, context)
        except ServingError as error:
            service._metrics.answered(f"grpc {name}", error.status)
            await context.abort(getattr(grpc.StatusCode, _CODES.get(error.status, "INTERNAL")), str(error))
        except Exception as error:
            log.exception("%s failed", name)
            service._metrics.answered(f"grpc {name}", 500)
            await context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__} : {' '.join(str(error).split())[:500]}")
        else:
            service._metrics.answered(f"grpc {name}", 200)
            return answer
        raise AssertionError("abort raises")
    return call
