"""Files of this machine: linked rather than copied, as KServe does it."""
import os
from pathlib import Path

from serveplane import pod
from serveplane.dataplane.storage.archives import is_archive, unpack
from serveplane.dataplane.storage.errors import NotFound
from serveplane.dataplane.storage.files import Patterns
from serveplane.dataplane.storage.staging import Staging


def path_of(uri: str) -> Path | None:
    """The path that a URI means, if it means one on this machine."""
    if uri.startswith("file://"):
        return Path(pod.real_path(uri.removeprefix("file://").removeprefix("localhost") or "/"))
    return Path(pod.real_path(uri)) if "://" not in uri else None


def provide(uri: str, source: Path, destination: Path, patterns: Patterns) -> None:
    """Link the file, or every entry of the folder, into the destination; a single archive is unpacked instead."""
    if not source.exists():
        raise NotFound(f"{uri} does not exist on this node")
    entries = sorted(source.iterdir()) if source.is_dir() else [source]
    wanted = [entry for entry in entries if patterns.wants(entry.name)]
    if not wanted:
        raise NotFound(f"no model found in {uri}")
    destination.mkdir(parents=True, exist_ok=True)
    if len(wanted) == 1 and wanted[0].is_file() and is_archive(wanted[0].name):
        staging = Staging(destination)
        unpack(wanted[0], wanted[0].name, staging.folder / "unpacked")
        staging.publish_folder(staging.folder / "unpacked")
        return
    for entry in wanted:
        _link(entry.absolute(), destination / entry.name)


def _link(source: Path, target: Path) -> None:
    """Through a name of its own and a rename, so that nobody ever sees the target missing."""
    if target.exists() and not target.is_symlink() and os.path.samefile(source, target):
        return
    passing = target.with_name(f".{target.name}.link")
    passing.unlink(missing_ok=True)
    passing.symlink_to(source)
    os.replace(passing, target)
