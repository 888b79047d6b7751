"""Our downloads beside `kserve-storage`: 1 GB over HTTP and S3, and 500 files of 1 MB, from a loopback server that sends by `sendfile`.

usage: python -m bench.storage [--rounds 3] [--size 1024] [--only WORDS] [--engine] [--first] [--json FILE]

Both take turns, in another order each round; the median counts. The time is that of the download alone, after imports; both write to memory
(/dev/shm) unless the row says disk, where neither flushes. Both check the same: no checksum, or in the row with one, MD5 (which
`kserve-storage` never compares, so there the file is hashed by `hashlib` after it). Peak memory is the downloading process's own.
With `--first` server and downloads (of both) come before everything else on the machine, for when it is not idle. With `--engine` the
same downloads by `obstore` stand beside them, which is the library that ours would have to be faster than.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import peers

from tests.kit.processes import free_ports
from tests.unit.http.certificates import Authority

MEGABYTE = 1 << 20
FIRST: list[str] = []   # what puts a program before all others
OURS = """
import io, os, sys, time
from pathlib import Path
from serveplane.dataplane.storage import sources
from serveplane.dataplane.storage.download import download
from serveplane.dataplane.storage.transfer import TransferSettings
before, began = time.process_time(), time.monotonic()
download(sys.argv[1], sys.argv[2], None, TransferSettings(verify=os.environ.get("VERIFY") == "1"), output=io.StringIO())
"""
THEIRS = """
import hashlib, logging, os, sys, time
from pathlib import Path
from kserve_storage import Storage
logging.disable(logging.CRITICAL)
before, began = time.process_time(), time.monotonic()
Storage.download(sys.argv[1], sys.argv[2])
if os.environ["VERIFY"] == "1":
    for path in Path(sys.argv[2]).iterdir():
        with path.open("rb") as file:
            hashlib.file_digest(file, "md5").hexdigest()
"""
OBSTORE = """
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import obstore
from obstore.store import HTTPStore, S3Store
uri, target, plain = sys.argv[1], Path(sys.argv[2]), {"allow_http": True}
before, began = time.process_time(), time.monotonic()
if uri.startswith("http"):
    base, _, name = uri.rpartition("/")
    store = HTTPStore.from_url(base, client_options=plain)
    files = [(name, obstore.head(store, name)["size"])]
else:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    store = S3Store(bucket, endpoint=os.environ["AWS_ENDPOINT_URL"], virtual_hosted_style_request=False, client_options=plain)
    files = [(each["path"], each["size"]) for page in obstore.list(store) for each in page if each["path"].startswith(prefix)]
def fetch(piece):
    descriptor, name, start, end = piece
    os.pwrite(descriptor, obstore.get_range(store, name, start=start, end=end), start)
def pieces():
    for name, size in files:
        descriptor = os.open(target / name, os.O_RDWR | os.O_CREAT)
        yield from ((descriptor, name, start, min(start + (4 << 20), size)) for start in range(0, size, 4 << 20))
with ThreadPoolExecutor(8) as pool:   # 4 MB for each of 8 threads: as much as fits into 64 MB beside the library
    list(pool.map(fetch, pieces()))
