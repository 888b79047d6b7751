"""Commands beside a container, as `kubectl exec` and `cp` ask for them, and its output, as `kubectl attach` does.

What is said goes over numbered channels: input, output, errors, how it ended, the size of the terminal. Clients speak them in a
WebSocket (v5 or v4 of the protocol), or as SPDY streams, as older ones and real API servers do.
"""
import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qs

import msgspec

from serveplane.embedded.node import processes
from serveplane.embedded.node.containers import Run
from serveplane.embedded.node.paths import rewriter
from serveplane.embedded.streams import spdy
from serveplane.embedded.streams.websocket import WebSocket, agreed
from serveplane.http import HttpError, Request, Response, StatusError, Tunnel, Upgrade
from serveplane.lifeline import die_with_parent
from serveplane.objects import Json

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")   # in WebSockets
STREAM_TYPES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
PIECE_BYTES = 32 << 10
STREAMS_SECONDS = 30.0


class Channels(Protocol):
    async def read(self) -> tuple[int, bytes] | None:
        """The next that the client says; no bytes mean that this channel has ended, None that the client has."""

    async def write(self, channel: int, data: bytes) -> None: ...

    async def finish(self) -> None: ...


@dataclass(frozen=True)
class Options:
    words: tuple[str, ...]
    stdin: bool
    tty: bool
    stderr: bool = True

    @classmethod
    def of(cls, query: str) -> "Options":
        """By the names that kubelets have for them."""
        found = parse_qs(query, keep_blank_values=True)

        def flag(name: str) -> bool:
            return found.get(name, ["0"])[-1].lower() in ("1", "true")

        return cls(tuple(found.get("command", ())), flag("input"), flag("tty"), flag("error"))


Talk = Callable[[Channels], Awaitable[None]]


def upgraded(request: Request, options: Options, talk: Talk) -> Response:
    """Agree on how to speak, then talk."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    if spdy.is_asked(headers):
        wanted = {"error"} | ({"stdin"} if options.stdin else set()) | ({"resize"} if options.tty else set())
        accepted = [("Upgrade", spdy.UPGRADE), ("X-Stream-Protocol-Version", spdy.COMMANDS)]
        return Upgrade(lambda tunnel: _over_spdy(tunnel, wanted, options, talk), accepted)
    answer = agreed(headers, PROTOCOLS)
    if answer is None:
        raise StatusError(400, f"a WebSocket with one of {', '.join(PROTOCOLS)} is required\n")

    async def over_websocket(tunnel: Tunnel) -> None:
        with contextlib.suppress(HttpError):   # the client went away
            await talk(_WebSocketChannels(WebSocket(tunnel)))

    return Upgrade(over_websocket, list(answer.items()))


class _WebSocketChannels:
    """Each message begins with the number of its channel."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def read(self) -> tuple[int, bytes] | None:
        while (message := await self._socket.message()) is not None:
            if message[:1] == bytes([CLOSE]) and len(message) == 2:
                return message[1], b""
            if len(message) > 1:
                return message[0], message[1:]
        return None

    async def write(self, channel: int, data: bytes) -> None:
        await self._socket.write(bytes([channel]) + data)

    async def finish(self) -> None:
        await self._socket.close()


async def _over_spdy(tunnel: Tunnel, wanted: set[str], options: Options, talk: Talk) -> None:
    session = spdy.Session(tunnel)
    streams: dict[int, spdy.Stream] = {}
    wanted |= {"stdout"} | ({"stderr"} if options.stderr and not options.tty else set())
    complete = asyncio.Event()

    async def collect() -> None:
        async for stream in session.streams():
            channel = STREAM_TYPES.get(stream.headers.get("streamtype", ""))
            if channel is None or channel in streams:
                await session.reset(stream.number, spdy.PROTOCOL_ERROR)
            else:
                streams[channel] = stream
            if {STREAM_TYPES[name] for name in wanted} <= streams.keys():
                complete.set()

    with contextlib.suppress(HttpError, spdy.SpdyError, spdy.StreamReset, TimeoutError):
        async with asyncio.TaskGroup() as group:
            collecting = group.create_task(collect())
            async with asyncio.timeout(STREAMS_SECONDS):
                await complete.wait()
            await talk(_SpdyChannels(streams))
            collecting.cancel()


