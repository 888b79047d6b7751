"""The model server: which path asks what, and how an error becomes an answer."""
import logging
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote

from serveplane import __version__
from serveplane.clock import SYSTEM, Clock
from serveplane.dataplane.modelserver import short, v1, v2
from serveplane.dataplane.modelserver.errors import InvalidInput, ModelNotFound, ModelNotReady, Overloaded, ServingError
from serveplane.dataplane.modelserver.metrics import Metrics
from serveplane.dataplane.modelserver.model import Model, Verb
from serveplane.dataplane.modelserver.repository import Repository
from serveplane.dataplane.modelserver.siblings import Siblings
from serveplane.dataplane.modelserver.tensors import InferRequest, InferResponse
from serveplane.http.errors import PayloadTooLarge, StatusError
from serveplane.http.headers import Headers
from serveplane.http.messages import Request, Response

log = logging.getLogger(__name__)
EXTENSIONS = ["model_repository_extension", "model_repository", "binary_tensor_data"]
HELD_BYTES = 256 << 20
SHORT = ("predict", "infer")   # endpoints that may be answered without a task
CORRELATION = b"x-request-id"   # given back, so that a client finds its answer in both logs


class Route(NamedTuple):
    """What a path asks for."""

    endpoint: str
    methods: tuple[str, ...]
    model: str = ""
    version: str = ""


class Held:
    """What one request takes of the server's room for bodies."""

    def __init__(self, application: "Application") -> None:
        self._application, self._size = application, 0

    def take(self, size: int) -> None:
        self._application.take(size)
        self._size += size

    def give_back(self) -> None:
        self._application.room += self._size

    async def collected(self, request: Request, limit: int) -> Request:
        """The request with a body whose length nobody announced, taken piece by piece."""
        pieces: list[bytes] = []
        async for piece in request.stream():
            self.take(len(piece))
            pieces.append(piece)
            if self._size > limit:
                raise PayloadTooLarge(limit)
        return Request(request.method, request.target, request.headers, b"".join(pieces), peer=request.peer)


class Application:
    """Answers requests from the models of a repository."""

    def __init__(self, repository: Repository, metrics: Metrics, clock: Clock = SYSTEM, held_bytes: int = HELD_BYTES,
                 body_limit: int = 64 << 20) -> None:
        self.repository, self.metrics, self.clock = repository, metrics, clock
        self.room = held_bytes   # for bodies of requests under way; full, it is an honest 503 rather than a killed container
        self._body_limit = body_limit
        self.siblings = Siblings(repository, metrics)
        self.draining = False
        self.healthy: Callable[[], Awaitable[bool]] | None = None   # a transformer asks its predictor too
        self._endpoints: dict[str, Callable[[Request, Route], Awaitable[Response]]] = {
            "alive": self._alive, "metrics": self._prometheus,
            "v1 models": self._list, "v1 model": self._model_ready, "predict": self._v1, "explain": self._v1,
            "server": self._server, "live": self._live, "ready": self._ready,
            "v2 models": self._list, "v2 model": self._model_metadata, "model ready": self._model_ready, "infer": self._infer,
            "index": self._index, "load": self._load, "unload": self._unload,
        }

    def __call__(self, request: Request) -> Awaitable[Response]:
        route, body = _route(request.path), request.body
        if route is not None and route.endpoint in SHORT and request.method == "POST" and type(body) is bytes:
            try:
                if len(body) > self._body_limit:
                    raise PayloadTooLarge(self._body_limit)
                begun = short.begin(self, request, body, self._model(route), route.version, route.endpoint == "infer")
            except Exception as error:
                return self.finished(self.refusal(error, request), request, route.endpoint)
            if begun is not None:
                return begun.later
        return self._at_length(request, route)

    def take(self, size: int) -> None:
        """Room for a body; whoever takes it gives it back."""
        if size > self.room:
            raise Overloaded("the requests under way hold all the memory there is for them")
        self.room -= size

    def finished(self, response: Response, request: Request, endpoint: str) -> Response:
        """The answer as it goes out, counted."""
        if CORRELATION in request.headers.index:
            _with(response, {CORRELATION.decode(): request.headers.index[CORRELATION].decode("latin-1")})
        self.metrics.answered(endpoint, response.status)
        return response

    async def _at_length(self, request: Request, route: Route | None) -> Response:
        if route is None:
            response = _error(404, f"no such path: {request.path[:200]}")
        elif request.method not in route.methods:
            response = _error(405, f"{request.method} is not for this path", [("Allow", ", ".join(route.methods))])
        else:
            response = await self._answer(request, route)
        return self.finished(response, request, route.endpoint if route else "other")

    async def _answer(self, request: Request, route: Route) -> Response:
        held = Held(self)
        try:
            held.take(max(0, request.length))
            if request.length < 0:
                request = await held.collected(request, self._body_limit)
            return await self._endpoints[route.endpoint](request, route)
        except Exception as error:
            return self.refusal(error, request)
        finally:
            held.give_back()

    @staticmethod
    def refusal(error: Exception, request: Request) -> Response:
        """Every error as the answer that says so."""
        match error:
            case Overloaded(): return _error(503, str(error), [("Retry-After", str(error.retry_after))])
            case ServingError(): return _error(error.status, str(error))
            case StatusError(): return _error(error.status, error.message)   # the engine's own: a body too long, a client that went away
            case NotImplementedError(): return _error(501, str(error))
        log.error("%s failed", request.path, exc_info=error)
        return _error(500, f"{type(error).__name__} : {' '.join(str(error).split())[:500]}")

    # V1

    async def _alive(self, request: Request, route: Route) -> Response:
        return Response.json({"status": "alive"})

    async def _prometheus(self, request: Request, route: Route) -> Response:
        told = await self.siblings.together()
        return Response(200, [("Content-Type", "text/plain; version=0.0.4; charset=utf-8")], told.text().encode())

    async def _list(self, request: Request, route: Route) -> Response:
        return Response.json({"models": self.repository.names()})

    async def _v1(self, request: Request, route: Route) -> Response:
        model = self._model(route)
        payload, event = v1.decode(request.headers, await request.read())
        more: dict[str, str] = {}
        result = await model.answer(payload, request.headers, Verb(route.endpoint), self.metrics, more)
        return _with(Response(200, *v1.encode(result, model.name, event)), more)

    # V2

    async def _server(self, request: Request, route: Route) -> Response:
        return Response.json({"name": "serveplane", "version": __version__, "extensions": EXTENSIONS})

    async def _live(self, request: Request, route: Route) -> Response:
        return Response.json({"live": True})

    async def _ready(self, request: Request, route: Route) -> Response:
        ready = await self.is_ready()
        return Response.json({"ready": ready}, 200 if ready else 503)

    async def is_ready(self) -> bool:
        return not self.draining and (self.healthy is None or await self.healthy())

    async def _model_ready(self, request: Request, route: Route) -> Response:
        model = self._model(route)
        if not await model.healthy():
            raise ModelNotReady(model.name)
        return Response.json({"name": model.name, "ready": True})

    async def _model_metadata(self, request: Request, route: Route) -> Response:
        return Response.json(metadata(self._model(route)))

    async def _infer(self, request: Request, route: Route) -> Response:
        model = self._model(route)
        infer = v2.decode(model.name, request.headers, await request.read(), route.version)
        if not infer.request_id:
            infer.request_id = self.clock.uuid()
        more: dict[str, str] = {}
        result = await model.answer(infer, request.headers, Verb.PREDICT, self.metrics, more)
        return _with(Response(200, *v2.encode(result, infer)), more)

    # The model repository extension

    async def _index(self, request: Request, route: Route) -> Response:
        body = await request.read()
        wanted = v1.json_value(body) if body else {}
        if not isinstance(wanted, dict):
            raise InvalidInput("the body must be a JSON object")
        only_ready = bool(wanted.get("ready")) or parse_qs(request.query).get("ready") == ["true"]
        return Response.json(await self.repository.index(only_ready))

    async def _load(self, request: Request, route: Route) -> Response:
        await self.siblings.load(route.model)
        return Response.json({"name": route.model, "load": True})

    async def _unload(self, request: Request, route: Route) -> Response:
        await self.siblings.unload(route.model)
        return Response.json({"name": route.model, "unload": True})

    @staticmethod
    def chosen(response: InferResponse, request: InferRequest) -> InferResponse:
        """The outputs that were asked for."""
        response.infer_outputs = [tensor for tensor, _ in v2.chosen(response, request)]
        return response

    def _model(self, route: Route) -> Model:
        model = self.repository.get(route.model)
        if route.version and route.version != model.version:
            raise ModelNotFound(f"{route.model} version {route.version}")
        return model