"""
TELL = """
import resource
spent = time.monotonic() - began
used = sum(part.ru_utime + part.ru_stime for part in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))) - before
peak = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(spent, used, peak / 1024)
"""


@dataclass
class Work:
    name: str
    uri: str
    etag: str = "plain"            # plain: no checksum can be read from it; md5: it is one
    verify: bool = False
    disk: bool = False
    tls: bool = False
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    peaks: dict[str, list[float]] = field(default_factory=dict)


def works() -> list[Work]:
    large = "http://127.0.0.1:PORT/large/model.bin"
    return [
        Work("1 file over HTTP", large), Work("1 file over S3", "s3://large/model.bin"), Work("500 files of 1 MB over S3", "s3://many"),
        Work("1 file over S3, checksum", "s3://large/model.bin", etag="md5", verify=True),
        Work("1 file over HTTPS", large.replace("http:", "https:"), tls=True),
        Work("1 file over HTTP, to disk", large, disk=True),
    ]


def fill(folder: Path, megabytes: int) -> None:
    (folder / "large").mkdir()
    (folder / "many").mkdir()
    block = os.urandom(MEGABYTE)
    with (folder / "large" / "model.bin").open("wb") as file:
        for _ in range(megabytes):
            file.write(block)
    for number in range(500):
        (folder / "many" / f"file-{number:03}.bin").write_bytes(block)


def certify(folder: Path) -> None:
    """An authority that both sides are told of, and a server that it vouches for."""
    pair = Authority(folder).issue("server", "127.0.0.1")
    (folder / "key").write_bytes(pair[1].read_bytes())
    (folder / "cabundle.crt").write_bytes(pair[0].read_bytes() + (folder / "ca.crt").read_bytes())


@contextmanager
def server(folder: Path, port: int, work: Work, certificates: Path) -> Iterator[None]:
    words = [*FIRST, sys.executable, "-m", "bench.storage_server", folder, str(port), work.etag, *([certificates] if work.tls else [])]
    process = subprocess.Popen(words, start_new_session=True)
    try:
        wait_for(port)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server does not start")


def timed(python: Path, script: str, work: Work, port: int, where: Path, certificates: Path) -> list[float]:
    """Seconds, CPU seconds (worker processes included) and peak MB of one download."""
    environment = {**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
                   "AWS_DEFAULT_REGION": "us-east-1", "VERIFY": str(int(work.verify)),
                   "REQUESTS_CA_BUNDLE": str(certificates / "cabundle.crt")}
    target = Path(tempfile.mkdtemp(dir=where))
    try:
        words = [*FIRST, python, "-c", script + TELL, work.uri.replace("PORT", str(port)), target]
        told = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        if told.returncode:
            raise SystemExit(f"{work.name} failed:\n{told.stderr[-2000:]}")
        return [float(word) for word in told.stdout.split()[-3:]]
    finally:
        shutil.rmtree(target)


def table(all_works: list[Work]) -> str:
    """Medians; behind the factor its range over the rounds, each of which measures both sides one after the other."""
    lines = ["| work | serveplane: time, CPU, peak | kserve-storage: time, CPU | times as fast | times less CPU |", "|---|---|---|---|---|"]
    for work in all_works:
        factors = [their / our for our, their in zip(work.seconds["ours"], work.seconds.get("theirs", []), strict=False)] or [float("nan")]
        ours, theirs = (statistics.median(work.seconds.get(who, [float("nan")])) for who in ("ours", "theirs"))
        less, more = (statistics.median(work.cpu.get(who, [float("nan")])) for who in ("ours", "theirs"))
        lines.append(f"| {work.name} | {ours:.2f} s, {less:.2f} s, {max(work.peaks['ours']):.0f} MB | {theirs:.2f} s, {more:.2f} s | "
                     f"{theirs / ours:.1f}× ({min(factors):.1f} to {max(factors):.1f}) | {more / less:.1f}× |")
        if "obstore" in work.seconds:
            spent, used = statistics.median(work.seconds["obstore"]), statistics.median(work.cpu["obstore"])
            lines.append(f"| {work.name}, obstore | {spent:.2f} s, {used:.2f} s, {max(work.peaks['obstore']):.0f} MB | | | |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=1024, help="MB of the large file")
    parser.add_argument("--only", default="", help="rows whose name has these words")
    parser.add_argument("--engine", action="store_true", help="measure obstore too")
    parser.add_argument("--first", action="store_true", help="by real-time priority, which only root may give")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    FIRST.extend(["chrt", "--rr", "1"] if args.first else [])
    memory, disk = Path("/dev/shm"), Path(tempfile.gettempdir())
    theirs = peers.environment(peers.KSERVE_STORAGE)
    engine = peers.environment(peers.OBSTORE) if args.engine else None
    programs = {"ours": (Path(sys.executable), OURS), **({"theirs": (theirs, THEIRS)} if theirs else {}),
                **({"obstore": (engine, OBSTORE)} if engine else {})}
    all_works = [work for work in works() if args.only in work.name and not (engine and (work.verify or work.tls))]
    with tempfile.TemporaryDirectory(dir=memory) as name, tempfile.TemporaryDirectory() as certificates:
        fill(Path(name), args.size)
        certify(Path(certificates))
        for number in range(args.rounds):
            for work in all_works:
                [port] = free_ports(1)
                with server(Path(name), port, work, Path(certificates)):
                    for who in sorted(programs, reverse=bool(number % 2)):
                        python, script = programs[who]
                        figures = timed(python, script, work, port, disk if work.disk else memory, Path(certificates))
                        for column, figure in zip((work.seconds, work.cpu, work.peaks), figures, strict=True):
                            column.setdefault(who, []).append(figure)
    print(table(all_works))
    if args.json:
        rows = [{"name": work.name, "seconds": work.seconds, "cpu": work.cpu, "peaks": work.peaks} for work in all_works]
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
