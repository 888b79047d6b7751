"""The cluster's network, as far as the API server needs it: Services found at ports of this machine.

kube-apiserver calls webhooks by Service, at the Service's cluster IP, which nobody routes here. Kubernetes has a switch for API
servers that live outside the cluster's network: connections into the cluster go through an HTTP CONNECT proxy. This is
that proxy. So webhook configurations and conversion run unchanged, with the certificates and names they have in a real cluster.
"""
import asyncio
import contextlib
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

Json = dict[str, Any]
Endpoint = tuple[str, int]
SHORT = Path("/tmp")      # the path of a socket has room for a hundred characters only
BACKLOG = 4096            # a full one refuses at once, which a network would not do


class ServiceNetwork:
    """Runs on a thread of its own, so that it serves whatever the test's event loop is doing."""

    def __init__(self, get: Callable[[str], Json]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sp-", dir=SHORT if SHORT.is_dir() else None))
        self._socket, self._get = self._folder / "network", get
        self._problem: OSError | None = None
        self._exposed: dict[tuple[str, str], int] = {}
        self._addresses: dict[str, tuple[str, str]] = {}     # cluster IP -> the Service that had it when last looked up
        self._loop = uvloop.new_event_loop()     # a thousand connections at once pass here
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="service-network", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._problem:
            raise self._problem

    def egress_selection(self) -> Json:
        """What to tell kube-apiserver with --egress-selector-config-file."""
        connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(self._socket)}}}
        return {"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
                "egressSelections": [{"name": "cluster", "connection": connection}]}

    def expose(self, namespace: str, service: str, port: int) -> None:
        self._exposed[namespace, service] = port

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            server = self._loop.run_until_complete(asyncio.start_unix_server(self._serve, path=str(self._socket), backlog=BACKLOG))
        except OSError as problem:
            self._problem = problem
            return
        finally:
            self._started.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            host, _, port = head.split(b" ", 2)[1].decode().rpartition(":")
            try:
                there = await asyncio.open_connection(*await self._resolve(host.strip("[]"), int(port)))
            except OSError as problem:
                writer.write(f"HTTP/1.1 502 {problem}\r\n\r\n".encode())
                return
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            await _join((reader, writer), there)

    async def _resolve(self, host: str, port: int) -> Endpoint:
        service = self._addresses.get(host)
        if service not in self._exposed:
            await asyncio.to_thread(self._look_up)
            service = self._addresses.get(host)
        return ("127.0.0.1", self._exposed[service]) if service in self._exposed else (host, port)

    def _look_up(self) -> None:
        for namespace, name in list(self._exposed):
            with contextlib.suppress(Exception):      # not created yet: then nobody can have asked for it
                found = self._get(f"/api/v1/namespaces/{namespace}/services/{name}")
                self._addresses[found["spec"]["clusterIP"]] = (namespace, name)


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _join(here: Stream, there: Stream) -> None:
    await asyncio.gather(_copy(here[0], there[1]), _copy(there[0], here[1]), return_exceptions=True)
    there[1].close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()
