"""Processes of pods whose node is gone.

Every process that a node starts carries the node's mark in its environment, and so do its children and theirs. After a
crash the next start looks for that mark (on Linux, in /proc) and ends what it finds, so nothing is left behind.
"""
import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from serveplane.clock import Clock

MARK = "SERVEPLANE_NODE_MARK"
PROC = Path("/proc")


def marked_processes(mark: str) -> Iterator[int]:
    """The pids of all processes of this user that carry the mark, this one left out."""
    wanted = f"{MARK}={mark}"
    found = _by_proc(wanted) if PROC.joinpath("self/environ").exists() else _by_ps(wanted)
    return (pid for pid in found if pid != os.getpid())


async def end_leftovers(mark: str, clock: Clock, patience: float = 5.0) -> int:
    """Kill every marked process, until there is none; how many there were."""
    seen: set[int] = set()
    deadline = clock.monotonic() + patience
    while pids := set(marked_processes(mark)):
        seen |= pids
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if clock.monotonic() > deadline:
            break
        await clock.sleep(0.02)
    return len(seen)


def _by_proc(wanted: str) -> Iterator[int]:
    text = wanted.encode()
    for entry in PROC.iterdir():
        if entry.name.isdigit() and _has_entry(entry, text):
            yield int(entry.name)


def _has_entry(entry: Path, text: bytes) -> bool:
    try:
        if entry.stat().st_uid != os.getuid():
            return False
        return text in entry.joinpath("environ").read_bytes().split(b"\0")
    except OSError:   # gone meanwhile, or not ours
        return False


def _by_ps(wanted: str) -> Iterator[int]:
    listing = subprocess.run(["ps", "-axEww", "-o", "pid=,command="], capture_output=True, text=True, check=False)
    for line in listing.stdout.splitlines():
        pid, _, rest = line.strip().partition(" ")
        if pid.isdigit() and wanted in rest.split():
            yield int(pid)
