"""Model servers as real processes."""
import contextlib
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.kit.processes import free_ports, start, stop, tail


@dataclass
class Serving:
    process: subprocess.Popen[bytes]
    http: int
    grpc: int
    log: Path
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.http}"

    def post(self, path: str, body: Any, timeout: float = 120.0) -> tuple[int, Any]:
        request = urllib.request.Request(self.url + path, msgspec.json.encode(body), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout, context=self.tls) as answer:
                return answer.status, msgspec.json.decode(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, msgspec.json.decode(error.read())


@contextlib.contextmanager
def serving(tmp_path: Path, *arguments: str, program: list[str] | None = None, name: str = "server",
            tls: ssl.SSLContext | None = None) -> Iterator[Serving]:
    """A server that answers; stopped at the end."""
    http, grpc = free_ports(2)
    log = tmp_path / f"{name}.log"
    command = program or [sys.executable, "-m", "serveplane.cli.main", "modelserver"]
    process = start([*command, "--host", "127.0.0.1", "--http_port", str(http), "--grpc_port", str(grpc), *arguments], log)
    server = Serving(process, http, grpc, log, tls)
    try:
        wait_until_alive(server)
        yield server
    finally:
        stop(process)


def wait_until_alive(server: Serving, seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise AssertionError(f"the server ended with {server.process.returncode}:\n{tail(server.log)}")
        try:
            with urllib.request.urlopen(server.url + "/v2/health/ready", timeout=30, context=server.tls):
                return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(f"the server does not answer:\n{tail(server.log)}")