class _SpdyChannels:
    """One stream for each channel."""

    def __init__(self, streams: dict[int, spdy.Stream]) -> None:
        self._streams = streams
        self._waiting: dict[asyncio.Task[bytes], int] = {}

    async def read(self) -> tuple[int, bytes] | None:
        if not self._waiting:
            self._waiting = {self._next(channel): channel for channel in (STDIN, RESIZE) if channel in self._streams}
        if not self._waiting:
            await asyncio.get_running_loop().create_future()   # nothing will ever come; whoever reads is cancelled
        done, _ = await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
        task = done.pop()
        channel = self._waiting.pop(task)
        try:
            data = task.result()
        except spdy.StreamReset:
            return None
        if data:
            self._waiting[self._next(channel)] = channel
        else:
            self._streams.pop(channel, None)
        return channel, data

    def _next(self, channel: int) -> asyncio.Task[bytes]:
        return asyncio.create_task(self._streams[channel].read())

    async def write(self, channel: int, data: bytes) -> None:
        if channel in self._streams and data:
            await self._streams[channel].write(data)

    async def finish(self) -> None:
        for task in self._waiting:
            task.cancel()
        for channel in (STDOUT, STDERR, ERROR):
            if channel in self._streams:
                await self._streams[channel].finish()


# ---- what is talked about


