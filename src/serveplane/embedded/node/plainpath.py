"""A way to a folder whose name a shell script can hold unquoted.

A container's script says `cat /etc/settings/word`; with the real folder in its place that must still be one word. So where the
node's own folder has blanks or other special letters in its name, pods see it through a link in a private folder
of the temporary directory. The link goes when the node goes.
"""
import contextlib
import hashlib
import os
import re
import tempfile
from pathlib import Path

PLAIN = re.compile(r"[A-Za-z0-9._/+@%:=-]+")


def is_plain(path: Path) -> bool:
    return PLAIN.fullmatch(str(path)) is not None


def plain_path(folder: Path) -> Path:
    """The folder itself, or a link to it that reads as one word."""
    if is_plain(folder):
        return folder
    link = _place(folder)
    private = link.parent
    private.mkdir(mode=0o700, exist_ok=True)
    found = private.lstat()
    if not private.is_dir() or private.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{private} is not a private folder of this user")
    with contextlib.suppress(FileNotFoundError):
        link.unlink()
    link.symlink_to(folder, target_is_directory=True)
    return link


def forget_link(folder: Path) -> None:
    """Remove the link again, and its folder if no other node needs it."""
    if not is_plain(folder):
        with contextlib.suppress(OSError):
            _place(folder).unlink()
            _place(folder).parent.rmdir()


def _place(folder: Path) -> Path:
    for base in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):
        if is_plain(base) and base.is_dir():
            return base / f"serveplane-{os.getuid()}" / hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return folder
