"""The file tree of an image without an engine to build it: what the Dockerfile's controller targets hold, put together by copying.

Python and the shared libraries come from this machine instead of `python:slim`; the rest (the package, its dependencies, /manager) is what
the Dockerfile installs. Good enough to show that the program runs as nobody on a read-only root with nothing else there.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from tests.kit.distributions import runtime_distributions

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns("test", "tests", "idlelib", "tkinter", "turtledemo", "__pycache__", "site-packages", "ensurepip", "*.a")
PACKAGE = "serveplane"
ENTRY_POINT = "import sys\nfrom serveplane.cli.main import main\nsys.exit(main())\n"
INSIDE = 'PATH=/opt/serveplane/bin:/usr/local/bin exec /manager "$@"'


def build(tree: Path, program: str) -> None:
    """A root file system in which /manager is one of the programs."""
    version = f"python3.{sys.version_info[1]}"
    library = Path(sys.base_prefix) / "lib" / version
    shutil.copytree(library, tree / "usr/local/lib" / version, ignore=LEFT_OUT, symlinks=True)
    packages = tree / "usr/local/lib" / version / "site-packages"
    _copy_packages(packages)
    python = tree / "usr/local/bin" / version
    _copy(Path(sys.executable).resolve(), python)
    _copy(Path(shutil.which("sh") or "/bin/sh").resolve(), tree / "bin/sh")
    _copy_libraries(tree, [python, tree / "bin/sh", *tree.rglob("*.so"), *tree.rglob("*.so.*")])
    (tree / "opt/serveplane/bin").mkdir(parents=True)
    _script(tree / "opt/serveplane/bin/serveplane", f"#!/usr/local/bin/{version}\n{ENTRY_POINT}")
    _script(tree / "manager", (ROOT / "scripts/manager" / program).read_text())
    for folder in ("tmp", "proc", "dev", "etc"):
        (tree / folder).mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-m", "compileall", "-q", packages], check=True)


def _copy_packages(packages: Path) -> None:
    packages.mkdir(parents=True)
    for name in runtime_distributions():
        for file in metadata.files(name) or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                _copy(Path(str(file.locate())), packages / str(file))
    shutil.copytree(ROOT / "src" / PACKAGE, packages / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "config", packages / PACKAGE / "config")


def _copy_libraries(tree: Path, binaries: Iterable[Path]) -> None:
    """Every shared library that something in the tree asks for, at the path where it is asked for."""
    for binary in binaries:
        listed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False).stdout
        for path in re.findall(r"(/\S+) \(0x", listed):
            target = tree / path.lstrip("/")
            if not path.startswith(str(tree)) and not target.exists():
                _copy(Path(path).resolve(), target)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def command(tree: Path, *arguments: str, handed: Path | None = None, environment: Mapping[str, str] | None = None,
            scratch: bool = True) -> list[str]:  # fmt: skip
    """Runs /manager of a tree as uid 65532 on a read-only root; needs root for the mounts.

    /tmp is empty but for the files of the folder `handed`, and cannot be written to either without `scratch`; nothing of our own
    environment goes in, only what is given.
    """
    steps = (
        'mount --make-rprivate / && mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount --rbind /proc "$1/proc" && '
        'mount -t tmpfs -o mode=755 dev "$1/dev" && for name in null zero random urandom; do '
        'touch "$1/dev/$name" && mount --bind "/dev/$name" "$1/dev/$name"; done && '
        'mount -t tmpfs -o mode=1777 tmp "$1/tmp" && if [ "$2" ]; then install -o 65532 -m 0400 -t "$1/tmp" "$2"/*; fi && '
        'mount -o "remount,$3" "$1/tmp" && shift 3 && exec env -i PATH="$PATH" "$@"'
    )
    given = [f"{name}={value}" for name, value in (environment or {}).items()]
    inside = ["chroot", "--userspec=65532:65532", str(tree), "/bin/sh", "-c", INSIDE, "sh", *arguments]
    return ["unshare", "--mount", "sh", "-c", steps, "sh", str(tree), str(handed or ""), "rw" if scratch else "ro", *given, *inside]
