"""What the thin verbs share: which cluster they talk to, which kind a word means, and the kubectl line they stand for."""
import argparse
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from serveplane.cli.cluster.folder import ClusterError, Folder, default_folder, running
from serveplane.clock import SYSTEM
from serveplane.http import run as run_loop
from serveplane.kube.client import Client
from serveplane.kube.config import ClusterConfig, load_config
from serveplane.kube.errors import KubeError
from serveplane.kube.http_transport import HttpTransport
from serveplane.kube.kind import Kind
from serveplane.objects import Json, yamlio

# The words people type, beside the kinds' own names and plurals
SHORT = {"isvc": "inferenceservices", "po": "pods", "svc": "services", "deploy": "deployments", "cm": "configmaps",
         "ns": "namespaces", "no": "nodes", "rs": "replicasets", "sts": "statefulsets", "ds": "daemonsets",
         "pvc": "persistentvolumeclaims", "pv": "persistentvolumes", "sa": "serviceaccounts", "ing": "ingresses",
         "hpa": "horizontalpodautoscalers", "ev": "events", "crd": "customresourcedefinitions",
         "csr": "clusterservingruntimes", "sr": "servingruntimes", "ig": "inferencegraphs", "tm": "trainedmodels"}


def add_cluster_arguments(parser: argparse.ArgumentParser, *, namespace: bool = True) -> None:
    parser.add_argument("--data", type=Path, default=default_folder(), metavar="DIR",
                        help="the cluster's data folder (default: %(default)s)")
    parser.add_argument("--kubeconfig", help="talk to this cluster instead")
    if namespace:
        parser.add_argument("-n", "--namespace", default="", help="default: default")


class Session:
    """A verb's cluster."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.folder = Folder(args.data)
        self.config: ClusterConfig = self._config(args)
        self.namespace: str = getattr(args, "namespace", "") or self.config.namespace
        self.client = Client(HttpTransport(self.config), SYSTEM, user_agent="serveplane-cli")

    def _config(self, args: argparse.Namespace) -> ClusterConfig:
        if args.kubeconfig:
            return load_config(args.kubeconfig)
        running(self.folder)
        return load_config(str(self.folder.kubeconfig))

    def kubectl(self, *words: str) -> None:
        """Say the line that does the same, so that the next step can be taken with kubectl."""
        config = shlex.quote(self.config.source)
        print(f"$ kubectl --kubeconfig {config} {' '.join(words)}", file=sys.stderr)

    @property
    def in_namespace(self) -> str:
        return "" if self.namespace == "default" else f" -n {self.namespace}"

    async def kind(self, word: str) -> tuple[Kind, bool]:
        """The kind that a word such as `isvc` or `pods` means, and whether it has namespaces."""
        plural = SHORT.get(word.lower(), word.lower())
        known = await resources(self.client)
        for kind, names, namespaced in known:
            if plural in names:
                return kind, namespaced
        raise ClusterError(f"the cluster has no kind that is called {word!r}")


def told_name(kind: Kind) -> str:
    """A kind as kubectl tells it beside a name: `deployment.apps`."""
    return kind.kind.lower() + (f".{kind.group}" if kind.group else "")


async def resources(client: Client) -> list[tuple[Kind, set[str], bool]]:
    """Every kind that is served, in its preferred version, with the names it goes by."""
    found = []
    for path in ["/api/v1", *await _group_paths(client)]:
        listing = await _get(client, path)
        for entry in listing.get("resources") or ():
            if "/" in entry["name"]:
                continue
            kind = Kind(listing["groupVersion"], entry["kind"])
            names = {entry["name"], entry["kind"].lower(), entry.get("singularName") or "",
                     *(entry.get("shortNames") or ())} - {""}
            found.append((kind, names, bool(entry["namespaced"])))
    return found


async def _group_paths(client: Client) -> list[str]:
    groups = await _get(client, "/apis")
    return [f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups.get("groups") or ()]


async def _get(client: Client, path: str) -> Json:
    from serveplane.kube.wire import decode
    reply = await client.rest.request("GET", path)
    assert isinstance(reply.body, bytes)
    return decode(reply.body)


def objects_of(names: list[str]) -> list[Json]:
    """The objects in files; `-` is standard input, a folder means its YAML files."""
    found: list[Json] = []
    for name in names:
        path = Path(name)
        files = sorted([*path.glob("*.yaml"), *path.glob("*.yml"), *path.glob("*.json")]) if path.is_dir() else [path]
        for file in files:
            try:
                text = sys.stdin.read() if name == "-" else file.read_text(encoding="utf-8")
                found += [obj for obj in yamlio.load_all(text) if obj]
            except OSError as problem:
                raise ClusterError(f"{file} cannot be read: {problem.strerror}") from problem
            except yamlio.YamlError as problem:
                raise ClusterError(f"{file}: {problem}") from problem
    return [item for obj in found for item in (obj["items"] if obj.get("kind") == "List" else [obj])]


def run_verb(command: str, args: argparse.Namespace, work: Callable[[Session], Awaitable[int]]) -> int:
    """Run a verb; trouble is one line."""
    async def main() -> int:
        session = Session(args)
        try:
            return await work(session)
        finally:
            await session.client.close()
    try:
        return run_loop(main())
    except (ClusterError, KubeError) as problem:
        print(f"serveplane {command}: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
