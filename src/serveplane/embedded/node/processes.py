"""One process of one container: in a session of its own, stopped as a group, its end told as Kubernetes tells it.

Where Linux allows it the process dies with the node (so that a node killed with -9 leaves nothing running);
`leftovers` finds what escaped even that.
"""
import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from serveplane.lifeline import die_with_parent

DRAIN = 1.0           # how long a log may stay open after its process ended, if a grandchild holds it
VMSTAT = Path("/proc/vmstat")

Output = Callable[[str, bytes], None]   # stream name ("stdout", "stderr") and a piece of what was written


class StartFailed(Exception):
    """The command could not be started at all: no such program, not executable, no such folder."""


@dataclass(frozen=True)
class Exit:
    """How a process ended. `code` is what `kubectl` shows: 128 + n for signal n."""
    code: int
    signal: int = 0
    out_of_memory: bool = False

    @property
    def reason(self) -> str:
        if self.out_of_memory:
            return "OOMKilled"
        return "Completed" if self.code == 0 else "Error"


class Process:
    """A running command. `wait` gives its Exit; `stop` ends the whole group."""

    def __init__(self, transport: asyncio.SubprocessTransport, ends: "_Ends", oom_before: int) -> None:
        self._transport = transport
        self._ends = ends
        self._oom_before = oom_before
        self._killed_for_memory = False
        self.pid: int = transport.get_pid()

    async def wait(self) -> Exit:
        await self._ends.exited.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                await self._ends.closed.wait()
        self.signal_group(signal.SIGKILL)   # helpers that the main process left behind belong to the container
        self._transport.close()
        code = self._transport.get_returncode() or 0
        return _exit(code, self._killed_for_memory or (code == -signal.SIGKILL and oom_kills() > self._oom_before))

    def is_running(self) -> bool:
        return not self._ends.exited.is_set()

    async def stop(self, grace: float) -> None:
        """Ask, wait, insist."""
        self.signal_group(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._ends.exited.wait()
        self.signal_group(signal.SIGKILL)
        await self._ends.exited.wait()
        self._transport.close()

    def kill_for_memory(self) -> None:
        self._killed_for_memory = True
        self.signal_group(signal.SIGKILL)

    def signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


async def start(words: Sequence[str], environment: Mapping[str, str], folder: Path, output: Output) -> Process:
    ends = _Ends(output)
    loop = asyncio.get_running_loop()
    before = oom_kills()
    try:
        transport, _ = await loop.subprocess_exec(
            lambda: ends, *words, stdin=asyncio.subprocess.DEVNULL, env=dict(environment), cwd=str(folder),
            start_new_session=True, preexec_fn=die_with_parent)
    except (OSError, ValueError) as problem:   # ValueError: a NUL in a word
        raise StartFailed(_sentence(words, folder, problem)) from problem
    return Process(transport, ends, before)


def oom_kills() -> int:
    """How often the kernel has killed for lack of memory; Linux counts it, elsewhere nothing is known."""
    try:
        lines = VMSTAT.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


class _Ends(asyncio.SubprocessProtocol):
    """Hears what the process writes and when it is over."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._output("stdout" if fd == 1 else "stderr", data)

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, problem: Exception | None) -> None:
        self.exited.set()
        self.closed.set()


def _exit(code: int, out_of_memory: bool) -> Exit:
    return Exit(128 - code, -code, out_of_memory) if code < 0 else Exit(code, 0, out_of_memory)


def _sentence(words: Sequence[str], folder: Path, problem: Exception) -> str:
    if isinstance(problem, FileNotFoundError) and not folder.is_dir():
        return f"working directory {folder} does not exist"
    if isinstance(problem, FileNotFoundError):
        return f'exec: "{words[0]}": executable file not found in $PATH'
    return f'exec: "{words[0]}": {getattr(problem, "strerror", None) or problem}'
