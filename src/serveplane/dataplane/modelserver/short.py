"""The short way: a prediction whose body is all here, by a model that takes rows, needs no task of its own.

Decoded when it arrives, it waits as a list entry until the turn of the loop ends; the batch that predicts it writes the answer.
Everything else (transformers, explainers, models of users, bodies still coming) takes the long way, with the same answers.
"""
from typing import TYPE_CHECKING, Any

from serveplane.dataplane.modelserver import v1, v2
from serveplane.dataplane.modelserver.batching import Waiting
from serveplane.dataplane.modelserver.errors import ModelNotReady
from serveplane.dataplane.modelserver.model import Model
from serveplane.dataplane.modelserver.rows import rows_called
from serveplane.dataplane.modelserver.tensors import Array, InferRequest
from serveplane.http.messages import Later, Request, Response

if TYPE_CHECKING:
    from serveplane.dataplane.modelserver.cloudevents import Event
    from serveplane.dataplane.modelserver.server import Application


class Prediction(Waiting):
    """One request in the queue of its model."""

    __slots__ = ("_application", "_began", "_event", "_held", "_model", "_payload", "later")

    def __init__(self, application: "Application", request: Request, held: int, model: Model, payload: Any, event: "Event | None",
                 rows: Array) -> None:
        self._application, self._held, self._model, self._payload, self._event = application, held, model, payload, event
        self._began = application.clock.monotonic()
        self.rows, self.at, self.later = rows, rows_called(payload), Later(request)

    @property
    def gone(self) -> bool:
        return self.later.gone

    def dropped(self) -> None:
        self._application.room += self._held

    def deliver(self, result: Array | Exception) -> None:
        application, request, is_v2 = self._application, self.later.request, isinstance(self._payload, InferRequest)
        application.room += self._held
        try:
            if isinstance(result, Exception):
                raise result
            response = self._response(result)
            application.metrics.predicted(self._model.name, application.clock.monotonic() - self._began)
        except Exception as error:   # the next in the batch must get its answer whatever becomes of this one
            response = application.refusal(error, request)
        self.later.answer(application.finished(response, request, "infer" if is_v2 else "predict"))

    def _response(self, result: Array) -> Response:
        payload, model = self._payload, self._model
        answer = model.answer_of(payload, result)
        if isinstance(payload, InferRequest):
            return Response(200, *v2.encode(answer, payload))
        return Response(200, *v1.encode(answer, model.name, self._event))


def begin(application: "Application", request: Request, body: bytes, model: Model, version: str, is_v2: bool) -> Prediction | None:
    """Queue the request; None if it has to go the long way. A mistake in it is raised here."""
    batcher, payload, event = model.batcher, None, None
    if batcher is None:
        return None
    if not model.ready:
        raise ModelNotReady(model.name)
    if is_v2:
        payload = v2.decode(model.name, request.headers, body, version)
        payload.request_id = payload.request_id or application.clock.uuid()
    else:
        payload, event = v1.decode(request.headers, body)
    rows = model.rows_for(payload)
    if rows is None:
        return None
    prediction = Prediction(application, request, len(body), model, payload, event, rows)
    application.take(len(body))
    try:
        batcher.submit(prediction)
    except Exception:
        prediction.dropped()
        raise
    return prediction
