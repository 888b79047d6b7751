"""Models from Hugging Face and from container registries, each beside what its makers' own programs do.

There is no hub to install, so ours is held to the official client: what that reads from it is what a hub gives. The registry is the
reference one if it is there (`make soak` builds it, which takes minutes), else that of `crane`, which fills both and unpacks images too.
"""
import base64
import io
import os
import platform
import random
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from bench import peers

from serveplane.dataplane.storage.download import download
from serveplane.dataplane.storage.errors import Forbidden, NotFound
from serveplane.dataplane.storage.transfer import TransferSettings
from tests.counts import COUNTS, SEED, SOAK
from tests.e2e.dataplane import stores
from tests.unit.dataplane.store import Store, hub, running

WEIGHTS = random.Random(SEED).randbytes(5 << 20)
COMMIT = "c" * 40
REPOSITORY = {"config.json": b'{"a": 1}', "ünï/with blank.txt": b"text", "weights/model.safetensors": WEIGHTS, "README.md": b"# Model\n"}
SMALL_PIECES = TransferSettings(connections=3, piece_bytes=1 << 20)
KSERVE = """
import sys
from kserve_storage import Storage
Storage.download(sys.argv[1], sys.argv[2])
"""


def fetched(uri: str, folder: Path, environment: dict[str, str]) -> dict[str, bytes]:
    told = io.StringIO()
    download(uri, str(folder), None, SMALL_PIECES, environment, told)
    assert "hidden" not in told.getvalue()
    return tree(folder)


def fetched_by_kserve(uri: str, folder: Path, environment: dict[str, str]) -> dict[str, bytes]:
    """Which is by Hugging Face's own client."""
    python = peers.environment(peers.KSERVE_STORAGE)
    if python is None:
        pytest.skip("kserve-storage cannot be installed here")
    clean = {name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY") and not name.startswith("HF_")}
    folder.mkdir()
    done = subprocess.run([python, "-c", KSERVE, uri, folder], capture_output=True, text=True, timeout=300, check=False,
                          env={**clean, **environment, "HF_HUB_DISABLE_TELEMETRY": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    return {name: content for name, content in tree(folder).items() if not name.startswith(".cache/")}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("revision", ["", f":{COMMIT}"])
def test_a_hub_gives_us_what_it_gives_its_own_client(tmp_path: Path, revision: str) -> None:
    with running(Store()) as store:
        hub(store, "me/m", COMMIT, REPOSITORY, {"weights/model.safetensors"})
        environment = {"HF_ENDPOINT": store.url, "HF_TOKEN": "hidden"}
        assert fetched_by_kserve(f"hf://me/m{revision}", tmp_path / "theirs", environment) == REPOSITORY
        theirs = {path.partition("?")[0] for _, path, _ in store.asked}
        store.asked.clear()
        assert fetched(f"hf://me/m{revision}", tmp_path / "ours", environment) == REPOSITORY
        assert {path.partition("?")[0] for _, path, _ in store.asked} <= theirs | {f"/api/models/me/m/revision/{COMMIT}"}
        with pytest.raises(NotFound):
            fetched("hf://me/other", tmp_path / "none", environment)


@dataclass
class Registry:
    """A registry with images of one model: `me/m:plain`, `me/m:amd64` and `me/m:arm64` for one machine, `me/m:all` for both."""

    address: str
    crane: Path
    folder: Path
    asks_who: bool

    @property
    def environment(self) -> dict[str, str]:
        return {"KSERVE_OCI_INSECURE_REGISTRY": "true", "KSERVE_OCI_DOCKER_CONFIG": str(self.folder / "config.json")}

    def run(self, *words: str | Path) -> str:
        done = subprocess.run([self.crane, *words, "--insecure"], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "DOCKER_CONFIG": str(self.folder)})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


LAYERS = ({"etc/passwd": b"root", "models/a.bin": b"old", "models/deep/er/c.bin": b"c"},
          {"models/a.bin": b"new", "models/weights.bin": WEIGHTS, "tmp/x": b"x"})
MODEL = {"a.bin": b"new", "deep/er/c.bin": b"c", "weights.bin": WEIGHTS}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    program, crane = stores.go_program(stores.REGISTRY, build=COUNTS is SOAK), stores.go_program(stores.CRANE)
    if crane is None:
        pytest.skip("crane cannot be built here (it needs Go and its module proxy)")
    folder = tmp_path_factory.mktemp("registry")
    with stores.registry(program, crane, folder / "registry") as address:
        (folder / "config.json").write_bytes(msgspec.json.encode(
            {"auths": {address: {"auth": base64.b64encode(stores.LOGIN.encode()).decode()}}}))
        filled = Registry(address, crane, folder, asks_who=program is not None)
        layers = [word for number, files in enumerate(LAYERS) for word in ("-f", packed(folder / f"{number}.tar", files))]
        filled.run("append", *layers, "-t", f"{address}/me/m:plain")
        for machine in ("amd64", "arm64"):
            filled.run("mutate", f"{address}/me/m:plain", "--set-platform", f"linux/{machine}", "-t", f"{address}/me/m:{machine}")
        filled.run("index", "append", "-m", f"{address}/me/m:amd64", "-m", f"{address}/me/m:arm64", "-t", f"{address}/me/m:all")
        yield filled


def packed(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def exported(registry: Registry, image: str, path: Path) -> dict[str, bytes]:
    """The folder /models of an image as `crane` puts its layers together."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    registry.run("export", image, path, "--platform", f"linux/{machine}")
    with tarfile.open(path) as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        return {name.removeprefix("models/"): file.read() for name, file in files.items() if file and name.startswith("models/")}


@pytest.mark.parametrize("tag", ["amd64", "all", "digest"])
def test_a_registry_gives_us_what_it_gives_its_own_client(registry: Registry, tmp_path: Path, tag: str) -> None:
    name = f"{registry.address}/me/m"
    image = f"{name}@{registry.run('digest', f'{name}:all')}" if tag == "digest" else f"{name}:{tag}"
    assert fetched(f"oci+fetch://{image}", tmp_path / "ours", registry.environment) == MODEL
    if tag != "amd64" or platform.machine() == "x86_64":
        assert exported(registry, image, tmp_path / "image.tar") == MODEL


def test_a_registry_lets_nobody_in_without_a_login(registry: Registry, tmp_path: Path) -> None:
    if not registry.asks_who:
        pytest.skip("the reference registry is built by `make soak` only")
    nobody = {**registry.environment, "KSERVE_OCI_DOCKER_CONFIG": "/nowhere"}
    with pytest.raises(Forbidden, match="401"):
        fetched(f"oci+fetch://{registry.address}/me/m:plain", tmp_path, nobody)


def test_an_image_that_is_not_there(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        fetched(f"oci+fetch://{registry.address}/me/m:nothing", tmp_path, registry.environment)
