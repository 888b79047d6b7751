"""A node as a whole: its Node object, its heartbeat, its pods."""
import asyncio
import contextlib
import os
import platform
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from urllib.parse import urlsplit

from serveplane import __version__
from serveplane.clock import Clock, micro_timestamp, timestamp
from serveplane.embedded.node.addresses import AddressPool, has_own_addresses
from serveplane.embedded.node.agent import Agent
from serveplane.embedded.node.context import NodeContext
from serveplane.embedded.node.figures import machine_memory
from serveplane.embedded.node.images import ImageTable, load_table
from serveplane.embedded.node.leftovers import end_leftovers
from serveplane.embedded.node.plainpath import forget_link, plain_path
from serveplane.embedded.node.references import ReferenceWatch
from serveplane.embedded.node.server import NodeServer
from serveplane.embedded.node.tidying import remove_forgotten
from serveplane.http import TlsConfig, serve
from serveplane.kube.client import Client, PatchType
from serveplane.kube.errors import AlreadyExists, KubeError, NotFound
from serveplane.kube.events import Recorder
from serveplane.kube.kind import Kind
from serveplane.objects import Json

NODE, LEASE = Kind("v1", "Node"), Kind("coordination.k8s.io/v1", "Lease")
LEASES = "kube-node-lease"
HEARTBEAT, LEASE_SECONDS = 10.0, 40
MAX_PODS = 250
VERSION = "v1.34.0"


@dataclass(frozen=True)
class NodeOptions:
    name: str
    folder: Path
    server: str                                   # the API server's address, for the pods
    network: str = "127.100.0.0/20"              # where pods get their loopback addresses from
    host: str = "127.0.0.1"
    host_paths: bool = False                      # hostPath volumes are the machine's own paths
    image_files: tuple[Path, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    proxy: str = ""                              # host:port of the cluster's HTTP proxy, which knows Services by name
    tls: TlsConfig | None = None                 # with it the node answers for logs, to the API server only
    overcommit: int = 10                          # how much more may be asked for than the machine has


class Node:
    """`async with`-free on purpose: `run` is its whole life, and its end stops every process."""

    def __init__(self, client: Client, clock: Clock, options: NodeOptions) -> None:
        self._client = client
        self._clock = clock
        self._options = options
        self._recorder = Recorder(client, "kubelet", clock, options.name)
        self.context = _context(client, clock, options, self._recorder)
        self.agent = Agent(self.context)
        self._server = NodeServer(self.agent, clock)
        self._port = 0

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        await end_leftovers(self.context.mark, self._clock)
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(forget_link, self._options.folder)
            if self._options.tls is not None:
                server = await serve(self._server.router, self._options.host, 0, tls=self._options.tls,
                                     clock=self._clock)
                stack.push_async_callback(server.close)
                self._port = server.port
            async with asyncio.TaskGroup() as group:
                group.create_task(self._recorder.run(), name="events")
                await self.register()
                await remove_forgotten(self.context)
                group.create_task(self._beat(), name="heartbeat")
                group.create_task(self.agent.run(), name="pods")
                ready()

    async def register(self) -> None:
        """Make the Node object, or take up the one that is there; its labels stay."""
        wanted = node_object(self._options, self._clock, self._port)
        name = wanted["metadata"]["name"]
        try:
            await self._client.create(wanted)
        except AlreadyExists:
            labels = {"metadata": {"labels": wanted["metadata"]["labels"]}}
            await self._client.patch(NODE, name, None, labels)
        await self._client.patch(NODE, name, None, {"status": wanted["status"]}, subresource="status",
                                 patch_type=PatchType.STRATEGIC)

    async def _beat(self) -> None:
        while True:
            with contextlib.suppress(KubeError):   # the API server may be away; the next beat tries again
                await self._renew()
            await self._clock.sleep(HEARTBEAT)

    async def _renew(self) -> None:
        spec: Json = {"holderIdentity": self._options.name, "leaseDurationSeconds": LEASE_SECONDS,
                      "renewTime": micro_timestamp(self._clock.now())}
        try:
            await self._client.patch(LEASE, self._options.name, LEASES, {"spec": spec})
        except NotFound:
            await self._client.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                                       "metadata": {"name": self._options.name, "namespace": LEASES}, "spec": spec})


