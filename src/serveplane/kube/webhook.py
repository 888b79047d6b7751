"""The TLS server that the API server calls for admission and conversion.

It has a thread and an event loop of its own: a reconcile that keeps the main loop busy delays no answer. Handlers are plain
functions (or coroutines) from a request to a decision; they may read caches, which are safe to read from another thread.
"""

import asyncio
import inspect
import logging
import ssl
import sys
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from serveplane import pod
from serveplane.clock import SYSTEM, Clock
from serveplane.http.errors import PayloadTooLarge
from serveplane.http.limits import MIB, Limits
from serveplane.http.loop import loop_factory
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
from serveplane.kube.errors import ConfigError
from serveplane.kube.metrics import Registry

LOG = logging.getLogger(__name__)
T = TypeVar("T")
LIMITS = Limits(body_bytes=16 * MIB)  # two objects of the largest size etcd takes, as JSON, fit several times
DEADLINE = 10.0  # the API server says how long it waits; this is its own default
MARGIN = 0.5  # answer before it gives up
SWITCH_SECONDS = 0.00005  # how long a busy thread may keep the interpreter from this one; costs it nothing measurable


class WebhookServer:
    """Routes of admission handlers and converters behind one port."""

    def __init__(
        self, host: str = "0.0.0.0", port: int = 9443, *, clock: Clock = SYSTEM, registry: Registry | None = None
    ) -> None:
        self._host, self._port = host, port
        self._clock = clock
        self._routes: dict[str, tuple[str, Any]] = {}
        self._metrics = _Metrics(registry or Registry())
        self.tls = server_context()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._server: Server | None = None

    def admit(self, path: str, handler: Handler) -> None:
        """Answer AdmissionReviews at a path."""
        self._routes[path] = ("admission", handler)

    def convert(self, path: str, converter: Converter) -> None:
        """Answer ConversionReviews at a path."""
        self._routes[path] = ("conversion", converter)

    @property
    def port(self) -> int:
        return self._server.port if self._server else self._port

    @property
    def url(self) -> str:
        """Where this machine finds it."""
        return self._server.url if self._server else ""

    @property
    def is_serving(self) -> bool:
        return self._server is not None and self._thread is not None and self._thread.is_alive()

    async def start(self) -> None:
        """Listen, in a thread of its own. A certificate has to be in place (`certificates` loads it into `tls`)."""
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        self._loop = loop_factory()()
        self._thread = threading.Thread(target=self._loop.run_forever, name="webhooks", daemon=True)
        self._thread.start()
        host, port = pod.listen_address(self._port, self._host)
        try:
            self._server = await self._there(serve(self.handle, host, port, tls=self.tls, limits=LIMITS))
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port} for webhooks: {error.strerror or error}") from None
        LOG.info("webhooks are served", extra={"port": self.port, "paths": len(self._routes)})

    async def stop(self, grace: float = 5.0) -> None:
        """Finish what is being answered, then end the thread."""
        if self._loop is None or self._thread is None:
            return
        if self._server is not None:
            await self._there(self._server.drain(grace))
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()
        self._loop = self._thread = self._server = None

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the other loop do something, and wait for it in this one."""
        assert self._loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    # ---- in the other thread

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
