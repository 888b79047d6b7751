"""A model server without sockets: requests go straight to the application."""
from pathlib import Path
from typing import Any

import msgspec

from serveplane.dataplane.modelserver.formats import FormatOptions, open_model
from serveplane.dataplane.modelserver.metrics import Metrics
from serveplane.dataplane.modelserver.model import Model
from serveplane.dataplane.modelserver.repository import Repository
from serveplane.dataplane.modelserver.server import Application
from serveplane.http.messages import Request, Response


class Server:
    def __init__(self, folder: Path, options: FormatOptions | None = None) -> None:
        metrics = Metrics()
        self.repository = Repository(folder, lambda name, path: open_model(name, path, options or FormatOptions()), metrics)
        self.application = Application(self.repository, metrics)

    async def add(self, model: Model) -> "Server":
        await self.repository.add(model)
        return self

    async def __call__(self, method: str, target: str, body: Any = b"", headers: Any = ()) -> Response:
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self.application(Request(method, target, headers, raw))

    async def get(self, target: str) -> tuple[int, Any]:
        return answer(await self("GET", target))

    async def post(self, target: str, body: Any, headers: Any = ()) -> tuple[int, Any]:
        return answer(await self("POST", target, body, headers))


def answer(response: Response) -> tuple[int, Any]:
    assert isinstance(response.body, bytes)
    return response.status, msgspec.json.decode(response.body)
