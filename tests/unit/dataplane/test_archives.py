"""Hostile archives: nothing leaves the folder, nothing fills the disk."""
import io
import os
import stat
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serveplane.dataplane.storage.archives import UnpackLimits, unpack
from serveplane.dataplane.storage.errors import StorageError, Unsafe
from tests.counts import COUNTS


def tar(path: Path, *members: tuple[str, Any], mode: str = "w:gz") -> Path:
    """Members are (name, bytes) or (name, {attributes of TarInfo})."""
    with tarfile.open(path, mode) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                for attribute, value in content.items():
                    setattr(info, attribute, value)
                archive.addfile(info)
    return path


def zipped(path: Path, *members: tuple[str, bytes, int]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return path


def symlink(target: str) -> dict[str, Any]:
    return {"type": tarfile.SYMTYPE, "linkname": target}


def hard_link(target: str) -> dict[str, Any]:
    return {"type": tarfile.LNKTYPE, "linkname": target}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_good_tars(tmp_path: Path, mode: str) -> None:
    archive = tar(
        tmp_path / "m",
        ("./", {"type": tarfile.DIRTYPE}),
        ("./a/m.bin", b"1"),
        ("b", b"2"),
        ("l", symlink("a/m.bin")),
        ("h", hard_link("b")),
        mode=mode,
    )
    unpack(archive, "m.tar", tmp_path / "out")
    assert (tmp_path / "out/a/m.bin").read_bytes() == b"1"
    assert (tmp_path / "out/l").read_bytes() == b"1"
    assert (tmp_path / "out/h").read_bytes() == b"2"
    assert os.stat(tmp_path / "out/h").st_nlink == 1


def test_good_zip(tmp_path: Path) -> None:
    unpack(zipped(tmp_path / "m", ("a/", b"", 0), ("a/m.bin", b"1", 0o100755)), "m.zip", tmp_path / "out")
    assert (tmp_path / "out/a/m.bin").read_bytes() == b"1"
    assert os.access(tmp_path / "out/a/m.bin", os.X_OK)


@pytest.mark.parametrize(
    "members",
    [
        [("../evil", b"x")],
        [("/tmp/evil", b"x")],
        [("a/../../evil", b"x")],
        [("a\\..\\evil", b"x")],
        [("l", symlink("/etc"))],
        [("l", symlink("../.."))],
        [("l", symlink("/etc")), ("l/passwd", b"x")],
        [("l", symlink("..")), ("l/evil", b"x")],
        [("d/e/l", symlink("../..")), ("m", symlink("d/e/l/.."))],
        [("h", hard_link("/etc/passwd"))],
        [("h", hard_link("../secret"))],
        [("h", hard_link("none"))],
        [("l", symlink("secret")), ("h", hard_link("l"))],
        [("dev", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})],
        [("dev", {"type": tarfile.BLKTYPE})],
        [("pipe", {"type": tarfile.FIFOTYPE})],
        [("a", b"x"), ("a/b", b"y")],
    ],
    ids=str,
)
def test_evil_tars(tmp_path: Path, members: list[Any]) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    before = set(tmp_path.rglob("*"))
    with pytest.raises((Unsafe, StorageError)):
        unpack(tar(tmp_path / "m", *members), "m.tar.gz", tmp_path / "in" / "out")
    outside = {path for path in tmp_path.rglob("*") if not path.is_relative_to(tmp_path / "in")} - before - {tmp_path / "m"}
    assert outside == set()
    assert (tmp_path / "secret").read_bytes() == b"secret"


@pytest.mark.parametrize(
    "members",
    [
        [("../evil", b"x", 0)],
        [("/evil", b"x", 0)],
        [("l", b"/etc/passwd", stat.S_IFLNK | 0o777)],
        [("p", b"", stat.S_IFIFO)],
        [("a", b"", 0), ("a/b", b"", 0)],
    ],
    ids=str,
)
def test_evil_zips(tmp_path: Path, members: list[Any]) -> None:
    with pytest.raises((Unsafe, StorageError)):
        unpack(zipped(tmp_path / "m", *members), "m.zip", tmp_path / "in" / "out")
    assert not (tmp_path / "in" / "evil").exists()


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_a_bomb_stops_early(tmp_path: Path, kind: str) -> None:
    zeros = bytes(20 << 20)
    archive = tar(tmp_path / "m", ("zeros", zeros)) if kind == "tar.gz" else zipped(tmp_path / "m", ("zeros", zeros, 0))
    with pytest.raises(Unsafe, match="bomb"):
        unpack(archive, f"m.{kind}", tmp_path / "out", UnpackLimits(ratio=10, free_bytes=1 << 20))
    assert (tmp_path / "out/zeros").stat().st_size < 4 << 20


def test_too_many_entries(tmp_path: Path) -> None:
    with pytest.raises(Unsafe, match="too many"):
        unpack(tar(tmp_path / "m", *((f"f{number}", b"") for number in range(50))), "m.tgz", tmp_path / "out", UnpackLimits(entries=20))


@settings(max_examples=COUNTS.fuzzed_objects // 5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["m.tar", "m.tar.gz", "m.zip"]), st.data())
def test_damaged_archives_are_one_sentence(tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("a")
    good = (
        zipped(folder / "m", ("a", b"x" * 50, 0))
        if name == "m.zip"
        else tar(folder / "m", ("a", b"x" * 50), mode="w" if name == "m.tar" else "w:gz")
    )
    raw = bytearray(good.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    good.write_bytes(bytes(raw[:data.draw(st.integers(0, len(raw)))]))
    with suppress(StorageError):   # anything else fails the test
        unpack(good, name, folder / "out")
