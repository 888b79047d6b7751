"""The node as a process of its own, beside the one that runs the API server.

It is told to end by closing its standard input: that also happens when this process is killed, so pods never outlive their cluster.
"""
import asyncio
import contextlib
import os
import sys
from pathlib import Path

from serveplane.embedded.node.leftovers import MARK

GRACE = 12.0   # pods are given five seconds each, all at once


class NodeProcess:
    def __init__(self, words: list[str], log: Path, mark: str) -> None:
        self._words = words
        self._log = log
        self._mark = mark
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    async def start(self, patience: float = 90.0) -> None:
        """Start, and wait until it says it is ready."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "serveplane.cli.main", "node", *self._words, "--stop-with-stdin",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log, start_new_session=True,
                env={**os.environ, MARK: self._mark})
        assert self._process.stdout is not None
        async with asyncio.timeout(patience):
            line = await self._process.stdout.readline()
        if line.strip() != b"ready":
            raise RuntimeError(f"the node did not start; {self._log} says why")

    async def wait(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(GRACE):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
