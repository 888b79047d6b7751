"""A Kubernetes API server for tests: in this process, or over HTTPS with a kubeconfig.

    async with api_server() as server:                       # in process, nothing kept
        client = Client(server.transport())

    async with api_server(folder=tmp_path, https=True) as server:
        subprocess.run(["kubectl", "--kubeconfig", server.kubeconfig, "get", "namespaces"])

`pytest_plugins = ["serveplane.embedded.testing"]` gives the fixture `kube_api_server`.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

from serveplane.clock import SYSTEM, Clock
from serveplane.embedded.apiserver import ApiServer
from serveplane.embedded.apiserver.endpoint import Endpoint, listen
from serveplane.embedded.store import SqliteLog, Store


class TestServer(ApiServer):
    """An API server and, over HTTPS, how to reach it."""

    __test__ = False
    endpoint: Endpoint | None = None

    @property
    def kubeconfig(self) -> Path:
        if self.endpoint is None:
            raise ValueError("started without https=True")
        return self.endpoint.kubeconfig

    @property
    def url(self) -> str:
        if self.endpoint is None:
            raise ValueError("started without https=True")
        return self.endpoint.url


@contextlib.asynccontextmanager
async def api_server(
    folder: Path | None = None, *, https: bool = False, clock: Clock = SYSTEM
) -> AsyncIterator[TestServer]:
    """A running server; with a folder it keeps its objects there, and finds them again."""
    with TemporaryDirectory(prefix="serveplane-") if folder is None else contextlib.nullcontext(folder) as place:
        log = SqliteLog(Path(place) / "store.db") if folder is not None else None
        async with TestServer(Store(log), clock) as server:
            if https:
                server.endpoint = await listen(server, Path(place))
            yield server


with contextlib.suppress(ImportError):  # only where there is pytest, and its plugin for coroutines
    import pytest_asyncio

    @pytest_asyncio.fixture
    async def kube_api_server() -> AsyncIterator[TestServer]:
        """A server in this process, for one test."""
        async with api_server() as server:
            yield server
