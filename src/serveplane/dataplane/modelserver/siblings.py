"""The other workers of the same server: what one loads or unloads, all do; what one counts, each can tell.

A client reaches whichever worker the kernel picks, so a change asked of one is done there first and then told to the others, before
the client hears of it. Each worker listens for that on a socket file in a folder that only this server's processes know. A
worker that comes later begins with the models of those that are there.

Counts must never fall, or a graph of their rate would leap. So what a worker was last heard to have counted is kept in a file
beside its socket: it goes on to count when the worker is busy, and when it has died and another one has its number.
"""
import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from serveplane.clock import SYSTEM
from serveplane.dataplane.modelserver.errors import ModelNotFound, ModelNotReady, ServingError
from serveplane.dataplane.modelserver.metrics import Counts, Metrics
from serveplane.dataplane.modelserver.repository import Repository
from serveplane.dataplane.modelserver.workers import FOLDER, WORKER
from serveplane.http.client import Client
from serveplane.http.errors import ClientError
from serveplane.http.messages import Request, Response
from serveplane.http.server import Server, serve

LOAD_SECONDS = 600.0
COUNT_SECONDS = 2.0


class Told(msgspec.Struct):
    """What one process counted."""

    process: str
    counts: Counts


class Ledger(msgspec.Struct):
    """What all that had one worker's number counted: the last one, and those before it."""

    last: Told
    before: Counts = msgspec.field(default_factory=Counts)


class Siblings:
    """Use `start`, then `close`. Alone (no workers) nothing is ever told."""

    def __init__(self, repository: Repository, metrics: Metrics, environment: Mapping[str, str] = os.environ) -> None:
        self._repository, self._metrics = repository, metrics
        self._process = SYSTEM.uuid()
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

    async def together(self) -> Metrics:
        """What the whole server counted."""
        if self._own is None:
            return self._metrics
        everyone = {path.with_suffix(".sock") for path in self._own.parent.iterdir() if path.suffix in (".sock", ".counts")}
        others = sorted(everyone - {self._own})
        async with Client() as client:
            heard = await asyncio.gather(*(self._heard(client, path) for path in others))
        ledgers = [self._entered(self._own, Told(self._process, self._metrics.counts()))]
        ledgers += [self._entered(path, told) for path, told in zip(others, heard, strict=True)]
        return self._metrics.together(counts for ledger in ledgers if ledger is not None for counts in (ledger.before, ledger.last.counts))

    async def _heard(self, client: Client, path: Path) -> Told | None:
        try:
            response = await client.request("GET", "http://worker/counts", unix=str(path), timeout=COUNT_SECONDS)
            content = await response.read()
            return msgspec.json.decode(content, type=Told) if response.status == 200 else None
        except (OSError, ClientError, msgspec.MsgspecError):
            return None

    def _entered(self, worker: Path, told: Told | None) -> Ledger | None:
        """The ledger of a worker with what was now heard; as it was, if nothing was."""
        path = worker.with_suffix(".counts")
        try:
            known = msgspec.json.decode(path.read_bytes(), type=Ledger)
        except (OSError, msgspec.MsgspecError):
            known = None
        if told is None:
            return known
        ledger = Ledger(told, Counts() if known is None else known.before)
        if known is not None and known.last.process != told.process:
            gone = Metrics()
            for counts in (known.before, known.last.counts):
                gone.add(counts, self._metrics.loaded)
            ledger.before = gone.counts()
        passing = path.with_suffix(f".{self._process}")
        with suppress(OSError):   # a full disk: the sum is then right as long as nobody dies
            passing.write_bytes(msgspec.json.encode(ledger))
            os.replace(passing, path)
        return ledger

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
        if verb == "counts":
            return Response.json(Told(self._process, self._metrics.counts()))
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