async def show(lines: AsyncIterator[bytes], channels: Channels) -> None:
    """The container's output from now on, until it ends or the client goes. A container here has no input."""
    listening = asyncio.create_task(_until_gone(channels))
    following = asyncio.create_task(_shown(lines, channels))
    try:
        await asyncio.wait({listening, following}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        listening.cancel()
        following.cancel()
        await asyncio.gather(listening, following, return_exceptions=True)
    await _end(channels, 0)


async def _until_gone(channels: Channels) -> None:
    while await channels.read() is not None:
        pass


async def _shown(lines: AsyncIterator[bytes], channels: Channels) -> None:
    async for piece in lines:
        await channels.write(STDOUT, piece)


async def execute(run: Run, options: Options, channels: Channels) -> None:
    """Run the command in the container's environment until it ends; if the client goes first, so does the command."""
    mounts = msgspec.json.decode(run.environment.get("SERVEPLANE_POD_MOUNTS", "{}"), type=dict[str, str])
    words = _words(options.words, mounts)
    await channels.write(STDOUT, b"")   # the sign that all is connected
    try:
        command = await _Terminal.start(words, run) if options.tty else await _Piped.start(words, run, options.stdin)
    except (OSError, ValueError) as problem:
        await _end(channels, 127, str(processes.StartFailed(f'exec: "{words[0]}": {problem}')))
        return
    listening = asyncio.create_task(_listen(command, channels))
    working = asyncio.create_task(command.talk(channels))
    try:
        await asyncio.wait({listening, working}, return_when=asyncio.FIRST_COMPLETED)
        if listening.done():     # the client is gone
            return
        await working
    finally:
        listening.cancel()
        command.kill()
        await asyncio.gather(listening, working, return_exceptions=True)
    await _end(channels, await command.code())


def _words(asked: Sequence[str], mounts: Mapping[str, str]) -> list[str]:
    """With real folders in the place of mount paths. `kubectl cp` packs a folder by its name, and must find that name in the archive."""
    rewritten = rewriter(mounts)
    words = list(map(rewritten, asked))
    if asked[:2] != ("tar", "cf"):
        return words
    renamed = [f",^{real.lstrip('/')},{path.lstrip('/')}," for path, real in mounts.items() if path != real]
    option = ["-s"] if sys.platform == "darwin" else ["--transform"]
    named = [word for rule in renamed for word in (*option, rule if sys.platform == "darwin" else f"s{rule}")]
    return [*words[:3], *named, *words[3:]]


async def _listen(command: "_Command", channels: Channels) -> None:
    """What the client says, until it goes."""
    while (heard := await channels.read()) is not None:
        channel, data = heard
        if channel == STDIN:
            await command.feed(data)
        elif channel == RESIZE and data:
            command.resize(data)


async def _end(channels: Channels, code: int, problem: str = "") -> None:
    status: Json = {"metadata": {}, "status": "Success"}
    if problem:
        status = {"metadata": {}, "status": "Failure", "message": problem, "reason": "InternalError", "code": 500}
    elif code:
        status = {"metadata": {}, "status": "Failure", "message": f"command terminated with non-zero exit code: exit status {code}",
                  "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}
    await channels.write(ERROR, msgspec.json.encode(status))
    await channels.finish()


class _Command:
    """A running command, however it is connected."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def talk(self, channels: Channels) -> None:
        raise NotImplementedError

    async def feed(self, data: bytes) -> None:
        raise NotImplementedError

    def resize(self, data: bytes) -> None:
        """Only terminals have a size."""

    def kill(self) -> None:
        """All of its group: what a command leaves behind has nobody to talk to."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    async def code(self) -> int:
        code = await self.process.wait()
        return 128 - code if code < 0 else code


class _Piped(_Command):
    """With pipes: output and errors apart."""

    @classmethod
    async def start(cls, words: list[str], run: Run, stdin: bool) -> "_Piped":
        pipe = asyncio.subprocess.PIPE
        given = pipe if stdin else asyncio.subprocess.DEVNULL
        return cls(await asyncio.create_subprocess_exec(
            *words, stdin=given, stdout=pipe, stderr=pipe, env=dict(run.environment), cwd=str(run.folder), start_new_session=True,
            preexec_fn=die_with_parent, limit=PIECE_BYTES))

    async def talk(self, channels: Channels) -> None:
        assert self.process.stdout
        assert self.process.stderr
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(self.process.stdout, channels, STDOUT))
            group.create_task(_pump(self.process.stderr, channels, STDERR))
        await self.process.wait()

    async def feed(self, data: bytes) -> None:
        stdin = self.process.stdin
        if stdin is None:
            return
        with contextlib.suppress(ConnectionError):     # a command need not read what it is told
            if data:
                stdin.write(data)
                await stdin.drain()
            else:
                stdin.close()


async def _pump(reader: asyncio.StreamReader, channels: Channels, channel: int) -> None:
    while piece := await reader.read(PIECE_BYTES):
        await channels.write(channel, piece)


class _Terminal(_Command):
    """With a terminal: one stream both ways, and a size."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: int) -> None:
        super().__init__(process)
        self._terminal = terminal

    @classmethod
    async def start(cls, words: list[str], run: Run) -> "_Terminal":
        ours, theirs = pty.openpty()
        environment = {"TERM": "xterm", **run.environment}
        try:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=str(run.folder),
                preexec_fn=lambda: _own_terminal(theirs))
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        return cls(process, ours)

    async def talk(self, channels: Channels) -> None:
        try:
            while piece := await self._read():
                await channels.write(STDOUT, piece)
            await self.process.wait()
        finally:
            terminal, self._terminal = self._terminal, -1
            os.close(terminal)

    async def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._terminal, PIECE_BYTES)
            except BlockingIOError:
                await self._ready(asyncio.get_running_loop().add_reader, asyncio.get_running_loop().remove_reader)
            except OSError:      # how a terminal says that nobody has it open any more
                return b""

    async def feed(self, data: bytes) -> None:
        data = data or b"\x04"     # the end of the input, as a terminal types it
        while data and self._terminal >= 0:
            try:
                data = data[os.write(self._terminal, data):]
            except BlockingIOError:
                await self._ready(asyncio.get_running_loop().add_writer, asyncio.get_running_loop().remove_writer)
            except OSError:
                return

    async def _ready(self, watch: Callable[..., None], ignore: Callable[[int], object]) -> None:
        ready, terminal = asyncio.Event(), self._terminal
        watch(terminal, ready.set)
        try:
            await ready.wait()
        finally:
            ignore(terminal)

    def resize(self, data: bytes) -> None:
        with contextlib.suppress(msgspec.DecodeError, OSError, KeyError, TypeError, struct.error):
            size = msgspec.json.decode(data)
            if self._terminal >= 0:
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))


def _own_terminal(terminal: int) -> None:
    """A session of its own, with the terminal at its head: that is what makes Ctrl-C reach the command."""
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    die_with_parent()
