"""What processes cost, as Linux counts it: processor time and memory of one, or of one and all that it runs."""
import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def tree(pid: int) -> list[int]:
    """A process and its children, theirs too."""
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return [pid, *(one for child in children for one in tree(child))]


def cpu_seconds(*pids: int) -> float:
    """In user and in kernel mode, by all threads. Children do not count, not even those that have ended."""
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]   # the name before may hold anything
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / TICKS


def resident_bytes(*pids: int) -> int:
    """Pages in memory; those that two of them share count twice."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * PAGE_BYTES


def mapped_kilobytes(pid: int) -> dict[str, int]:
    """The pages in memory by what they are: Rss, Pss, Shared_Clean, Private_Dirty and so on."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}
