"""What the processes of each container use: processor time and memory, summed over their sessions.

Read from /proc in one pass (elsewhere from `ps`), seldom enough not to be noticed.
"""
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(frozen=True)
class Figures:
    """Of one session: seconds of processor time so far, bytes of memory now."""
    cpu_seconds: float = 0.0
    memory: int = 0

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(self.cpu_seconds + other.cpu_seconds, self.memory + other.memory)


@dataclass
class Session:
    """The processes that a container consists of."""
    figures: Figures = field(default_factory=Figures)
    members: list[int] = field(default_factory=list)

    def memory_now(self) -> int:
        """Read again for the processes known so far, which costs next to nothing; where that is not possible, as it was."""
        return sum(map(_resident, self.members)) if _has_proc() else self.figures.memory


def sessions() -> dict[int, Session]:
    """Every session on this machine that we may see, by its leader's pid."""
    found: dict[int, Session] = {}
    for pid, leader, figures in _from_proc() if _has_proc() else _from_ps():
        session = found.setdefault(leader, Session())
        session.figures += figures
        session.members.append(pid)
    return found


def by_session() -> dict[int, Figures]:
    return {leader: session.figures for leader, session in sessions().items()}


def machine_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * PAGE
    except (ValueError, OSError, AttributeError):
        return 8 << 30


def _has_proc() -> bool:
    return PROC.joinpath("self/stat").exists()


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError):   # ended meanwhile
        return 0


def _from_proc() -> Iterator[tuple[int, int, Figures]]:
    for name in os.listdir(PROC):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    text = file.read()
            except OSError:   # ended meanwhile
                continue
            yield int(name), *_parsed(text)


def _parsed(text: bytes) -> tuple[int, Figures]:
    """One line of /proc/PID/stat. The name in brackets may hold anything, so the fields are counted behind it."""
    fields = text[text.rindex(b")") + 2:].split()
    return int(fields[3]), Figures((int(fields[11]) + int(fields[12])) / TICKS, int(fields[21]) * PAGE)


def _from_ps() -> Iterator[tuple[int, int, Figures]]:
    listing = subprocess.run(["ps", "-axo", "pid=,pgid=,time=,rss="], capture_output=True, text=True, check=False)
    for line in listing.stdout.splitlines():
        pid, group, spent, size = line.split()
        yield int(pid), int(group), Figures(_seconds(spent), int(size) * 1024)


def _seconds(spent: str) -> float:
    """
    >>> _seconds("1:02.50"), _seconds("01:00:00"), _seconds("1-01:00:00")
    (62.5, 3600.0, 90000.0)
    """
    days, _, clock = spent.rpartition("-")
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + float(part)
    return total + 86400 * int(days or 0)
