"""Volumes: files from the API, swapped in one step; names that would leave the folder are refused."""
from fractions import Fraction
from pathlib import Path

import pytest

from serveplane.embedded.node.environment import MissingReference, References
from serveplane.embedded.node.volumes import FileOf, Given, MountFailed, make_volume, mount_table, write_files
from serveplane.objects import Json

POD: Json = {"metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "1", "b": 'q"x'}}, "spec": {}}
GIVEN = Given(References({"cm": {"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AAE="}}},
                         {"s": {"data": {"key": "dmFs"}}}), {("t", "token"): "TOKEN"}, {"claim": Path("/claims/1")})


def made(volume: Json, tmp_path: Path, host_root: Path | None = None) -> Path:
    return make_volume({"name": "v", **volume}, POD, GIVEN, tmp_path, host_root or tmp_path / "host")


def test_config_maps_and_secrets(tmp_path: Path) -> None:
    place = made({"configMap": {"name": "cm"}}, tmp_path)
    assert {file.name: file.read_bytes() for file in place.iterdir() if not file.name.startswith("..")} == {
        "a": b"1", "b": b"2", "c": b"\0\1"}
    secret = made({"secret": {"secretName": "s", "items": [{"key": "key", "path": "deep/er", "mode": 0o400}]}},
                  tmp_path / "2")
    assert (secret / "deep/er").read_text() == "val"
    assert (secret / "deep/er").stat().st_mode & 0o777 == 0o600


def test_projected_with_a_token_and_the_downward_api(tmp_path: Path) -> None:
    sources = [{"serviceAccountToken": {"path": "token"}},
               {"configMap": {"name": "cm", "items": [{"key": "a", "path": "ca.crt"}]}},
               {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
                                          {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]
    place = make_volume({"name": "t", "projected": {"sources": sources}}, POD, GIVEN, tmp_path, None)
    assert (place / "token").read_text() == "TOKEN"
    assert (place / "token").stat().st_mode & 0o777 == 0o600
    assert (place / "namespace").read_text() == "ns"
    assert (place / "labels").read_text() == 'a="1"\nb="q\\"x"'


def test_resources_as_files(tmp_path: Path) -> None:
    container = {"name": "c", "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "250m"}}}
    items = [{"path": path, "resourceFieldRef": {"containerName": "c", "resource": resource, **more}} for path, resource, more in (
        ("memory", "limits.memory", {"divisor": "1Mi"}), ("asked", "requests.cpu", {"divisor": "1m"}), ("cores", "limits.cpu", {}))]
    given = Given(References(), {}, {}, {"cpu": Fraction(4)})
    place = make_volume({"name": "v", "downwardAPI": {"items": items}}, {**POD, "spec": {"containers": [container]}}, given, tmp_path, None)
    assert [(place / item["path"]).read_text() for item in items] == ["64", "250", "4"]


def test_an_update_is_one_step_and_leaves_nothing_old(tmp_path: Path) -> None:
    place = tmp_path / "v"
    assert write_files(place, {"a": FileOf(b"1", 0o644), "gone": FileOf(b"x", 0o644)})
    assert not write_files(place, {"a": FileOf(b"1", 0o644), "gone": FileOf(b"x", 0o644)})
    link = (place / "..data").readlink()
    assert write_files(place, {"a": FileOf(b"2", 0o644)})
    assert (place / "..data").readlink() != link
    assert (place / "a").read_bytes() == b"2"
    assert not (place / "gone").exists()
    assert len([entry for entry in place.iterdir() if entry.is_dir() and not entry.is_symlink()]) == 1


def test_host_paths_lie_below_the_node_unless_told(tmp_path: Path) -> None:
    root = tmp_path / "host"
    assert made({"hostPath": {"path": "/models", "type": "DirectoryOrCreate"}}, tmp_path, root) == root / "models"
    assert (root / "models").is_dir()
    assert make_volume({"name": "v", "hostPath": {"path": str(tmp_path)}}, POD, GIVEN, tmp_path, None) == tmp_path


@pytest.mark.parametrize("volume", [
    {"hostPath": {"path": "/a/../../etc"}}, {"nfs": {"server": "x", "path": "/"}},
    {"persistentVolumeClaim": {"claimName": "other"}},
    {"configMap": {"name": "cm", "items": [{"key": "a", "path": "../../x"}]}},
    {"configMap": {"name": "cm", "items": [{"key": "a", "path": "a/../x"}]}}])
def test_what_cannot_be_mounted_is_refused(volume: Json, tmp_path: Path) -> None:
    with pytest.raises(MountFailed):
        made(volume, tmp_path)


def test_a_missing_object_is_waited_for_unless_optional(tmp_path: Path) -> None:
    with pytest.raises(MissingReference):
        made({"configMap": {"name": "absent"}}, tmp_path)
    assert list(made({"configMap": {"name": "absent", "optional": True}}, tmp_path).glob("[!.]*")) == []


def test_mounts_with_sub_paths_and_one_in_another(tmp_path: Path) -> None:
    volumes = {"models": tmp_path / "m", "config": tmp_path / "c"}
    for folder in volumes.values():
        folder.mkdir()
    container: Json = {"name": "c", "volumeMounts": [
        {"name": "models", "mountPath": "/mnt/models/"}, {"name": "config", "mountPath": "/mnt/models/config"},
        {"name": "models", "mountPath": "/sub", "subPathExpr": "$(POD)/x"}]}
    table = mount_table(container, volumes, {"POD": "p1"})
    assert table == {"/mnt/models": str(tmp_path / "m"), "/mnt/models/config": str(tmp_path / "c"),
                     "/sub": str(tmp_path / "m/p1/x")}
    assert (tmp_path / "m/config").readlink() == tmp_path / "c"
    with pytest.raises(MountFailed):
        mount_table({"name": "c", "volumeMounts": [{"name": "models", "mountPath": "/x", "subPath": "../up"}]}, volumes, {})
