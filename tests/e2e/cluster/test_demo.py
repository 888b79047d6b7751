"""`make demo` as it is, in an unfriendly place: usual ports taken, a blank in the path, a proxy that leads nowhere."""
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DEMO = [sys.executable, "scripts/demo.py"]


@pytest.fixture
def unfriendly(tmp_path: Path) -> Iterator[dict[str, str]]:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    with contextlib.ExitStack() as stack:
        for port in (8080, 8081, 9443, 6443):
            taken = stack.enter_context(socket.socket())
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):   # taken by someone else is as good
                taken.bind(("0.0.0.0", port))
                taken.listen()
        folder = tmp_path / "with a blank"
        folder.mkdir()
        nowhere = "http://127.0.0.1:9"
        yield {**os.environ, "TMPDIR": str(folder), "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "http_proxy": nowhere,
               "https_proxy": nowhere, "ALL_PROXY": nowhere}
        assert list(folder.iterdir()) == [], "a file was left behind"


def left_behind(place: str) -> list[bytes]:
    """Command lines of processes that were started below a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if os.fsencode(place) in entry.joinpath("cmdline").read_bytes():
                    found.append(entry.joinpath("cmdline").read_bytes())
    return found


def test_the_demo_predicts_and_leaves_nothing(unfriendly: dict[str, str]) -> None:
    done = subprocess.run(DEMO, cwd=ROOT, env=unfriendly, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '{"predictions":[1,1]}' in done.stdout
    assert left_behind(unfriendly["TMPDIR"]) == []


def without_ipv6() -> list[str]:
    """What runs a command on a machine that has a loopback device of its own, no IPv6 and no network."""
    prepare = "ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"
    for flags in ("-n", "-rn"):   # as root, or as root of a namespace of our own
        words = ["unshare", flags, "sh", "-c", prepare + ' && exec "$@"', "sh"]
        with contextlib.suppress(OSError):
            if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
                return words
    pytest.skip("unshare -n is not permitted here, so the demo was NOT tried with IPv6 off")


def test_the_demo_without_ipv6(unfriendly: dict[str, str]) -> None:
    done = subprocess.run([*without_ipv6(), *DEMO], cwd=ROOT, env=unfriendly, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '{"predictions":[1,1]}' in done.stdout
    assert left_behind(unfriendly["TMPDIR"]) == []


@pytest.mark.parametrize("seconds", [1.0, 5.0])
def test_the_demo_is_interrupted(unfriendly: dict[str, str], seconds: float) -> None:
    process = subprocess.Popen(DEMO, cwd=ROOT, env=unfriendly, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)   # as a terminal does it: to the whole foreground group
    process.communicate(timeout=240)
    assert left_behind(unfriendly["TMPDIR"]) == []
