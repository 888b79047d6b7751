"""`serveplane down`: stops the one-machine cluster; its data stays unless told otherwise."""
import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path

from serveplane.cli.cluster.folder import Folder, default_folder
from serveplane.clock import SYSTEM

PATIENCE = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, default=default_folder(), metavar="DIR", help="default: %(default)s")
    parser.add_argument("--delete", action="store_true", help="also delete the data folder and all that is in it")


def run(args: argparse.Namespace) -> int:
    folder = Folder(args.data)
    if not folder.path.is_dir():
        print(f"There is no cluster in {folder.path}.")
        return 0
    if folder.is_running():
        pid = folder.state().pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        if not asyncio.run(_has_stopped(folder, pid)):
            print(f"serveplane down: the cluster (pid {pid}) has not stopped after {PATIENCE:.0f} s", file=sys.stderr)
            return 1
        print("Stopped.")
    else:
        print(f"No cluster runs in {folder.path}.")
    if args.delete:
        shutil.rmtree(folder.path)
        print(f"Deleted {folder.path}.")
    return 0


async def _has_stopped(folder: Folder, pid: int) -> bool:
    """Whether the cluster has let go of its folder, and its process is gone as well, in time."""
    deadline = SYSTEM.monotonic() + PATIENCE
    while folder.is_running() or _exists(pid):
        if SYSTEM.monotonic() > deadline:
            return False
        await SYSTEM.sleep(0.05)
    return True


def _exists(pid: int) -> bool:
    """Whether the process is there; one that has ended and only waits for its parent to notice is not."""
    try:
        os.kill(pid, 0)
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:   # no /proc on this system
        return True
    except (ProcessLookupError, PermissionError):
        return False
