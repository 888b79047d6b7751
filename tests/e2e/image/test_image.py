"""The image's file tree, run as an unprivileged user on a read-only root."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kit import image


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("chroot and mounts need root and util-linux")
    folder = tmp_path_factory.mktemp("image")
    folder.chmod(0o755)
    for parent in folder.parents:  # pytest keeps its folders to itself; another user must be able to walk through
        if parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    image.build(folder, "kserve")
    return folder


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(image.command(tree, *arguments), capture_output=True, text=True, timeout=60)


def test_manager_is_that_program(tree: Path) -> None:
    result = run(tree, "--help")
    assert result.returncode == 0, result.stderr
    assert "--leader-elect" in result.stdout


def test_the_root_is_read_only_and_the_user_nobody(tree: Path) -> None:
    probe = tree / "manager"
    kept = probe.read_text()
    probe.write_text('#!/bin/sh\n[ -w / ] && echo writable\necho x > /x && echo wrote\necho x > /tmp/x && echo tmp\n')
    try:
        result = run(tree)
    finally:
        probe.write_text(kept)
    assert result.stdout.split() == ["tmp"]
