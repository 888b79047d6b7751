"""`serveplane node`: joins this machine to a cluster as a node that runs containers as processes."""
import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path

from serveplane.clock import SYSTEM
from serveplane.embedded.node.node import Node, NodeOptions, default_name
from serveplane.http import TlsConfig
from serveplane.http import run as run_loop
from serveplane.kube.client import Client
from serveplane.kube.config import load_config
from serveplane.kube.errors import KubeError
from serveplane.kube.http_transport import HttpTransport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", help="how to reach the API server (default: as kubectl finds it)")
    parser.add_argument("--name", default=default_name(), help="the node's name (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("serveplane-node"),
                        help="where pods, volumes and logs lie (default: %(default)s)")
    parser.add_argument("--images", type=Path, action="append", default=[], metavar="FILE",
                        help="a table of images beside the built-in one; may be repeated")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE", help="a label of the node")
    parser.add_argument("--host-paths", action="store_true",
                        help="hostPath volumes are this machine's own paths (default: below the node's folder)")
    parser.add_argument("--network", default="127.100.0.0/20", help="pods' loopback addresses (default: %(default)s)")
    parser.add_argument("--resolve", default="", metavar="HOST:PORT", help="the cluster's HTTP proxy, for Service names")
    parser.add_argument("--pki", type=Path, help="folder with ca.crt, node.crt and node.key, for serving logs")
    parser.add_argument("--stop-with-stdin", action="store_true", help="end when standard input ends")


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    try:
        return run_loop(_main(args))
    except KeyboardInterrupt:
        return 130
    except KubeError as problem:
        return _refused(problem)
    except BaseExceptionGroup as problems:   # the parts of a node run in groups
        known, others = problems.split(KubeError)
        if known is None or others is not None:
            raise
        return _refused(known)


def _refused(problem: BaseException) -> int:
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    print(f"serveplane node: {problem}", file=sys.stderr)
    return 1


async def _main(args: argparse.Namespace) -> int:
    config = load_config(args.kubeconfig)
    client = Client(HttpTransport(config), SYSTEM, user_agent="serveplane-node")
    labels = dict(text.split("=", 1) for text in args.label)
    options = NodeOptions(args.name, args.folder.absolute(), config.server, args.network, host_paths=args.host_paths,
                          image_files=tuple(path.absolute() for path in args.images), labels=labels,
                          proxy=args.resolve, tls=_tls(args.pki))
    node = Node(client, SYSTEM, options)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    if args.stop_with_stdin:
        _when_stdin_ends(stop)
    living = asyncio.create_task(node.run(lambda: print("ready", flush=True)))
    waiting = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([living, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (living, waiting):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await living
        await client.close()
    return 0


def _tls(folder: Path | None) -> TlsConfig | None:
    if folder is None:
        return None
    return TlsConfig(folder / "node.crt", folder / "node.key", client_ca=folder / "ca.crt")


def _when_stdin_ends(stop: asyncio.Event) -> None:
    """The parent holds the other end; when it dies, even by kill -9, the system closes it."""
    loop = asyncio.get_running_loop()
    number = sys.stdin.fileno()
    os.set_blocking(number, False)

    def readable() -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(number, 1024):
                loop.remove_reader(number)
                stop.set()
    loop.add_reader(number, readable)