def metadata(model: Model) -> dict[str, Any]:
    return {"name": model.name, **({"versions": [model.version]} if model.version else {}), "platform": getattr(model, "platform", ""),
            "inputs": model.get_input_types(), "outputs": model.get_output_types()}


@lru_cache(maxsize=512)   # of paths that may be 16 KB long
def _route(path: str) -> Route | None:
    """What a path asks for; None if nothing. The parts are decoded only after they were told apart.

    >>> _route("/v1/models/iris:predict")
    Route(endpoint='predict', methods=('POST',), model='iris', version='')
    """
    match [unquote(part) for part in path.strip("/").split("/")]:
        case [""]: return Route("alive", ("GET", "HEAD"))
        case ["metrics"]: return Route("metrics", ("GET", "HEAD"))
        case ["v1", "models"]: return Route("v1 models", ("GET", "HEAD"))
        case ["v1", "models", name]: return _v1_route(name)
        case ["v2"]: return Route("server", ("GET", "HEAD"))
        case ["v2", "health", ("live" | "ready") as question]: return Route(question, ("GET", "HEAD"))
        case ["v2", "models"]: return Route("v2 models", ("GET", "HEAD"))
        case ["v2", "repository", "index"]: return Route("index", ("POST", "GET"))
        case ["v2", "repository", "models", name, ("load" | "unload") as verb]: return Route(verb, ("POST",), name)
        case ["v2", "models", name, "versions", version, *rest]: return _v2_route(name, version, rest)
        case ["v2", "models", name, *rest]: return _v2_route(name, "", rest)
    return None


def _v1_route(name: str) -> Route:
    model, colon, verb = name.rpartition(":")
    return Route(verb, ("POST",), model) if colon and verb in ("predict", "explain") else Route("v1 model", ("GET", "HEAD"), name)


def _v2_route(name: str, version: str, rest: list[str]) -> Route | None:
    match rest:
        case []: return Route("v2 model", ("GET", "HEAD"), name, version)
        case ["ready"]: return Route("model ready", ("GET", "HEAD"), name, version)
        case ["infer"]: return Route("infer", ("POST",), name, version)
    return None


def _with(response: Response, more: dict[str, str]) -> Response:
    if more:
        response.headers = Headers(response.headers)   # the usual ones are shared by all answers
        for name, value in more.items():
            response.headers.set(name, value)
    return response


def _error(status: int, message: str, headers: list[tuple[str, str]] | None = None) -> Response:
    return Response.json({"error": message}, status, headers or [])
