"""A one-machine cluster from start to stop: API server, controllers and gateway in this process, the node beside it.

Everything that is started is entered into one stack and left in reverse order, so an end at any moment (Ctrl-C while
starting, a failure half way) undoes exactly what was done.
"""
import asyncio
import contextlib
import logging
import os
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from serveplane.cli.apply import apply_one
from serveplane.cli.cluster import objects
from serveplane.cli.cluster.children import NodeProcess
from serveplane.cli.cluster.folder import ClusterError, Folder, State
from serveplane.cli.cluster.install import apply_all, available
from serveplane.cli.cluster.progress import Progress
from serveplane.clock import Clock
from serveplane.embedded.apiserver import ApiServer, metrics
from serveplane.embedded.apiserver.endpoint import Endpoint, listen
from serveplane.embedded.gateway.proxy import Gateway
from serveplane.embedded.gateway.watching import Watcher
from serveplane.embedded.node.addresses import can_listen
from serveplane.embedded.node.leftovers import end_leftovers
from serveplane.embedded.node.node import default_name
from serveplane.embedded.store import SqliteLog, Store
from serveplane.embedded.workloads.controllers import run_controllers
from serveplane.http import Client as HttpClient
from serveplane.http import ClientTls, serve
from serveplane.http.http2 import Http2Proxy
from serveplane.http.proxy import Proxy
from serveplane.kube.client import Client
from serveplane.kube.kind import Kind
from serveplane.objects import Json

HOST = objects.HOST
CONFIG_MAP = Kind("v1", "ConfigMap")
GATEWAY_PORT = 8080
KUBELET_PORT = 10250

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UpOptions:
    folder: Folder
    api_port: int = 0               # 0: the one used before, or a free one
    gateway_port: int = 0           # 0: the one used before, 8080, or a free one
    host_paths: bool = False
    install: bool = True            # apply our manifests; off: a bare cluster
    more: list[Json] = field(default_factory=list)


