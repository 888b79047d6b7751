"""What answers requests: the base class of every model, transformer and explainer.

A user subclasses `Model` and overrides what differs: `load`, `preprocess`, `predict`, `postprocess`, `explain`, each
plain or async. A payload is the decoded JSON body for V1 and an `InferRequest` for V2 and gRPC. Without a `predict` of
its own a model asks the predictor (`predictor_host`), which makes it a transformer.
"""
import inspect
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from serveplane.clock import SYSTEM, Clock
from serveplane.dataplane.modelserver.errors import ModelNotReady, NotSupported
from serveplane.dataplane.modelserver.metrics import Metrics

if TYPE_CHECKING:
    from serveplane.dataplane.modelserver.batching import Batcher
    from serveplane.dataplane.modelserver.predictor import Predictor

Payload = Any   # dict[str, Any] (V1) | InferRequest (V2)
Headers = Any   # case-insensitive `get`, as `serveplane.http` has them


class Verb(StrEnum):
    PREDICT = "predict"
    EXPLAIN = "explain"


class Model:
    """One served model. Not ready until `load` has returned."""

    def __init__(self, name: str, predictor: "Predictor | None" = None, *, return_response_headers: bool = False) -> None:
        self.name = name
        self.required_response_headers = return_response_headers   # predict and postprocess get a third argument to fill
        self.ready = False
        self.predictor = predictor   # set by the server when it runs as a transformer or explainer
        self.clock: Clock = SYSTEM
        self.version = ""
        self.read_by = ""            # how the file was read, for the log and the status
        self.batcher: Batcher | None = None   # set by models that take rows: see `rows_for`

    def load(self) -> Any:
        """Read files, build sessions; may raise. Called in a thread unless async."""
        self.ready = True
        return True

    def stop(self) -> None:
        """Let go of what `load` took."""

    def preprocess(self, payload: Payload, headers: Headers) -> Any:
        return payload

    def predict(self, payload: Payload, headers: Headers) -> Any:
        if self.predictor is None:
            raise NotSupported(f"model {self.name} has no predict of its own and no --predictor_host to ask")
        return self.predictor.predict(self.name, payload, headers)

    def postprocess(self, result: Any, headers: Headers) -> Any:
        return result

    def explain(self, payload: Payload, headers: Headers) -> Any:
        if self.predictor is None:
            raise NotSupported(f"model {self.name} has no explain")
        return self.predictor.explain(self.name, payload, headers)

    def get_input_types(self) -> list[dict[str, Any]]:
        """V2 metadata: name, datatype and shape of each input; -1 where a size varies."""
        return []

    def get_output_types(self) -> list[dict[str, Any]]:
        return []

    def rows_for(self, payload: Payload) -> Any:
        """The rows of a payload that `batcher` may predict with those of others, or None if `predict` has to see it. Only for models
        without pre- and postprocess; `answer_of` then makes the answer."""
        return None

    def answer_of(self, payload: Payload, result: Any) -> Any:
        raise NotImplementedError

    async def healthy(self) -> bool:
        return self.ready

    async def answer(self, payload: Payload, headers: Headers, verb: Verb, metrics: Metrics,
                     response_headers: dict[str, str] | None = None) -> Any:
        """One request through preprocess, predict or explain, and postprocess, each of them timed. What they want to be sent
        beside the answer is put into `response_headers`."""
        more = {} if response_headers is None else response_headers
        if not self.ready:
            raise ModelNotReady(self.name)
        kind = type(self)
        if kind.preprocess is Model.preprocess:   # most models have none: nothing to call, nothing to time
            metrics.observe("preprocess", self.name, 0.0)
        else:
            payload = await self._timed("preprocess", metrics, self.preprocess, payload, headers)
        if verb is Verb.EXPLAIN:
            return await self._timed("explain", metrics, self.explain, payload, headers)
        result = await self._timed("predict", metrics, self.predict, payload, headers, more)
        if kind.postprocess is Model.postprocess:
            metrics.observe("postprocess", self.name, 0.0)
            return result
        return await self._timed("postprocess", metrics, self.postprocess, result, headers, more)

    async def _timed(self, step: str, metrics: Metrics, function: Callable[..., Any], value: Any, *headers: Any) -> Any:
        began = self.clock.monotonic()
        wanted = min(_arity(function), 3 if self.required_response_headers else 2)
        result = function(value, *headers[:wanted - 1])
        if hasattr(result, "__await__"):
            result = await result
        metrics.observe(step, self.name, self.clock.monotonic() - began)
        return result


_ARITY: dict[Any, int] = {}


def _arity(function: Callable[..., Any]) -> int:
    """How many arguments it takes: KServe lets a user leave the headers out of a method's signature; so do we."""
    plain = getattr(function, "__func__", function)
    if plain not in _ARITY:
        parameters = inspect.signature(function).parameters.values()
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        _ARITY[plain] = 3 if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(positional)
    return _ARITY[plain]
