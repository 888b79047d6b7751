"""`serveplane status`: where the one-machine cluster listens, what runs in it and what it uses."""
import argparse
import os
import shlex
import sys
from pathlib import Path

from serveplane.cli.cluster.folder import ClusterError, Folder, default_folder, running
from serveplane.cli.cluster.verbs import Session
from serveplane.embedded.node.figures import Figures, by_session
from serveplane.embedded.node.leftovers import marked_processes
from serveplane.http import run as run_loop
from serveplane.kube.errors import KubeError
from serveplane.kube.kind import Kind
from serveplane.objects import Json
from serveplane.objects.conditions import is_true

POD = Kind("v1", "Pod")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, default=default_folder(), metavar="DIR", help="default: %(default)s")
    parser.set_defaults(kubeconfig=None, namespace="")


def run(args: argparse.Namespace) -> int:
    folder = Folder(args.data)
    try:
        state = running(folder)
        print(f"Cluster in {folder.path} (pid {state.pid}){'' if state.ready else ', still starting'}")
        print(f"  API server   {state.api}\n  Gateway      {state.gateway}")
        print(f"  kubectl      export KUBECONFIG={shlex.quote(str(folder.kubeconfig))}")
        figures = _figures(folder, state.pid)
        print(f"  Memory       {figures.memory / 2**20:.0f} MB in all processes together")
        return run_loop(_pods(args))
    except (ClusterError, KubeError) as problem:
        print(f"serveplane status: {problem}", file=sys.stderr)
        return 1


async def _pods(args: argparse.Namespace) -> int:
    session = Session(args)
    try:
        pods = await session.client.list(POD)
    finally:
        await session.client.close()
    ready = [pod for pod in pods if is_true((pod.get("status") or {}).get("conditions"), "Ready")]
    print(f"  Pods         {len(ready)} of {len(pods)} ready")
    for pod in pods:
        if pod not in ready and (pod.get("status") or {}).get("phase") not in ("Succeeded",):
            print(f"    {pod['metadata']['namespace']}/{pod['metadata']['name']}: {_state(pod)}")
    return 0


def _state(pod: Json) -> str:
    status = pod.get("status") or {}
    for entry in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (entry.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason"):
            return f"{entry['name']} {waiting['reason']} {waiting.get('message', '')}".rstrip()
    return str(status.get("phase") or "Pending")


def _figures(folder: Folder, pid: int) -> Figures:
    """Memory of the whole system: this cluster's process, its node, and every process of its pods."""
    sessions = by_session()
    leaders = {os.getsid(one) for one in marked_processes(str(folder.node.resolve())) if _is_alive(one)}
    total = Figures(0.0, 0)
    for leader in leaders:
        total += sessions.get(leader, Figures())
    return total + _own(pid)


def _own(pid: int) -> Figures:
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        return Figures(0.0, int(fields[1]) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, IndexError):
        return Figures()


def _is_alive(pid: int) -> bool:
    try:
        os.getsid(pid)
    except ProcessLookupError:
        return False
    return True
