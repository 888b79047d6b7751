"""Downloads from object stores that others wrote: the files that KServe lays out, and credentials that are really checked."""
import io
import os
import random
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import peers

from serveplane.dataplane.storage.download import download
from serveplane.dataplane.storage.errors import Forbidden, NotFound, StorageError
from serveplane.dataplane.storage.files import Patterns
from serveplane.dataplane.storage.transfer import TransferSettings
from tests.counts import SEED
from tests.e2e.dataplane import stores
from tests.unit.http.certificates import Authority

IRIS = {"model.bst": random.Random(SEED).randbytes(11 << 20), "1/with blank + plus.json": b"{}", "1/ünïcode~(1).txt": b"text"}
SMALL_PIECES = TransferSettings(connections=4, piece_bytes=1 << 20)
NOBODY = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("content")
    files = {f"models/iris/{name}": body for name, body in IRIS.items()} | {
        "models/iris2/other.bst": b"another model", "models/iris.bst": b"not below", "packed/model.tar.gz": packed(),
        "both/model.tgz": packed(), "both/beside.txt": b"x", "zipped/m.zip": zipped(), "gz/m.json.gz": b"not unpacked", "top.pkl": b"top"}
    for name, body in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    return folder


def packed() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, body in IRIS.items():
            member = tarfile.TarInfo(f"iris/{name}")
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    return out.getvalue()


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as bundle:
        bundle.writestr("folder/inside.txt", "text")
    return out.getvalue()


@pytest.fixture(scope="module")
def python() -> Path:
    found = stores.python()
    if found is None:
        pytest.skip("the stores cannot be installed here")
    return found


@pytest.fixture(scope="module")
def s3(python: Path, content: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with stores.s3(python, content, tmp_path_factory.mktemp("s3") / "log") as url:
        yield {**NOBODY, "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}


@pytest.fixture(scope="module")
def gcs(python: Path, content: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with stores.gcs(python, content, tmp_path_factory.mktemp("gcs") / "log") as url:
        yield {"STORAGE_EMULATOR_HOST": url}


@pytest.fixture(scope="module")
def azure(python: Path, content: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], str]]:
    program = stores.azurite()
    if program is None:
        pytest.skip("Azurite cannot be installed here")
    with stores.azure(python, program, content, tmp_path_factory.mktemp("azure")) as (url, signature):
        yield {"AZURE_SERVICE_URL": f"{url}/{stores.ACCOUNT}", "AZURE_STORAGE_ACCESS_KEY": stores.ACCOUNT_KEY}, signature


def fetched(uri: str, folder: Path, environment: dict[str, str], patterns: Patterns | None = None) -> dict[str, bytes]:
    told = io.StringIO()
    download(uri, str(folder), patterns, SMALL_PIECES, environment, told)
    assert "secret" not in told.getvalue()
    return tree(folder)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_layouts(base: str, query: str, environment: dict[str, str], folder: Path) -> None:
    """What KServe's downloader makes of a folder, a folder with a slash, one file, one archive, patterns and nothing."""
    assert fetched(f"{base}/models/iris{query}", folder / "a", environment) == IRIS
    assert fetched(f"{base}/models/iris/{query}", folder / "b", environment) == IRIS
    assert fetched(f"{base}/models/iris/model.bst{query}", folder / "c", environment) == {"model.bst": IRIS["model.bst"]}
    assert fetched(f"{base}/packed{query}", folder / "d", environment) == {f"iris/{name}": body for name, body in IRIS.items()}
    assert set(fetched(f"{base}/models/iris{query}", folder / "e", environment, Patterns(ignore=("1/*",)))) == {"model.bst"}
    with pytest.raises(NotFound):
        fetched(f"{base}/models/nothing{query}", folder / "f", environment)


def test_s3(s3: dict[str, str], tmp_path: Path) -> None:
    check_layouts("s3://bucket", "", s3, tmp_path)


KSERVE = """
import sys
from kserve_storage import Storage
for number, uri in enumerate(sys.argv[2:]):
    Storage.download(uri, f"{sys.argv[1]}/{number}")
"""


def test_the_files_are_those_of_kserve(s3: dict[str, str], tmp_path: Path) -> None:
    """Its downloader, on the same store. A folder without a slash is left out: there it brings the neighbours along, we do not."""
    theirs = peers.environment(peers.KSERVE_STORAGE)
    if theirs is None:
        pytest.skip("kserve-storage cannot be installed here")
    paths = ("", "/", "/models/iris/", "//models/iris/", "/models/iris/model.bst", "/top.pkl", "/packed", "/packed/model.tar.gz", "/both",
             "/zipped/", "/gz")
    uris = [f"s3://bucket{path}" for path in paths]
    variables = {**os.environ, **s3, "AWS_DEFAULT_REGION": "us-east-1"}
    done = subprocess.run([theirs, "-c", KSERVE, tmp_path, *uris], env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for number, uri in enumerate(uris):
        assert fetched(uri, tmp_path / f"ours-{number}", s3) == tree(tmp_path / str(number)), uri


def test_an_s3_bucket_that_is_not_there(s3: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="404"):
        fetched("s3://nobodys/models", tmp_path, s3)


def test_google(gcs: dict[str, str], tmp_path: Path) -> None:
    check_layouts("gs://bucket", "", gcs, tmp_path)


@pytest.mark.parametrize("by", ["key", "signature"])
def test_azure(azure: tuple[dict[str, str], str], tmp_path: Path, by: str) -> None:
    environment, signature = azure
    base = f"https://{stores.ACCOUNT}.blob.core.windows.net/bucket"
    if by == "key":
        check_layouts(base, "", environment, tmp_path)
    else:
        check_layouts(base, f"?{signature}", {"AZURE_SERVICE_URL": environment["AZURE_SERVICE_URL"]}, tmp_path)


def test_azure_believes_no_wrong_key_and_we_do_not_tell_it(azure: tuple[dict[str, str], str], tmp_path: Path) -> None:
    environment = {**azure[0], "AZURE_STORAGE_ACCESS_KEY": "c2VjcmV0"}
    with pytest.raises(Forbidden) as error:
        fetched(f"https://{stores.ACCOUNT}.blob.core.windows.net/bucket/models/iris", tmp_path, environment)
    assert "c2VjcmV0" not in str(error.value)


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_web(content: Path, tmp_path: Path, encrypted: bool) -> None:
    program = stores.fileserver(tmp_path)
    if program is None:
        pytest.skip("Go is not here to build a server with")
    authority = Authority(tmp_path)
    tls = authority.issue("server", "127.0.0.1") if encrypted else ()
    environment = {"REQUESTS_CA_BUNDLE": str(authority.file)}
    with stores.web(program, content, tmp_path / "log", *tls) as url:
        assert fetched(f"{url}/models/iris/model.bst", tmp_path / "a", environment) == {"model.bst": IRIS["model.bst"]}
        assert fetched(f"{url}/models/iris/1/with blank + plus.json", tmp_path / "b", environment) == {"with blank + plus.json": b"{}"}
        assert fetched(f"{url}/packed/model.tar.gz", tmp_path / "c", environment) == {f"iris/{name}": body for name, body in IRIS.items()}
        with pytest.raises(NotFound):
            fetched(f"{url}/models/nothing", tmp_path / "d", environment)
        with pytest.raises(StorageError, match="web page"):
            fetched(f"{url}/models/iris", tmp_path / "e", environment)   # a listing for people
