"""`/healthz`, `/readyz` and `/metrics`, on the ports the manifests name."""

from collections.abc import Callable

from serveplane import pod
from serveplane.http.messages import Request, Response
from serveplane.http.router import Router
from serveplane.http.server import Server, serve
from serveplane.kube.errors import ConfigError
from serveplane.kube.metrics import CONTENT_TYPE, Registry

Check = Callable[[], str]
"""Why not, in words; empty when all is well."""


class Health:
    """Named checks behind `/healthz` (is this process of use at all) and `/readyz` (may it get traffic)."""

    def __init__(self) -> None:
        self.live: dict[str, Check] = {"ping": lambda: ""}
        self.ready: dict[str, Check] = {}

    async def healthz(self, request: Request) -> Response:
        return _answer(self.live, verbose="verbose" in request.query)

    async def readyz(self, request: Request) -> Response:
        return _answer(self.ready, verbose="verbose" in request.query)

    def router(self) -> Router:
        return Router(
            [("GET", "/healthz", self.healthz), ("GET", "/livez", self.healthz), ("GET", "/readyz", self.readyz)]
        )


async def serve_health(health: Health, address: str) -> Server | None:
    return await _listen(health.router(), address, "health probes")


async def serve_metrics(registry: Registry, address: str) -> Server | None:
    async def metrics(request: Request) -> Response:
        return Response(200, [("content-type", CONTENT_TYPE)], (await registry.whole_text()).encode())

    return await _listen(Router([("GET", "/metrics", metrics)]), address, "metrics")


def parse_address(text: str, what: str) -> tuple[str, int] | None:
    """`:8080`, `127.0.0.1:8080`, `[::1]:8080`; `0` and nothing switch it off, as controller-runtime has it.

    >>> parse_address(":8080", "metrics"), parse_address("0", "metrics")
    (('0.0.0.0', 8080), None)
    """
    if text in ("", "0"):
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{text!r} is not an address for {what}: write host:port, or :port, or 0 for none")
    return host.strip("[]") or "0.0.0.0", int(port)


async def _listen(router: Router, address: str, what: str) -> Server | None:
    parsed = parse_address(address, what)
    if parsed is None:
        return None
    host, port = pod.listen_address(parsed[1], parsed[0])
    try:
        return await serve(router, host, port)
    except OSError as error:
        raise ConfigError(f"cannot listen on {address} for {what}: {error.strerror or error}") from None


def _answer(checks: dict[str, Check], *, verbose: bool) -> Response:
    reasons = {name: check() for name, check in checks.items()}
    status = 500 if any(reasons.values()) else 200
    if status == 200 and not verbose:
        return Response.text("ok")
    lines = [f"[-]{name} failed: {reason}" if reason else f"[+]{name} ok" for name, reason in reasons.items()]
    return Response.text("\n".join(lines) + "\n", status)
