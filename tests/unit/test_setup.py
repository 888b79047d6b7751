"""The first minute on a new machine: what `scripts/venv` says when something is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As much of a checkout as the script looks at, in a folder with a space in its name."""
    folder = tmp_path / "my checkout"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/venv", folder / "scripts/venv")
    shutil.copy(ROOT / "pyproject.toml", folder / "pyproject.toml")
    return folder


def fake_python(folder: Path, *answers: int) -> Path:
    """A `python3` that answers the script's questions, one exit code after the other."""
    (folder / "bin").mkdir(exist_ok=True)
    python = folder / "bin" / "python3"
    counter = folder / "asked"
    cases = "".join(f"{number}) code={code} ;;\n" for number, code in enumerate(answers))
    python.write_text(
        f'#!/bin/sh\nn=$(cat "{counter}" 2>/dev/null || echo 0); echo $((n + 1)) > "{counter}"\n'
        f'echo "$@" >> "{folder}/calls"\ncase "$*" in *-venv*) echo python3.11-venv; exit 0 ;; esac\n'
        f'code=0\ncase $n in {cases} esac\nexit $code\n'
    )
    python.chmod(0o755)
    return python.parent


def run(checkout: Path, *path: Path, purpose: str = "test") -> subprocess.CompletedProcess[str]:
    environment = {"PATH": ":".join(map(str, path)), "HOME": str(checkout)}
    return subprocess.run([checkout / "scripts/venv", purpose], env=environment, capture_output=True, text=True, timeout=30)


def tools(tmp_path: Path) -> Path:
    """The few programs of a bare machine, and no Python."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("sh", "dirname", "cksum", "cat", "env", "mkdir"):
        os.symlink(shutil.which(name) or name, folder / name)
    return folder


def test_an_old_python_is_told_in_one_line_with_the_way_out(checkout: Path, tmp_path: Path) -> None:
    result = run(checkout, fake_python(tmp_path, 1), tools(tmp_path))
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "Python 3.11 or newer" in result.stderr
    assert "apt-get install" in result.stderr


def test_no_python_at_all(checkout: Path, tmp_path: Path) -> None:
    result = run(checkout, tools(tmp_path))
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)


def test_a_python_without_venv_is_told_in_one_line_with_the_way_out(checkout: Path, tmp_path: Path) -> None:
    result = run(checkout, fake_python(tmp_path, 0, 1), tools(tmp_path))
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert "sudo apt-get install python3.11-venv" in result.stderr


def test_an_unknown_purpose_is_refused(checkout: Path, tmp_path: Path) -> None:
    result = run(checkout, tools(tmp_path), purpose="fun")
    assert result.returncode == 2
    assert "unknown purpose 'fun'" in result.stderr


def test_the_readme_begins_with_the_two_commands() -> None:
    first_screen = (ROOT / "README.md").read_text().splitlines()[:40]
    assert [line for line in first_screen if line.startswith("$ make")] == ["$ make demo", "$ make test"]


def test_ci_calls_make_test_and_nothing_cleverer() -> None:
    assert (ROOT / ".ci/run").read_text().splitlines()[-1] == "exec make test"
