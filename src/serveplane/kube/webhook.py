"""The TLS server that the API server calls for admission and conversion.

Handlers are plain functions (or coroutines) from a request to a decision. A manager runs it in a process of its own
(`webhook_process`), so that a reconcile that computes delays no answer.
"""

import asyncio
import inspect
import logging
import socket
import ssl
from typing import Any

from serveplane.clock import SYSTEM, Clock
from serveplane.http.errors import PayloadTooLarge
from serveplane.http.limits import MIB, Limits
from serveplane.http.messages import Request, Response
from serveplane.http.server import Server, serve
from serveplane.kube.admission import (
    AdmissionRequest,
    BadReview,
    Converter,
    Decision,
    Handler,
    Refusal,
    answer_review,
    convert_review,
    parse_review,
)
from serveplane.kube.metrics import Registry
from serveplane.kube.pair import Pair, load_into

LOG = logging.getLogger(__name__)
LIMITS = Limits(body_bytes=16 * MIB)  # two objects of the largest size etcd takes, as JSON, fit several times
DEADLINE = 10.0  # the API server says how long it waits; this is its own default
MARGIN = 0.5  # answer before it gives up


class WebhookServer:
    """Routes of admission handlers and converters behind one port."""

    def __init__(self, *, clock: Clock = SYSTEM, registry: Registry | None = None) -> None:
        self._clock = clock
        self._routes: dict[str, tuple[str, Any]] = {}
        self._metrics = _Metrics(registry or Registry())
        self.tls = server_context()
        self._server: Server | None = None

    def admit(self, path: str, handler: Handler) -> None:
        """Answer AdmissionReviews at a path."""
        self._routes[path] = ("admission", handler)

    def convert(self, path: str, converter: Converter) -> None:
        """Answer ConversionReviews at a path."""
        self._routes[path] = ("conversion", converter)

    def use(self, pair: Pair) -> None:
        """Present this certificate from the next connection on; one has to be in place before the server starts."""
        load_into(self.tls, pair)

    @property
    def url(self) -> str:
        """Where this machine finds it."""
        return self._server.url if self._server else ""

    @property
    def is_serving(self) -> bool:
        return self._server is not None

    async def start(self, sock: socket.socket) -> None:
        """Accept connections of a bound socket."""
        self._server = await serve(self.handle, sock=sock, tls=self.tls, limits=LIMITS)
        LOG.info("webhooks are served", extra={"port": self._server.port, "paths": len(self._routes)})

    async def stop(self, grace: float = 5.0) -> None:
        """Accept no more; finish what is being answered."""
        server, self._server = self._server, None
        if server is not None:
            await server.drain(grace)

    async def handle(self, request: Request) -> Response:
        route = self._routes.get(request.path)
        if route is None:
            return Response.text("no webhook is served here\n", 404)
        if request.method != "POST":
            return Response.text("a review is sent by POST\n", 405)
        if "json" not in (request.headers.get("content-type") or ""):
            return Response.text("a review is JSON\n", 415)
        started = self._clock.monotonic()
        self._metrics.in_flight.inc(request.path)
        code = 500
        try:
            answer = await self._answer(route, await request.read(), _deadline(request.query))
            code = answer.status
            return answer
        except PayloadTooLarge:
            code = 413
            raise
        finally:
            self._metrics.ended(request.path, code, self._clock.monotonic() - started)

    async def _answer(self, route: tuple[str, Any], body: bytes, seconds: float) -> Response:
        kind, handler = route
        try:
            if kind == "conversion":
                return Response(200, _JSON, convert_review(body, handler))
            version, asked = parse_review(body)
        except BadReview as error:
            return Response.text(f"{error}\n", 400)
        decision = await _decide(handler, asked, seconds)
        return Response(200, _JSON, answer_review(version, asked.uid, decision))


_JSON = [("content-type", "application/json")]


async def _decide(handler: Handler, asked: AdmissionRequest, seconds: float) -> Decision:
    """The handler's decision; whatever goes wrong in it is a refusal that says so, never a dropped connection."""
    where = {
        "resource": asked.resource,
        "namespace": asked.namespace,
        "object": asked.name,
        "operation": asked.operation,
    }
    try:
        async with asyncio.timeout(seconds):
            decision = handler(asked)
            return await decision if inspect.isawaitable(decision) else decision
    except Refusal as refusal:
        return Decision(message=str(refusal), code=refusal.code)
    except TimeoutError:
        LOG.warning("admission took longer than %.1f s", seconds, extra=where)
        return Decision(message=f"no decision within {seconds:.1f} s", code=504)
    except Exception as error:
        LOG.exception("admission failed", extra=where)
        return Decision(message=f"the webhook failed: {type(error).__name__}: {error}", code=500)


def server_context() -> ssl.SSLContext:
    """TLS 1.2 and newer. Loading another certificate into it later is how one is replaced: new connections get the new one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    return context


def _deadline(query: str) -> float:
    """The API server's patience, from `?timeout=10s`, less a margin."""
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if name == "timeout" and value.endswith("s") and value[:-1].isdigit():
            return max(int(value[:-1]) - MARGIN, MARGIN)
    return DEADLINE - MARGIN


class _Metrics:
    """controller-runtime's series."""

    def __init__(self, registry: Registry) -> None:
        self._total = registry.counter(
            "controller_runtime_webhook_requests_total",
            "Total number of admission requests by HTTP status code.",
            "webhook",
            "code",
        )
        self._seconds = registry.histogram(
            "controller_runtime_webhook_latency_seconds", "Latency of processing admission requests.", "webhook"
        )
        self.in_flight = registry.gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Current number of admission requests being served.",
            "webhook",
        )

    def ended(self, path: str, code: int, seconds: float) -> None:
        self.in_flight.dec(path)
        self._total.inc(path, str(code))
        self._seconds.observe(seconds, path)
