"""The image's file tree, run as an unprivileged user on a read-only root."""

import subprocess
from pathlib import Path

from tests.kit import image


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
