"""Calls that only Linux has, each with what happens elsewhere. A new one must be entered here, with its fallback."""
import re
from pathlib import Path

import pytest

from serveplane.embedded.node import addresses, figures, leftovers, pods, processes
from serveplane.embedded.node.plainpath import forget_link, is_plain, plain_path

SOURCE = Path(addresses.__file__).parents[2]
LINUX_ONLY = re.compile(r"/proc\b|prctl|pidfd|eventfd|inotify|epoll|SO_BINDTODEVICE|unshare|setns|/sys/fs/cgroup")
FALLBACKS = {
    "embedded/node/processes.py": "prctl: pods are found by their mark after a crash; /proc/vmstat: no OOM kills are known",
    "embedded/node/figures.py": "/proc: figures come from ps",
    "embedded/node/leftovers.py": "/proc: processes are found by ps -E",
    "cli/cluster_status.py": "/proc: the memory of the main process is left out",
    "cli/down.py": "/proc: the process is waited for until it is gone",
}


def test_the_list_of_linux_only_calls_is_complete() -> None:
    files = [file for folder in ("embedded/node", "embedded/workloads", "embedded/gateway", "cli")
             for file in (SOURCE / folder).rglob("*.py")]
    found = {file.relative_to(SOURCE).as_posix() for file in files if LINUX_ONLY.search(file.read_text())}
    assert found == set(FALLBACKS)


def test_without_proc_figures_come_from_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "PROC", Path("/nowhere"))
    assert any(one.memory > 0 for one in figures.by_session().values())


def test_without_proc_nothing_is_known_of_oom_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "VMSTAT", Path("/nowhere"))
    assert processes.oom_kills() == 0


def test_without_proc_leftovers_are_looked_for_with_ps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "PROC", Path("/nowhere"))
    assert list(leftovers.marked_processes("no such mark")) == []


def test_with_one_loopback_address_ports_are_moved() -> None:
    class Context:
        host, addresses = "127.0.0.1", None

        @staticmethod
        def images() -> object:
            class Table:
                @staticmethod
                def find(reference: str) -> None:
                    return None
            return Table

    pod = {"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 8080}]}]}}
    address = pods._address(pod, Context())  # type: ignore[arg-type]
    assert address.host == "127.0.0.1"
    assert address.moved[8080] not in (0, 8080)


def test_addresses_are_given_once_and_come_back_late() -> None:
    pool = addresses.AddressPool("127.50.0.0/29")
    given = [pool.take(str(number)) for number in range(5)]
    assert len(set(given)) == 5
    assert pool.take("0") == given[0]
    pool.give_back("1")
    assert pool.take("new") not in given[2:]
    pool.take("last")
    with pytest.raises(OSError, match="no free address"):
        pool.take("one too many")


def test_a_folder_with_blanks_is_seen_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a blank"
    folder.mkdir()
    (folder / "file").write_text("x")
    link = plain_path(folder)
    try:
        assert is_plain(link)
        assert (link / "file").read_text() == "x"
        assert link.parent.stat().st_mode & 0o777 == 0o700
        assert plain_path(tmp_path) == tmp_path
    finally:
        forget_link(folder)
    assert not link.exists()
