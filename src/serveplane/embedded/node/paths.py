"""Mounted folders, found again in a container's words.

A process has no file tree of its own here, so wherever a container's command, argument or variable names one of its
own mountPaths *as a path*, the real folder is put in its place: `--model_dir=/mnt/models` and
`file:///mnt/models/iris`, but not `/mnt/models2`, `/data/mnt/models` or `s3://mnt/models`.
"""
import re
from collections.abc import Callable, Mapping

ENDS = r"(?=$|[/:;,'\"\s)\]}&?#=|<>])"
STARTS = r"(?:(?<=file://)|(?<![\w./~@%+-]))"


def rewriter(mounts: Mapping[str, str]) -> Callable[[str], str]:
    """A function that puts real folders in the place of mount paths; the longest path wins, and once only.

    >>> rewriter({"/mnt/models": "/pods/1/m"})("--dir=/mnt/models/a:/mnt/models2")
    '--dir=/pods/1/m/a:/mnt/models2'
    """
    folders = {path.rstrip("/"): real for path, real in mounts.items() if path.rstrip("/")}
    if not folders:
        return lambda text: text
    longest_first = sorted(folders, key=len, reverse=True)
    pattern = re.compile(f"{STARTS}({'|'.join(map(re.escape, longest_first))}){ENDS}")
    return lambda text: pattern.sub(lambda found: folders[found[1]], text)
