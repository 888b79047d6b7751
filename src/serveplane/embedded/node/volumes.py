"""The folders behind a pod's volumes, and where each container finds them.

Files that come from the API (configMap, secret, projected, downwardAPI) are written the way kubelets do: into a dated
folder that the `..data` link is then swapped to, so a reader sees all of the old or all of the new. hostPath lies below
the node's own folder unless the node was told to use the machine's paths.
"""
import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from serveplane.embedded.node.environment import (
    MissingReference,
    References,
    decode_secret,
    expand,
    field_value,
    referred,
    resource_value,
)
from serveplane.objects import Json

FROM_API = ("configMap", "secret", "projected", "downwardAPI")
DATA = "..data"


class MountFailed(Exception):
    """A volume that cannot be made here; the pod waits, and its event says this sentence."""


@dataclass(frozen=True)
class FileOf:
    content: bytes
    mode: int


@dataclass(frozen=True)
class Given:
    """What volumes are made from, fetched beforehand: referred objects, tokens by volume and path, claims by name."""
    references: References
    tokens: Mapping[tuple[str, str], str]
    claims: Mapping[str, Path]
    allocatable: Mapping[str, Fraction] = field(default_factory=dict)   # what a container without a limit may use


def make_volume(volume: Json, pod: Json, given: Given, folder: Path, host_root: Path | None) -> Path:
    """Make or refresh one volume; where it is."""
    name = volume["name"]
    place = folder / check_part(name)
    if any(source in volume for source in FROM_API):
        write_files(place, dict(files_of(volume, pod, given)))
        return place
    if "emptyDir" in volume or set(volume) == {"name"}:
        place.mkdir(parents=True, exist_ok=True)
        return place
    if "hostPath" in volume:
        return _host_path(volume["hostPath"], host_root)
    if "persistentVolumeClaim" in volume:
        claim = volume["persistentVolumeClaim"]["claimName"]
        if claim not in given.claims:
            raise MountFailed(f'persistentvolumeclaim "{claim}" is not bound')
        return given.claims[claim]
    source = next(iter(set(volume) - {"name"}))
    raise MountFailed(f'volume "{name}": a process node has no {source} volumes')


def files_of(volume: Json, pod: Json, given: Given) -> Iterator[tuple[str, FileOf]]:
    """The files of a volume that comes from the API, by their path in it."""
    if "projected" in volume:
        mode = volume["projected"].get("defaultMode", 0o644)
        for source in volume["projected"].get("sources") or ():
            yield from _source_files(volume["name"], source, mode, pod, given)
    else:
        kind = next(name for name in FROM_API if name in volume)
        source = dict(volume[kind] or {})
        if kind == "secret":
            source["name"] = source.get("secretName", "")
        yield from _source_files(volume["name"], {kind: source}, source.get("defaultMode", 0o644), pod, given)


def _source_files(volume: str, source: Json, mode: int, pod: Json, given: Given) -> Iterator[tuple[str, FileOf]]:
    if "configMap" in source:
        found = referred(source["configMap"], given.references.config_maps, "configmap")
        binary = {key: decode_secret(text) for key, text in (found.get("binaryData") or {}).items()}
        data = {key: str(text).encode() for key, text in (found.get("data") or {}).items()} | binary
        yield from _chosen(source["configMap"], data, mode, "configmap")
    elif "secret" in source:
        found = referred(source["secret"], given.references.secrets, "secret")
        data = {key: decode_secret(text) for key, text in (found.get("data") or {}).items()}
        yield from _chosen(source["secret"], data, mode, "secret")
    elif "downwardAPI" in source:
        for item in source["downwardAPI"].get("items") or ():
            if "fieldRef" in item:
                text = field_value(item["fieldRef"]["fieldPath"], pod)
            else:
                text = resource_value(item["resourceFieldRef"], pod, {}, given.allocatable)
            yield item["path"], FileOf(text.encode(), item.get("mode") or mode)
    elif "serviceAccountToken" in source:
        path = source["serviceAccountToken"]["path"]
        yield path, FileOf(given.tokens[volume, path].encode(), 0o600)
    else:
        raise MountFailed(f'volume "{volume}": a process node cannot project {", ".join(source)}')


