"""The other workers of the same server: what one loads or unloads, all do.

A client reaches whichever worker the kernel picks, so a change asked of one is done there first and then told to the others, before
the client hears of it. Each worker listens for that on a socket file in a folder that only this server's processes know. A
worker that comes later begins with the models of those that are there.
"""
import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from serveplane.dataplane.modelserver.errors import ModelNotFound, ModelNotReady, ServingError
from serveplane.dataplane.modelserver.repository import Repository
from serveplane.dataplane.modelserver.workers import FOLDER, WORKER
from serveplane.http.client import Client
from serveplane.http.errors import ClientError
from serveplane.http.messages import Request, Response
from serveplane.http.server import Server, serve

LOAD_SECONDS = 600.0


class Siblings:
    """Use `start`, then `close`. Alone (no workers) nothing is ever told."""

    def __init__(self, repository: Repository, environment: Mapping[str, str] = os.environ) -> None:
        self._repository = repository
        folder, number = environment.get(FOLDER), environment.get(WORKER)
        self._own = Path(folder) / f"{number}.sock" if folder and number else None
        self._server: Server | None = None
        self.settled = False   # this worker has loaded what it began with: others may do alike

    async def start(self) -> None:
        if self._own is not None:
            self._server = await serve(self._asked, unix=self._own)

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()

    async def load(self, name: str) -> None:
        await self._repository.load(name)
        await self._tell("load", name)

    async def unload(self, name: str) -> None:
        self._repository.unload(name)
        await self._tell("unload", name)

    async def names(self) -> list[str] | None:
        """What the others serve; None if there are none yet."""
        for path in self._others():
            try:
                async with Client() as client:
                    response = await client.request("GET", "http://worker/", unix=str(path), timeout=5.0)
                    content = await response.read()
                if response.status == 200:
                    return msgspec.json.decode(content, type=list[str])
            except (OSError, ClientError, msgspec.MsgspecError):   # died, or not yet there
                continue
        return None

    def _others(self) -> list[Path]:
        return [] if self._own is None else sorted(path for path in self._own.parent.glob("*.sock") if path != self._own)

    async def _tell(self, verb: str, name: str) -> None:
        others = self._others()
        if not others:
            return
        async with Client() as client:
            reasons = await asyncio.gather(*(self._told(client, path, verb, name) for path in others))
        if failed := [reason for reason in reasons if reason]:
            raise ModelNotReady(name, f"Not every worker could {verb} it: {failed[0]}")

    async def _told(self, client: Client, path: Path, verb: str, name: str) -> str:
        """Why it failed; "" if it did not. One that died will come back with what the others have."""
        try:
            response = await client.request("POST", f"http://worker/{verb}/{quote(name, safe='')}", unix=str(path), timeout=LOAD_SECONDS)
            said = await response.read()
        except (OSError, ClientError):
            return ""
        return "" if response.status in (200, 404) else said.decode(errors="replace")

    async def _asked(self, request: Request) -> Response:
        verb, _, name = request.path.strip("/").partition("/")
        if not verb and not self.settled:
            return Response.text("still loading", 503)
        try:
            if verb == "load":
                await self._repository.load(unquote(name))
            elif verb == "unload":
                self._repository.unload(unquote(name))
        except ModelNotFound as error:
            return Response.text(str(error), 404)
        except ServingError as error:
            return Response.text(str(error), error.status)
        return Response.json(self._repository.names())
