"""The storage initializer as a process: killed at random points and started again, memory, termination."""
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.counts import COUNTS, SEED
from tests.kit.processes import start
from tests.unit.dataplane.store import Store, running

CHANCE = random.Random(SEED)
FILES = {f"/bucket/m/part-{number}.bin": CHANCE.randbytes(size) for number, size in enumerate((40 << 20, 3 << 20, 100, 7 << 20))}
DIGESTS = {name.rpartition("/")[2]: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}


@pytest.fixture
def store() -> Iterator[Store]:
    with running(Store(dict(FILES))) as started:
        yield started


def command(store: Store, destination: Path) -> list[str]:
    return [sys.executable, "-m", "serveplane.cli.main", "storage-initializer", "s3://bucket/m", str(destination)]


def environment(store: Store) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL": store.url, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden-secret"}


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Bytes take another way to a file system that lies in memory."""
    if request.param == "disk":
        yield tmp_path
        return
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no file system in memory here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


@pytest.mark.stress
def test_killed_at_random_points_the_bytes_are_the_same(store: Store, folder: Path) -> None:
    kills, store.pause = 0, 0.02   # a download then takes about half a second
    for _ in range(COUNTS.store_kills // 2):
        process = start(command(store, folder / "model"), folder / "log", environment(store))
        time.sleep(CHANCE.uniform(0.1, 0.9))
        process.kill()
        if process.wait() == 0:
            assert digests(folder / "model") == DIGESTS
            shutil.rmtree(folder / "model")
            continue
        kills += 1
        seen = {entry for entry in os.listdir(folder / "model") if not entry.startswith(".")} if (folder / "model").exists() else set()
        assert all(digests_of(folder / "model" / name) == DIGESTS[name] for name in seen)   # nothing half-written ever shows
    assert start(command(store, folder / "model"), folder / "log", environment(store)).wait(300) == 0
    assert digests(folder / "model") == DIGESTS
    assert kills > 0
    assert "hidden-secret" not in (folder / "log").read_text()


def digests_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_resumed_run_reads_only_what_is_missing(store: Store, tmp_path: Path) -> None:
    process = start(command(store, tmp_path / "model"), tmp_path / "log", environment(store))
    parts = tmp_path / "model" / ".serveplane-download"
    for _ in range(1000):
        if any(path.suffix == ".file" for path in (parts.iterdir() if parts.exists() else ())):
            break
        time.sleep(0.005)
    process.kill()
    process.wait()
    done = {path.name for path in parts.iterdir() if path.suffix == ".file"} if parts.exists() else set()
    if not done:
        pytest.skip("the download was finished before it could be killed")
    store.asked.clear()
    assert start(command(store, tmp_path / "model"), tmp_path / "log", environment(store)).wait(300) == 0
    assert digests(tmp_path / "model") == DIGESTS
    assert len({path for _, path, _ in store.asked if "part-" in path}) <= len(FILES) - len(done)


PEAK = """
import sys
from pathlib import Path
from serveplane.cli.main import main
code = main(sys.argv[1:])
print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
sys.exit(code)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_memory_does_not_grow_with_the_model(store: Store, folder: Path) -> None:
    words = [sys.executable, "-c", PEAK, *command(store, folder / "model")[3:]]
    told = subprocess.run(words, capture_output=True, text=True, timeout=300, env={**os.environ, **environment(store)}, check=True)
    assert int(told.stdout.split()[-1]) < 64 << 10   # kilobytes


def test_failure_is_one_sentence_and_an_exit_code(store: Store, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "serveplane.cli.main",
            "storage-initializer",
            f"{store.url}/nothing.bin?token=hidden",
            str(tmp_path / "d"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "answered 404" in done.stderr.splitlines()[-1]
    assert "hidden" not in done.stderr
