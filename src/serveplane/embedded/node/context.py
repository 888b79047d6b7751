"""What all pods of a node share."""
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from serveplane.clock import Clock
from serveplane.embedded.node.addresses import AddressPool
from serveplane.embedded.node.images import ImageTable
from serveplane.embedded.node.references import ReferenceWatch
from serveplane.kube.client import Client
from serveplane.objects import Json

Recorder = Callable[[Json, str, str, str], None]   # object, type, reason, message


@dataclass(frozen=True)
class NodeContext:
    client: Client
    clock: Clock
    name: str
    host: str                       # the node's own address
    folder: Path                    # everything of this node lies below it
    host_root: Path | None          # where hostPath volumes lie; None: the machine's own paths
    images: Callable[[], ImageTable]
    images_file: Path
    addresses: AddressPool | None   # None: this system has one loopback address only
    references: ReferenceWatch
    record: Recorder
    given: Mapping[str, str]        # variables of every container: the API server's address
    proxy: str                      # host:port of the HTTP proxy that knows Services by name; empty: there is none
    allocatable: Mapping[str, Fraction]
    mark: str

    def pod_folder(self, uid: str) -> Path:
        return self.folder / "pods" / uid

    def log_folder(self, pod: Json) -> Path:
        metadata = pod["metadata"]
        return self.folder / "logs" / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
