"""Which local command an image stands for.

There is no container runtime here: an image name is looked up in a small table (`images.toml`, first match wins; the
user's own entries come before the built-in ones). An entry has an entry point, as an image has, and may name the
programs that a manifest calls inside that image (`command: ["/manager"]`). Words may use `{python}` (this
interpreter), `{serveplane}` (our command line), `{image}` and `{port}` (the first container port, wherever it lies).
"""
import fnmatch
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUILT_IN = Path(__file__).with_name("images.toml")
SERVEPLANE = [sys.executable, "-m", "serveplane.cli.main"]


class ImageTableError(Exception):
    """A table of images that cannot be read; the sentence names file and entry."""


@dataclass(frozen=True)
class Image:
    """What one entry of the table says."""
    pattern: str
    entrypoint: tuple[str, ...] = ()
    programs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    foreign: bool = False   # a program that knows nothing of pod addresses: it gets 127.0.0.1 and a free port

    def command(self, command: Sequence[str], args: Sequence[str]) -> list[str]:
        """The words to run, by the rules of ENTRYPOINT and CMD: `command` replaces the entry point, `args` follow."""
        if not command:
            return [*self.entrypoint, *args]
        return [*self.programs.get(command[0], (command[0],)), *command[1:], *args]


@dataclass(frozen=True)
class ImageTable:
    images: tuple[Image, ...]

    def find(self, reference: str) -> Image | None:
        name = repository(reference)
        return next((image for image in self.images if _is_match(image.pattern, name, reference)), None)


def load_table(*files: Path) -> ImageTable:
    """The user's tables in the order given, then the built-in one."""
    existing = [file for file in files if file.exists()]
    return ImageTable(tuple(image for file in [*existing, BUILT_IN] for image in _read(file)))


def repository(reference: str) -> str:
    """An image name without tag and digest.

    >>> repository("localhost:5000/kserve/agent:v0.20@sha256:12")
    'localhost:5000/kserve/agent'
    """
    name = reference.split("@", 1)[0]
    path, slash, last = name.rpartition("/")
    return path + slash + last.split(":", 1)[0]


def advice(reference: str, file: Path | str) -> str:
    """What a user reads when an image has no command here."""
    return (f'image "{reference}" has no local command: add one line to {file}, for example '
            f'"{repository(reference)}" = "python server.py --port {{port}}"')


def fill(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Replace the table's placeholders; `{serveplane}` alone stands for several words."""
    return [filled for word in words for filled in (SERVEPLANE if word == "{serveplane}" else [_fill(word, values)])]


def _fill(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace("{" + name + "}", value)
    return word


def _is_match(pattern: str, name: str, reference: str) -> bool:
    if "/" not in pattern.removeprefix("ko://"):   # a bare name means that image from whichever registry
        return fnmatch.fnmatchcase(name.rpartition("/")[2], pattern)
    return any(fnmatch.fnmatchcase(text, wanted)
               for text in (name, reference) for wanted in (pattern, f"*/{pattern}"))


def _read(file: Path) -> list[Image]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        entries = table.get("images", table)
        return [_image(pattern, entry) for pattern, entry in entries.items()]
    except (tomllib.TOMLDecodeError, ValueError, AttributeError) as problem:
        raise ImageTableError(f"{file}: {problem}") from problem


def _image(pattern: str, entry: Any) -> Image:
    if not isinstance(entry, dict):   # one line: "my/image" = "command and words"; such a program is not one of ours
        return Image(pattern, _words(pattern, entry), foreign=True)
    unknown = set(entry) - {"entrypoint", "programs", "environment", "foreign"}
    if unknown:
        raise ValueError(f'"{pattern}" has unknown keys: {", ".join(sorted(unknown))}')
    programs = {name: _words(pattern, words) for name, words in entry.get("programs", {}).items()}
    entrypoint = _words(pattern, entry.get("entrypoint", []))
    environment = {name: str(value) for name, value in entry.get("environment", {}).items()}
    return Image(pattern, entrypoint, programs, environment, bool(entry.get("foreign", False)))


def _words(pattern: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(shlex.split(value))
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise ValueError(f'"{pattern}" needs a command: a string or a list of strings')
