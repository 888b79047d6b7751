"""The HTTP engine beside aiohttp, granian (RSGI) and uvicorn + starlette: an echo, and a proxy of one step.

    pip install 'serveplane[bench]'
    python bench/http [--seconds 3] [--rounds 5] [--only echo|proxy] [--peer HOST:PORT] [--no-gate]

Each contender is a process of its own and gets the same load: 32 connections, each sending a 1 KB JSON POST as soon as the last
one is answered. Rounds alternate between contenders, so that a busy machine is busy for all; the median and the spread are
printed. What counts is CPU per request (of the whole process tree, as the kernel reports it), because requests per second
depend on who else uses the cores. Behind the proxies stands an echo of ours in a process of its own.

Serveplane runs with what it has in production: limits, deadlines and metrics on. The gate: its proxy takes at most 0.2 of the
CPU of the aiohttp server + client, is ready within 0.15 s (as the fastest of its starts) and idle within 20 MB of memory of its own.
Resident memory counts pages of the interpreter and libraries that every Python process shares; importing uvloop and httptools alone
is over 20 MB of it.
The gate is judged on clients that send the same request again and again, as load generators and most callers of a model do.
Serveplane remembers the heads it read last, so a further row has an id in every request, which makes no two heads alike.
"""
import argparse
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench.processes import cpu_seconds, mapped_kilobytes, tree
from contenders import NEEDS
from load import load

PROXY_RATIO, READY_SECONDS, IDLE_MB = 0.2, 0.15, 20.0
HERE = Path(__file__).parent


class Memory(NamedTuple):
    """In MB: all pages in memory; with shared ones divided among their users; without shared ones."""
    resident: float
    proportional: float
    private: float

    @classmethod
    def of(cls, pid: int) -> "Memory":
        found: Counter[str] = Counter()
        for one in tree(pid):
            for name, kilobytes in mapped_kilobytes(one).items():
                found["Private" if name.startswith("Private_") else name] += kilobytes
        return cls(found["Rss"] / 1024, found["Pss"] / 1024, found["Private"] / 1024)


def serving(name: str, kind: str, port: int, origin: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, str(HERE / "contenders.py"), name, kind, str(port), origin])


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as sock:
            sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            return sock.recv(100).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


@dataclass
class Contender:
    name: str
    kind: str
    alike: bool
    origin: str = ""
    port: int = 0
    ready: list[float] = field(default_factory=list)
    idle: Memory = field(init=False)
    cpu: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        """One round in a fresh process: start, idle, warm up, measure."""
        self.port = free_port()
        started = time.perf_counter()
        process = serving(self.name, self.kind, self.port, self.origin)
        try:
            while not answers(self.port):
                if process.poll() is not None:
                    raise SystemExit(f"{self.name} does not start")
                time.sleep(0.002)
            self.ready.append(time.perf_counter() - started)
            self.idle = Memory.of(process.pid)
            load("127.0.0.1", self.port, 0.3, self.alike)
            before = cpu_seconds(*tree(process.pid))
            count, elapsed = load("127.0.0.1", self.port, seconds, self.alike)
            self.cpu.append((cpu_seconds(*tree(process.pid)) - before) / count * 1e6)
            self.rate.append(count / elapsed)
        finally:
            process.terminate()
            process.wait()

    @property
    def label(self) -> str:
        return self.kind if self.alike else f"{self.kind}, ids"

    def line(self) -> str:
        cpu = f"{statistics.median(self.cpu):7.1f} ({min(self.cpu):.1f} to {max(self.cpu):.1f})"
        return (f"{self.label:10} {self.name:12} {statistics.median(self.rate):9,.0f} {cpu:>26} {min(self.ready):8.2f} "
                + " ".join(f"{mb:8.1f}" for mb in self.idle))


def contenders(only: str | None, origin: str) -> list[Contender]:
    found = []
    loads = [("echo", True), ("proxy", True), ("proxy", False)]
    for kind, alike in loads if only is None else [one for one in loads if one[0] == only]:
        for name, needs in NEEDS.items():
            missing = [need for need in needs if find_spec(need) is None]
            if missing:
                print(f"left out: {name} needs {', '.join(missing)} (pip install 'serveplane[bench]')", file=sys.stderr)
                continue
            found.append(Contender(name, kind, alike, origin))
    return found


def gate(found: list[Contender]) -> list[str]:
    median = {(one.label, one.name): statistics.median(one.cpu) for one in found}
    ours = next((one for one in found if (one.label, one.name) == ("proxy", "serveplane")), None)
    if ours is None or ("proxy", "aiohttp") not in median:
        return []
    ratio = median["proxy", "serveplane"] / median["proxy", "aiohttp"]
    print(f"\nproxy: {ratio:.3f} of aiohttp's CPU per request (at most {PROXY_RATIO}), "
          f"ready in {min(ours.ready):.2f} s (at most {READY_SECONDS}), "
          f"idle {ours.idle.private:.1f} MB of its own (at most {IDLE_MB:g}; resident {ours.idle.resident:.1f})")
    return [text for text, bad in (("CPU per request", ratio > PROXY_RATIO), ("ready", min(ours.ready) > READY_SECONDS),
                                   ("idle memory", ours.idle.private > IDLE_MB)) if bad]


def measure_peer(peer: str, seconds: float, rounds: int) -> None:
    """Any other server that answers the POST with 200 and a Content-Length; only its rate can be seen from here."""
    host, _, port = peer.rpartition(":")
    rates = []
    for _ in range(rounds):
        count, elapsed = load(host, int(port), seconds)
        rates.append(count / elapsed)
    print(f"peer       {peer:12} {statistics.median(rates):9,.0f} ({min(rates):,.0f} to {max(rates):,.0f})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["echo", "proxy"])
    parser.add_argument("--peer", metavar="HOST:PORT")
    parser.add_argument("--no-gate", action="store_true")
    args = parser.parse_args()
    behind = free_port()
    origin = serving("serveplane", "echo", behind, "")
    try:
        while not answers(behind):
            time.sleep(0.01)
        found = contenders(args.only, f"http://127.0.0.1:{behind}")
        for _ in range(args.rounds):
            for one in found:
                one.run(args.seconds)
    finally:
        origin.terminate()
        origin.wait()
    print(f"{'':10} {'':12} {'req/s':>9} {'CPU µs/request (spread)':>26} {'ready s':>8} {'RSS MB':>8} {'PSS MB':>8} {'own MB':>8}")
    for one in found:
        print(one.line())
    if args.peer:
        measure_peer(args.peer, args.seconds, args.rounds)
    failed = gate(found)
    if failed:
        print("over the limit: " + ", ".join(failed))
    return 1 if failed and not args.no_gate else 0


if __name__ == "__main__":
    sys.exit(main())
