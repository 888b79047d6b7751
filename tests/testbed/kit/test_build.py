"""The build of the control plane: once per version whoever asks, whole or not at all, and clear about what is missing."""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parents[3] / "testbed" / "build"
FAKE_GO = """#!/bin/sh
echo "$@" >> "$FAKE_LOG"
sleep 0.3
while [ "$1" != "-o" ]; do shift; done
[ -z "$FAKE_FAILS" ] || { echo half > "$2"; echo "undefined: everything" >&2; exit 1; }
echo "#!/bin/sh" > "$2"
"""


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """An environment with an empty cache and a compiler that only pretends."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "go").write_text(FAKE_GO)
    (tools / "go").chmod(0o755)
    return {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "FAKE_LOG": str(tmp_path / "log")}


def build(machine: dict[str, str], *names: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, BUILD, *names], env=machine, capture_output=True, text=True)


def test_without_go_it_says_what_to_install(machine: dict[str, str], tmp_path: Path) -> None:
    if any(os.access(Path(folder) / "go", os.X_OK) for folder in ("/usr/bin", "/bin")):
        pytest.skip("this machine has Go where it cannot be hidden")
    done = build({**machine, "PATH": "/usr/bin:/bin"}, "etcd")
    assert done.returncode == 1
    assert done.stderr.startswith("testbed: no Go compiler in PATH to build etcd")
    assert len(done.stderr.splitlines()) == 1


def test_two_callers_build_once(machine: dict[str, str]) -> None:
    with ThreadPoolExecutor(3) as callers:
        done = list(callers.map(lambda _: build(machine, "etcd"), range(3)))
    assert {call.returncode for call in done} == {0}
    assert len({call.stdout for call in done}) == 1
    assert (Path(done[0].stdout.strip()) / "etcd").exists()
    assert len(Path(machine["FAKE_LOG"]).read_text().splitlines()) == 1


def test_a_failed_build_leaves_nothing_behind(machine: dict[str, str]) -> None:
    done = build({**machine, "FAKE_FAILS": "1"}, "kubectl")
    assert done.returncode == 1
    assert "undefined: everything" in done.stderr
    folder = Path(build(machine, "--print").stdout.strip())
    assert [file.name for file in folder.iterdir() if not file.name.endswith(".lock")] == []
    assert build(machine, "kubectl").returncode == 0


def test_the_version_is_told_to_the_linker(machine: dict[str, str]) -> None:
    build(machine, "kube-apiserver")
    told = Path(machine["FAKE_LOG"]).read_text()
    assert "k8s.io/component-base/version.gitVersion=v1.34." in told
    assert "k8s.io/component-base/version.gitMinor=34" in told


def test_an_older_release_shares_what_does_not_belong_to_it(machine: dict[str, str]) -> None:
    now = Path(build(machine, "etcd").stdout.strip())
    older = {**machine, "SERVEPLANE_KUBERNETES": "1.30"}
    there = Path(build(older, "etcd", "kube-apiserver").stdout.strip())
    assert there != now
    assert (there / "etcd").resolve() == now / "etcd"
    etcd, server = Path(machine["FAKE_LOG"]).read_text().splitlines()
    assert "gitVersion=v1.34." in etcd
    assert "gitVersion=v1.30." in server
    assert "no module in testbed/ pins that release" in build({**machine, "SERVEPLANE_KUBERNETES": "1.2"}, "etcd").stderr


def test_an_unknown_program_is_refused(machine: dict[str, str]) -> None:
    assert build(machine, "kubelet").returncode == 2
