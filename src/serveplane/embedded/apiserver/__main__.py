"""The API server alone, as a program: `python -m serveplane.embedded.apiserver --data DIR [--port N]`.

It prints one line of JSON (url, kubeconfig, ca, token) when it is ready, and ends on SIGTERM or SIGINT.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import msgspec

from serveplane import http
from serveplane.clock import SYSTEM
from serveplane.embedded.apiserver.endpoint import listen
from serveplane.embedded.apiserver.request import ADMIN
from serveplane.embedded.apiserver.server import ApiServer
from serveplane.embedded.store import SqliteLog, Store


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="serveplane-apiserver", description="A Kubernetes API server for one machine."
    )
    parser.add_argument("--data", type=Path, required=True, help="folder for objects, certificates and the kubeconfig")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--in-memory", action="store_true", help="keep no objects on disk")
    parser.add_argument("--admin-token", default="", help="a bearer token that is the administrator, for tests")
    http.run(_run(parser.parse_args(arguments)))


async def _run(options: argparse.Namespace) -> None:
    options.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    store = Store() if options.in_memory else Store(SqliteLog(options.data / "store.db"))
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stopping.set)
    async with ApiServer(store, SYSTEM) as server:
        if options.admin_token:
            server.core.authenticator.add_static(options.admin_token, ADMIN)
        endpoint = await listen(server, options.data, options.host, options.port)
        found = {"url": endpoint.url, "kubeconfig": str(endpoint.kubeconfig), "ca": str(endpoint.ca_file)}
        print(msgspec.json.encode(found).decode(), flush=True)
        await stopping.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