def _chosen(reference: Json, data: Mapping[str, bytes], mode: int, kind: str) -> Iterator[tuple[str, FileOf]]:
    items = reference.get("items")
    if not items:
        yield from ((key, FileOf(content, mode)) for key, content in data.items())
        return
    for item in items:
        if item["key"] in data:
            yield item["path"], FileOf(data[item["key"]], item.get("mode") or mode)
        elif not reference.get("optional"):
            raise MissingReference(f'{kind} "{reference.get("name", "")}" has no key {item["key"]}')


def write_files(place: Path, files: Mapping[str, FileOf]) -> bool:
    """Replace the content of a volume in one step; whether anything changed."""
    # The owner (this user, with no root above it) must be able to read and replace every file.
    files = {path: FileOf(file.content, file.mode | 0o600) for path, file in files.items()}
    current = place / DATA
    if current.exists() and _content(current.resolve()) == files:
        return False
    place.mkdir(parents=True, exist_ok=True)
    fresh = _fresh_folder(place)
    for path, file in files.items():
        target = fresh.joinpath(*(check_part(part) for part in path.split("/") if part))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
    _swap(place, fresh)
    return True


def _fresh_folder(place: Path) -> Path:
    """The lowest number not in use; the name only has to differ from the one that `..data` points to."""
    number = 1
    while True:
        fresh = place / f"..{number}"
        if not fresh.exists():
            fresh.mkdir(mode=0o755)
            return fresh
        number += 1


def _swap(place: Path, fresh: Path) -> None:
    current = place / DATA
    before = current.resolve() if current.is_symlink() else None
    link = place / "..data_tmp"
    link.unlink(missing_ok=True)
    link.symlink_to(fresh.name)
    link.replace(current)
    wanted = {entry.name for entry in fresh.iterdir()}
    for name in wanted:
        visible = place / name
        if not visible.is_symlink():
            visible.symlink_to(Path(DATA) / name)
    for entry in place.iterdir():
        if entry.is_symlink() and entry.name != DATA and entry.name not in wanted:
            entry.unlink()
    if before is not None and before != fresh:
        shutil.rmtree(before, ignore_errors=True)


def _content(folder: Path) -> dict[str, FileOf]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): FileOf(path.read_bytes(), path.stat().st_mode & 0o777)
            for path in files}


def _host_path(source: Json, host_root: Path | None) -> Path:
    path = source["path"]
    if ".." in Path(path).parts or "\0" in path:
        raise MountFailed(f"hostPath {path!r} may not climb with '..'")
    place = Path(path) if host_root is None else host_root / path.lstrip("/")
    kind = source.get("type") or ""
    if host_root is not None and kind in ("", "Directory", "DirectoryOrCreate"):
        place.mkdir(parents=True, exist_ok=True)   # below our own folder every host folder "exists"
    elif kind == "DirectoryOrCreate":
        place.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    if kind and not place.exists():
        raise MountFailed(f"hostPath type check failed: {path} is not a {kind}")
    return place


def mount_table(container: Json, volumes: Mapping[str, Path], variables: Mapping[str, str]) -> dict[str, str]:
    """Where each mountPath of a container really is."""
    table: dict[str, str] = {}
    for mount in container.get("volumeMounts") or ():
        if mount["name"] not in volumes:
            raise MountFailed(f'volume "{mount["name"]}" of container {container["name"]} does not exist')
        place = volumes[mount["name"]]
        below = mount.get("subPath") or expand(mount.get("subPathExpr") or "", variables)
        if below:
            place = place.joinpath(*(check_part(part) for part in below.split("/") if part))
            if not place.exists():
                place.mkdir(parents=True, exist_ok=True)
        table[mount["mountPath"].rstrip("/") or "/"] = str(place)
    _link_nested(table)
    return table


def _link_nested(table: Mapping[str, str]) -> None:
    """A mount inside another mount is also found by who walks the outer folder."""
    for path, real in table.items():
        for outer, outer_real in table.items():
            if path != outer and path.startswith(outer.rstrip("/") + "/"):
                link = Path(outer_real) / path[len(outer):].strip("/")
                if not link.exists() and not link.is_symlink():
                    with contextlib.suppress(OSError):   # an outer folder that cannot be written to stays as it is
                        link.parent.mkdir(parents=True, exist_ok=True)
                        link.symlink_to(real)


def check_part(part: str) -> str:
    """A name that becomes a part of a path; anything that could leave the folder is refused."""
    if part in ("", ".", "..") or "/" in part or "\0" in part or os.sep in part:
        raise MountFailed(f"{part!r} is not a file name")
    return part
