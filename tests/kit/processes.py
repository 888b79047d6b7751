"""Child processes that never outlive the test run, whatever happens to it."""
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from serveplane.lifeline import die_with_parent

STOP_SECONDS = 5.0
REPOSITORY = Path(__file__).resolve().parents[2]


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on. All are held until the last is known, so that none comes twice."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [taken.getsockname()[1] for taken in held]
    for taken in held:
        taken.close()
    return ports


def start(command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a program in its own process group, its output in `log`; the kernel kills it should we die without a word."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})}, start_new_session=True, cwd=REPOSITORY, preexec_fn=die_with_parent)


def stop(process: subprocess.Popen[bytes], seconds: float = STOP_SECONDS) -> None:
    """Ask politely, then insist, the whole group both times: a program's children go with it."""
    for wish in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            _signal_group(process.pid, wish)
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
    _signal_group(process.pid, signal.SIGKILL)


def _signal_group(leader: int, wish: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):   # gone already; or, on macOS, only zombies are left
        os.killpg(leader, wish)


def marked(folder: Path) -> list[int]:
    """Every process that belongs to the node with this folder, by the mark in its environment."""
    mark = f"SERVEPLANE_NODE_MARK={folder.resolve()}".encode()
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and mark in _environment(entry)]


def _environment(entry: Path) -> list[bytes]:
    try:
        return entry.joinpath("environ").read_bytes().split(b"\0")
    except OSError:   # it has just ended, or is not ours
        return []


def tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no output)"