class UpCluster:
    """A running cluster. `stack` holds what must be undone."""

    def __init__(self, options: UpOptions, clock: Clock, progress: Progress) -> None:
        self.options = options
        self.state = State(pid=os.getpid())
        self._clock = clock
        self._progress = progress
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        folder = self.options.folder
        before = folder.state()
        mark = str(folder.node.resolve())
        found = await end_leftovers(mark, self._clock)
        if found:
            self._progress.step(f"ended {found} processes that an earlier run had left")
        stack.push_async_callback(end_leftovers, mark, self._clock)
        server, endpoint = await self._api_server(stack, before)
        client = Client(server.transport(), self._clock)
        self._progress.step(f"API server at {endpoint.url}", "api")
        await apply_all(client, objects.gateway_definitions(), self._clock)
        await self._controllers(stack, client, endpoint)
        await self._gateway(stack, client, before)
        installing = asyncio.create_task(self._install(client)) if self.options.install else None
        try:
            await self._node(stack, endpoint, mark, before)
            folder.write_state(self.state)
            if installing:
                await installing
        finally:
            if installing:
                installing.cancel()
        for obj in self.options.more:
            self._progress.step(await apply_one(Client(server.transport(), self._clock), obj, "default"))
        self.state.ready = True
        folder.write_state(self.state)

    async def failed(self) -> None:
        """Returns never; raises when a part that must run has ended."""
        await self._failed

    # ---- the parts

    async def _api_server(self, stack: contextlib.AsyncExitStack, before: State) -> tuple[ApiServer, Endpoint]:
        folder = self.options.folder
        server = ApiServer(Store(SqliteLog(folder.store)), self._clock)
        metrics.offer(server.core)
        await stack.enter_async_context(server)
        port = _port(self.options.api_port, before.api_port, "API server", "--api-port")
        endpoint = await listen(server, folder.path, HOST, port)
        self.state.api, self.state.api_port = endpoint.url, endpoint.listener.port
        return server, endpoint

    async def _controllers(self, stack: contextlib.AsyncExitStack, client: Client, endpoint: Endpoint) -> None:
        ready = asyncio.Event()
        pair = endpoint.authority.issue("controllers-kubelet-client", "kube-controllers", ["system:masters"])
        to_nodes = HttpClient(tls=ClientTls(ca=endpoint.ca_file, certificate=pair.certificate, key=pair.key))
        stack.push_async_callback(to_nodes.close)
        work = run_controllers(client, self._clock, endpoint.ca_file.read_bytes(), ready.set, to_nodes)
        self._background(stack, work, "controllers")
        await self._either(ready)

    async def _gateway(self, stack: contextlib.AsyncExitStack, client: Client, before: State) -> None:
        gateway = Gateway(Proxy(via="serveplane-gateway"), self._clock)
        stack.push_async_callback(gateway.close)
        wanted = before.gateway_port or (GATEWAY_PORT if can_listen(HOST, GATEWAY_PORT) else 0)
        port = _port(self.options.gateway_port, wanted, "gateway", "--gateway-port")
        server = await serve(gateway.handle, HOST, port, clock=self._clock, http2=Http2Proxy(gateway.choose))
        stack.push_async_callback(server.close)
        self.state.gateway, self.state.gateway_port = f"http://{HOST}:{server.port}", server.port
        watcher = Watcher(client, self._clock, gateway, HOST, server.port)
        self._background(stack, watcher.run(), "gateway")
        self._progress.step(f"gateway at {self.state.gateway}")

    async def _node(self, stack: contextlib.AsyncExitStack, endpoint: Endpoint, mark: str, before: State) -> None:
        folder = self.options.folder
        self.state.network = before.network or _network(self._clock)
        name = default_name()
        endpoint.authority.issue("node", f"system:node:{name}", ["system:nodes"], hosts=[HOST, name], server=True)
        words = ["--kubeconfig", str(folder.kubeconfig), "--pki", str(folder.path / "pki"),
                 "--folder", str(folder.node), "--images", str(folder.images),
                 "--network", self.state.network, "--resolve", f"{HOST}:{self.state.gateway_port}",
                 "--name", name, *(["--host-paths"] if self.options.host_paths else [])]
        node = NodeProcess(words, folder.path / "node.log", mark)
        stack.push_async_callback(node.stop)
        await node.start()
        self._progress.step("node is ready: pods are ordinary processes of this user", "node")
        self._background(stack, self._watch_node(node), "node")

    async def _watch_node(self, node: NodeProcess) -> None:
        code = await node.wait()
        raise ClusterError(f"the node ended with {code}; {self.options.folder.path / 'node.log'} says why")

    async def _install(self, client: Client) -> None:
        shipped = objects.installation()
        first = [obj for obj in shipped if obj["kind"] == "Namespace"]
        own = [*objects.classes(), objects.gateway(self.state.gateway_port)]
        live = await client.find(CONFIG_MAP, objects.SETTINGS, objects.NAMESPACE)
        if live is None:
            own.append(objects.settings(self.state.gateway_port))   # before the manager starts, which would make its own
        elif moved := objects.moved_settings(live, self.state.gateway_port):   # all else is the user's to edit
            await client.patch(CONFIG_MAP, objects.SETTINGS, objects.NAMESPACE, moved)
        await apply_all(client, [*first, *own], self._clock)
        await apply_all(client, [obj for obj in shipped if obj["kind"] != "Namespace"], self._clock)
        self._progress.step(f"{len(shipped)} objects of the installation applied", "applied")
        deployments = [obj for obj in shipped if obj["kind"] == "Deployment"]
        await available(client, deployments, self._clock)
        self._progress.step(f"{', '.join(one['metadata']['name'] for one in deployments)} ready", "programs")

    # ---- how

    def _background(self, stack: contextlib.AsyncExitStack, work: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        stack.push_async_callback(_cancelled, task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None and not self._failed.done():
            problem = task.exception()
            assert problem is not None
            self._failed.set_exception(problem)

    async def _either(self, event: asyncio.Event) -> None:
        waiting = asyncio.create_task(event.wait())
        both: list[asyncio.Future[Any]] = [waiting, self._failed]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._failed.done():
            self._failed.result()


def _port(asked: int, usual: int, what: str, flag: str) -> int:
    """The port to listen on: what the user asks for must be had, everything else gives way."""
    if asked and not can_listen(HOST, asked):
        raise ClusterError(f"port {asked} for the {what} is in use; choose another with {flag}")
    if asked:
        return asked
    return usual if usual and can_listen(HOST, usual) else 0


def _network(clock: Clock) -> str:
    """Loopback addresses for the pods of this cluster that no other cluster on this machine uses."""
    for _ in range(100):
        network = f"127.{int(64 + clock.random() * 128)}.{int(clock.random() * 16) * 16}.0/20"
        if can_listen(network.removesuffix("0/20") + "1", KUBELET_PORT):
            return network
    return "127.100.0.0/20"


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
