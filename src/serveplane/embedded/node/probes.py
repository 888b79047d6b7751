"""Probes: one attempt of each sort, and the counting that turns attempts into a verdict.

An attempt answers with the sentence of what went wrong, or with nothing. While a container is not ready yet, readiness
is tried more often than its period says (as kubelets may), so a service is up as soon as it can be; failures
count once per period all the same.
"""
import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from serveplane.clock import Clock
from serveplane.embedded.node import grpc_health
from serveplane.objects import Json

EAGER_FIRST, EAGER_GROWTH, EAGER_LAST = 0.05, 1.3, 1.0   # seconds between the extra attempts
ANSWER = 10 * 1024

Sort = Literal["startup", "liveness", "readiness"]
Execute = Callable[[list[str], float], Awaitable[tuple[int, bytes]]]


@dataclass(frozen=True)
class Target:
    """Where the probed container is: its pod's address, the ports that were moved, its named ports, and how to exec."""
    address: str
    moved: Mapping[int, int]
    named: Mapping[str, int]
    execute: Execute

    def port(self, port: int | str) -> int:
        number = self.named.get(port) if isinstance(port, str) and not port.isdigit() else int(port)
        if number is None:
            raise ValueError(f'port "{port}" is not a named port of this container')
        return self.moved.get(number, number)


@dataclass(frozen=True)
class Rhythm:
    """How often and how patiently; the defaults are the API's."""
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int

    @staticmethod
    def of(probe: Json) -> "Rhythm":
        return Rhythm(probe.get("initialDelaySeconds") or 0, probe.get("periodSeconds") or 10,
                      probe.get("timeoutSeconds") or 1, probe.get("successThreshold") or 1,
                      probe.get("failureThreshold") or 3)


async def attempt(probe: Json, target: Target) -> str | None:
    """One attempt. None is a success."""
    timeout = Rhythm.of(probe).timeout
    try:
        async with asyncio.timeout(timeout):
            return await _attempt(probe, target, timeout)
    except TimeoutError:
        return f"no answer within {timeout:g} s"
    except Exception as problem:   # no such command, no such port, an answer that makes no sense: none may end the probing
        return str(problem) or type(problem).__name__


async def watch(sort: Sort, probe: Json, target: Target, clock: Clock, verdict: Callable[[bool, str], None]) -> None:
    """Attempt for ever; tell each verdict: `True` after enough successes in a row, `False` after enough failures."""
    rhythm = Rhythm.of(probe)
    await clock.sleep(rhythm.delay)
    good = bad = 0
    passed, pause = False, EAGER_FIRST
    next_count = clock.monotonic()
    while True:
        problem = await attempt(probe, target)
        if problem is None:
            good, bad = good + 1, 0
            if good >= rhythm.successes:
                passed = True
                verdict(True, "")
                if sort == "startup":
                    return
        elif passed or clock.monotonic() >= next_count:
            good, bad = 0, bad + 1
            next_count = clock.monotonic() + rhythm.period
            if bad >= rhythm.failures:
                passed = False
                verdict(False, problem)
        eager = not passed and sort != "liveness"
        await clock.sleep(min(pause, rhythm.period) if eager else rhythm.period)
        pause = min(pause * EAGER_GROWTH, EAGER_LAST) if eager else EAGER_FIRST


async def _attempt(probe: Json, target: Target, timeout: float) -> str | None:
    if "httpGet" in probe:
        return await http_get(probe["httpGet"], target)
    if "tcpSocket" in probe:
        return await _tcp(_host(probe["tcpSocket"], target), target.port(probe["tcpSocket"]["port"]))
    if "grpc" in probe:
        return await grpc_health.check(target.address, target.port(probe["grpc"]["port"]),
                                       probe["grpc"].get("service") or "")
    if "exec" in probe:
        code, output = await target.execute(probe["exec"].get("command") or [], timeout)
        return None if code == 0 else f"command exited with {code}: {output[:1024].decode('utf-8', 'replace').strip()}"
    return None


def _host(action: Json, target: Target) -> str:
    host = action.get("host") or ""
    return target.address if host in ("", "localhost", "127.0.0.1") else host


async def _tcp(host: str, port: int) -> str | None:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    return None


async def http_get(action: Json, target: Target) -> str | None:
    """Any answer from 200 to 399 is a success; certificates are not verified, as kubelets don't."""
    port = target.port(action["port"])
    host = _host(action, target)
    context = _no_verification() if str(action.get("scheme", "HTTP")).upper() == "HTTPS" else None
    reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=ANSWER)
    try:
        writer.write(_request(action, host, port))
        status = (await reader.readline()).split(b" ", 2)
        if len(status) < 2 or not status[1].isdigit():
            return "the answer is not HTTP"
        code = int(status[1])
        return None if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"
    finally:
        writer.close()
        with contextlib.suppress(Exception):   # the peer may be gone already; nothing depends on a clean goodbye
            await writer.wait_closed()


def _request(action: Json, host: str, port: int) -> bytes:
    headers = {header["name"]: header.get("value", "") for header in action.get("httpHeaders") or ()}
    lowered = {name.casefold() for name in headers}
    if "host" not in lowered:
        headers = {"Host": f"{host}:{port}", **headers}
    if "user-agent" not in lowered:
        headers["User-Agent"] = "kube-probe/1.34"
    lines = [f"GET {action.get('path') or '/'} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items()),
             "Connection: close", "", ""]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a path or header of the probe holds a line break")
    return "\r\n".join(lines).encode()


def _no_verification() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
