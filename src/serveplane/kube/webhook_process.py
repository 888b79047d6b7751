"""A process of its own for the webhooks of a manager, so that no reconcile, however long it computes, delays an answer.

The manager holds the listening socket. So while a process that died is replaced, new connections wait instead of being refused. The
process is told its certificate, asked every second how it is, killed when it gives no answer, and ends with the manager.
"""

import asyncio
import contextlib
import logging
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, Process

from serveplane import pod
from serveplane.clock import SYSTEM, Clock
from serveplane.kube.errors import ConfigError, ConnectionFailed, KubeError
from serveplane.kube.metrics import Snapshot
from serveplane.kube.pair import Pair
from serveplane.kube.webhook_link import Answer, Begin, Count, HowAreYou, Link, Question, Stop, UsePair
from serveplane.objects import Json

LOG = logging.getLogger(__name__)
ASK_SECONDS, ASK_SECONDS_UNTIL_READY = 1.0, 0.05
START_PATIENCE = 60.0  # imports take long on a busy machine
PATIENCE = 20.0  # a process that says nothing for so long hangs
SYNC_PATIENCE = 5.0  # how long a process that replaces another may warm up while connections wait
LONG_LIFE = 30.0
MOST_DEATHS = 5  # in a row, each after a short life
GRACE = 5.0
BACKLOG = 1024


class WebhookProcess:
    """The process that answers reviews: `module` run as a program (see `webhook_child`), and started again whenever it dies."""

    def __init__(self, module: str, told: Json | None = None, *, host: str = "0.0.0.0", port: int = 9443, clock: Clock = SYSTEM) -> None:
        self._module, self._told = module, told or {}
        self._host, self._port = host, port
        self._clock = clock
        self._listener: socket.socket | None = None
        self._process: Process | None = None
        self._link: Link | None = None
        self._pair: Pair | None = None
        self._up = asyncio.Event()
        self.ready = asyncio.Event()
        """Set once reviews are answered."""
        self._why_not = "the webhook process is starting"

    async def run(self) -> None:
        """Until cancelled; then what is being answered is finished. Raises when the process cannot be kept alive."""
        self._listener = self._bound()
        deaths = 0
        try:
            while True:
                started = self._clock.monotonic()
                status = await self._live()
                deaths = 1 if self._clock.monotonic() - started > LONG_LIFE else deaths + 1
                LOG.error("the webhook process ended, starting another", extra={"status": status, "deaths": deaths})
                if deaths >= MOST_DEATHS:
                    raise KubeError(f"the webhook process ends as soon as it is started (status {status}); its log says why")
                await self._clock.sleep(0.1 * 2**deaths if deaths > 1 else 0.0)
        finally:
            await asyncio.shield(self._leave())

    async def use(self, pair: Pair) -> None:
        """Have this certificate presented from the next connection on; returns when that is so."""
        self._pair = pair
        while True:
            await self._up.wait()
            with contextlib.suppress(ConnectionFailed):  # its successor is given it at once; make sure of that
                await self._use(pair)
                return
            await self._clock.sleep(0.05)

    async def counted(self) -> Snapshot | None:
        """Its metrics, if it answers soon."""
        with contextlib.suppress(ConnectionFailed, TimeoutError):
            async with asyncio.timeout(2.0):
                return (await self._ask(Count())).counted
        return None

    @property
    def why_not(self) -> str:
        """What is missing before reviews are answered; empty when nothing is."""
        return self._why_not

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1]) if self._listener is not None else self._port

    @property
    def url(self) -> str:
        """Where this machine finds it."""
        assert self._listener is not None
        host = self._listener.getsockname()[0]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"https://{f'[{host}]' if ':' in host else host}:{self.port}"

    # ---- one life

    async def _live(self) -> int:
        """Start the process and look after it until it ends; its status."""
        process = await self._spawned()
        try:
            async with asyncio.timeout(START_PATIENCE):
                await self._ask(Begin(self._told))
            if self._pair is not None:
                await self._take_over(self._pair)
            self._up.set()
            while True:
                async with asyncio.timeout(PATIENCE):
                    self._note((await self._ask(HowAreYou())).why_not)
                await self._clock.sleep(ASK_SECONDS_UNTIL_READY if self._why_not else ASK_SECONDS)
        except (ConnectionFailed, TimeoutError) as trouble:
            if isinstance(trouble, TimeoutError):
                LOG.error("the webhook process gives no answer and is ended")
            return await self._ended(process)

    async def _spawned(self) -> Process:
        ours, theirs = socket.socketpair()
        try:
            assert self._listener is not None
            handed = theirs.fileno(), self._listener.fileno()
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # it imports from where we do
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", self._module, *map(str, handed), str(os.getpid()),
                stdin=DEVNULL, pass_fds=handed, env=environment)  # fmt: skip
        finally:
            theirs.close()
        self._link = await Link.over(ours)
        return self._process

    async def _take_over(self, pair: Pair) -> None:
        """A successor accepts connections once its caches are warm, if that is soon."""
        deadline = self._clock.monotonic() + SYNC_PATIENCE
        while (await self._ask(HowAreYou())).warming and self._clock.monotonic() < deadline:
            await self._clock.sleep(ASK_SECONDS_UNTIL_READY)
        await self._use(pair)

    async def _ended(self, process: Process) -> int:
        """The status of a process that is gone, or has to go."""
        self._up.clear()
        self._note("the webhook process is starting")
        if self._link is not None:
            self._link.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):  # it closed the socket: it is on its way out
                return await process.wait()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return await process.wait()

    async def _leave(self) -> None:
        """No new connections; the process finishes what it is answering."""
        self._note("the webhook process is stopping")
        if self._listener is not None:
            self._listener.close()
        process, link = self._process, self._link
        if process is None or link is None or process.returncode is not None:
            return
        with contextlib.suppress(ConnectionFailed, TimeoutError):
            async with asyncio.timeout(GRACE + 1.0):
                await link.ask(Stop(GRACE))
        await self._ended(process)

    # ---- questions

    async def _ask(self, question: Question) -> Answer:
        if self._link is None:
            raise ConnectionFailed("the webhook process is not there yet")
        return await self._link.ask(question)

    async def _use(self, pair: Pair) -> None:
        answer = await self._ask(UsePair(pair.certificate, pair.key))
        if answer.error:
            raise ConfigError(f"the webhook certificate cannot be used: {answer.error}")
        self._note(answer.why_not)

    def _note(self, why_not: str) -> None:
        self._why_not = why_not
        if not why_not:
            self.ready.set()

    def _bound(self) -> socket.socket:
        host, port = pod.listen_address(self._port, self._host)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=host == "::")
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port} for webhooks: {error.strerror or error}") from None
