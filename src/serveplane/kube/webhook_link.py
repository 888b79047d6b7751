"""What a manager and its webhook process say to each other: one question at a time over a socket that they alone share.

The manager asks, the process answers. When the socket closes, the other one is gone.
"""

import asyncio
import socket
import struct
from typing import Any

import msgspec

from serveplane.kube.errors import ConnectionFailed
from serveplane.kube.metrics import Snapshot
from serveplane.objects import Json

LENGTH = struct.Struct("!I")
LONGEST = 64 << 20


class Begin(msgspec.Struct, tag=True, frozen=True):
    """The first question: what the process has to know."""

    told: Json


class UsePair(msgspec.Struct, tag=True, frozen=True):
    """Present this certificate, and accept connections from now on."""

    certificate: bytes
    key: bytes


class HowAreYou(msgspec.Struct, tag=True, frozen=True):
    pass


class Count(msgspec.Struct, tag=True, frozen=True):
    """All metrics."""


class Stop(msgspec.Struct, tag=True, frozen=True):
    """Accept no more, finish what is being answered within so many seconds, and end."""

    grace: float


Question = Begin | UsePair | HowAreYou | Count | Stop


class Answer(msgspec.Struct, frozen=True):
    why_not: str = ""
    """What is missing before reviews are answered."""
    warming: bool = False
    """Whether it would answer, but does not know enough of the cluster yet."""
    error: str = ""
    """Why the question could not be followed."""
    counted: Snapshot | None = None


class Link:
    """One end of the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._turn = asyncio.Lock()
        self._questions: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Question)
        self._answers = msgspec.msgpack.Decoder(Answer)

    @staticmethod
    async def over(sock: socket.socket) -> "Link":
        return Link(*await asyncio.open_connection(sock=sock))

    async def ask(self, question: Question) -> Answer:
        """The answer; `ConnectionFailed` when the other one is gone. Who stops waiting leaves no answer behind for the next one."""
        exchange = asyncio.ensure_future(self._exchange(question))
        exchange.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may be that nobody waits any more
        return await asyncio.shield(exchange)

    async def _exchange(self, question: Question) -> Answer:
        async with self._turn:
            await self._send(question)
            frame = await self._frame()
        if frame is None:
            raise ConnectionFailed("the webhook process is gone")
        return self._answers.decode(frame)

    async def question(self) -> Question | None:
        """What is asked next; None when nobody will ask any more."""
        frame = await self._frame()
        found: Question | None = None if frame is None else self._questions.decode(frame)
        return found

    async def answer(self, answer: Answer) -> None:
        await self._send(answer)

    def close(self) -> None:
        self._writer.close()

    async def _send(self, message: Question | Answer) -> None:
        frame = msgspec.msgpack.encode(message)
        try:
            self._writer.write(LENGTH.pack(len(frame)) + frame)
            await self._writer.drain()
        except OSError as error:
            raise ConnectionFailed(f"the webhook process is gone: {error}") from None

    async def _frame(self) -> bytes | None:
        try:
            [size] = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            if size > LONGEST:
                return None
            return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError):
            return None
