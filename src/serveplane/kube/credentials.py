"""Who we are at the API server, as the Authorization header of each request.

Tokens in pods are replaced by the kubelet and exec plugins hand out short-lived ones, so a header is asked for per
request and may be renewed when the server answers 401.
"""

import asyncio
import base64
import contextlib
import datetime
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from serveplane.clock import SYSTEM, Clock, parse_timestamp
from serveplane.kube.errors import ConfigError
from serveplane.objects import Json

TOKEN_SECONDS = 60.0  # the kubelet renews a token when a fifth of its life (at least two minutes) is left
PLUGIN_SECONDS = 60.0  # a plugin that asks a person to log in gets this long
EXPIRY_MARGIN = datetime.timedelta(seconds=10)


class Credentials(Protocol):
    """Where the Authorization header comes from."""

    async def header(self, *, renew: bool = False) -> str:
        """The header's value; `renew` after the server refused the last one. Empty when a client certificate is used instead."""

    def client_pair(self) -> tuple[bytes, bytes] | None:
        """A client certificate and key, for those that hand out such."""


@dataclass
class StaticToken:
    token: str
    scheme: str = "Bearer"

    async def header(self, *, renew: bool = False) -> str:
        return f"{self.scheme} {self.token}"

    def client_pair(self) -> tuple[bytes, bytes] | None:
        return None


class TokenFile:
    """A token that someone else keeps fresh on disk."""

    def __init__(self, path: Path, clock: Clock = SYSTEM) -> None:
        self._path = path
        self._clock = clock
        self._header = ""
        self._read_at = 0.0

    def check(self) -> None:
        """Read now, so that a missing file is an error at start."""
        self._read()

    async def header(self, *, renew: bool = False) -> str:
        if renew or not self._header or self._clock.monotonic() - self._read_at > TOKEN_SECONDS:
            with contextlib.suppress(ConfigError) if self._header else contextlib.nullcontext():
                self._read()  # the file is swapped by a rename; a bad moment is no reason to stop using the old token
        return self._header

    def client_pair(self) -> tuple[bytes, bytes] | None:
        return None

    def _read(self) -> None:
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"token file {self._path} cannot be read: {error}") from None
        if not token:
            raise ConfigError(f"token file {self._path} is empty")
        self._header, self._read_at = f"Bearer {token}", self._clock.monotonic()


class ExecCredentials:
    """A client-go credential plugin: a program that prints an ExecCredential."""

    def __init__(self, spec: Json, server: str, ca: bytes | None, source: str, clock: Clock = SYSTEM) -> None:
        if not spec.get("command") or spec.get("apiVersion") not in (
            "client.authentication.k8s.io/v1",
            "client.authentication.k8s.io/v1beta1",
        ):
            raise ConfigError(
                f"{source}: the exec plugin needs a command and apiVersion client.authentication.k8s.io/v1"
            )
        self._spec, self._server, self._ca, self._source, self._clock = spec, server, ca, source, clock
        self._status: Json = {}
        self._lock = asyncio.Lock()

    async def header(self, *, renew: bool = False) -> str:
        before = self._status
        async with self._lock:
            stale = self._expired() or (renew and self._status is before)  # someone else may have renewed meanwhile
            if not self._status or stale:
                self._status = await self._run()
        token = self._status.get("token")
        return f"Bearer {token}" if token else ""

    def client_pair(self) -> tuple[bytes, bytes] | None:
        certificate, key = self._status.get("clientCertificateData"), self._status.get("clientKeyData")
        return (certificate.encode(), key.encode()) if certificate and key else None

    def _expired(self) -> bool:
        expiry = self._status.get("expirationTimestamp")
        return expiry is not None and parse_timestamp(expiry) - EXPIRY_MARGIN <= self._clock.now()

    async def _run(self) -> Json:
        command = [self._spec["command"], *map(str, self._spec.get("args") or ())]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env=self._environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = self._spec.get("installHint") or "install it or fix the command in the kubeconfig"
            raise ConfigError(
                f"{self._source}: exec plugin {command[0]!r} cannot be started: {error.strerror}; {hint}"
            ) from None
        output, trouble = await self._output(process)
        if process.returncode:
            said = " ".join(trouble.decode("utf-8", "replace").split())[-300:]
            raise ConfigError(f"{self._source}: exec plugin {command[0]!r} failed with {process.returncode}: {said}")
        return self._parsed(output, command[0])

    async def _output(self, process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                return await process.communicate()
        except TimeoutError:
            raise ConfigError(
                f"{self._source}: exec plugin {self._spec['command']!r} gave no answer in {PLUGIN_SECONDS:.0f} s"
            ) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()

    def _parsed(self, output: bytes, command: str) -> Json:
        try:
            status = msgspec.json.decode(output, type=Json)["status"]
            if not (status.get("token") or status.get("clientCertificateData")):
                raise KeyError("token")
        except (msgspec.DecodeError, KeyError, AttributeError):
            raise ConfigError(
                f"{self._source}: exec plugin {command!r} printed no ExecCredential with a token"
            ) from None
        return dict(status)

    def _environment(self) -> dict[str, str]:
        spec: Json = {"interactive": False}
        if self._spec.get("provideClusterInfo"):
            cluster = {"server": self._server}
            if self._ca:
                cluster["certificate-authority-data"] = base64.b64encode(self._ca).decode()
            spec["cluster"] = cluster
        info = {"apiVersion": self._spec["apiVersion"], "kind": "ExecCredential", "spec": spec}
        extra = {entry["name"]: entry["value"] for entry in self._spec.get("env") or ()}
        return {**os.environ, **extra, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