def node_object(options: NodeOptions, clock: Clock, port: int) -> Json:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine().lower())
    system = platform.system().lower()
    now = timestamp(clock.now())
    capacity = {"cpu": str(os.cpu_count() or 1), "memory": f"{machine_memory() // 1024}Ki", "pods": str(MAX_PODS),
                "ephemeral-storage": "100Gi"}
    # Requests in manifests are sized for servers of a cluster; processes that are idle cost nothing here
    allocatable = {**capacity, "cpu": str((os.cpu_count() or 1) * options.overcommit),
                   "memory": f"{machine_memory() // 1024 * options.overcommit}Ki"}
    labels = {"kubernetes.io/hostname": options.name, "kubernetes.io/os": system, "kubernetes.io/arch": machine,
              "serveplane.dev/node": "process", **options.labels}
    conditions = [_condition("MemoryPressure", "False", "KubeletHasSufficientMemory", now),
                  _condition("DiskPressure", "False", "KubeletHasNoDiskPressure", now),
                  _condition("PIDPressure", "False", "KubeletHasSufficientPID", now),
                  _condition("Ready", "True", "KubeletReady", now)]
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": options.name, "labels": labels}, "spec": {},
        "status": {"capacity": capacity, "allocatable": allocatable, "conditions": conditions,
                   "addresses": [{"type": "InternalIP", "address": options.host},
                                 {"type": "Hostname", "address": options.name}],
                   "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
                   "nodeInfo": {"architecture": machine, "operatingSystem": system, "kubeletVersion": VERSION,
                                "kubeProxyVersion": "", "containerRuntimeVersion": f"serveplane://{__version__}",
                                "osImage": platform.platform(terse=True), "kernelVersion": platform.release(),
                                "machineID": "", "systemUUID": "", "bootID": ""}}}


def _condition(kind: str, status: str, reason: str, now: str) -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": "the process node says so",
            "lastHeartbeatTime": now, "lastTransitionTime": now}


def _context(client: Client, clock: Clock, options: NodeOptions, recorder: Recorder) -> NodeContext:
    options.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = plain_path(options.folder)
    capacity = {"cpu": Fraction(os.cpu_count() or 1), "memory": Fraction(machine_memory())}
    images_file = options.image_files[0] if options.image_files else folder / "images.toml"
    return NodeContext(
        client=client, clock=clock, name=options.name, host=options.host, folder=folder,
        host_root=None if options.host_paths else folder / "host",
        images=_reloading(options.image_files or (images_file,)), images_file=images_file,
        addresses=AddressPool(options.network) if has_own_addresses(options.network) else None,
        references=ReferenceWatch(client, clock), record=recorder.event,
        given=_api_server(options.server), proxy=options.proxy, allocatable=capacity,
        mark=str(options.folder.resolve()))


def _reloading(files: tuple[Path, ...]) -> Callable[[], ImageTable]:
    """The table of images, read again when a file changed, so a line added helps at the next try."""
    seen: tuple[float, ...] = ()
    table: ImageTable | None = None

    def current() -> ImageTable:
        nonlocal seen, table
        stamps = tuple(file.stat().st_mtime if file.exists() else 0.0 for file in files)
        if table is None or stamps != seen:
            seen, table = stamps, load_table(*files)
        return table
    return current


def _api_server(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    port = str(parts.port or (443 if parts.scheme == "https" else 80))
    return {"KUBERNETES_SERVICE_HOST": parts.hostname or "127.0.0.1", "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port}


def default_name() -> str:
    """The machine's name as a node may be called."""
    name = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in socket.gethostname().lower())
    return name.strip("-.") or "localhost"


