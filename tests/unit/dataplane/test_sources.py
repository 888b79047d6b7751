"""Every scheme against a store that speaks its protocol: the same files, under the same names, as KServe's own downloader makes."""
import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from serveplane.clock import SystemClock
from serveplane.dataplane.storage.download import download
from serveplane.dataplane.storage.errors import Corrupt, Forbidden, NotFound, StorageError, Unsafe
from serveplane.dataplane.storage.files import Patterns, patterns_from
from serveplane.dataplane.storage.sources import reader
from serveplane.dataplane.storage.sources.aws import Credentials, Signer
from serveplane.dataplane.storage.sources.s3 import base_url
from tests.unit.dataplane.store import Store, hub, running

FILES = {
    "models/iris/model.bst": b"bst" * 100,
    "models/iris/1/meta.json": b"{}",
    "models/iris2/other.bst": b"no",
    "models/single.pkl": b"one",
}


@pytest.fixture
def store() -> Iterator[Store]:
    with running(Store({f"/bucket/{name}": content for name, content in FILES.items()})) as started:
        yield started


def environment(store: Store, **more: str) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL": store.url, "STORAGE_EMULATOR_HOST": store.url, "AZURE_SERVICE_URL": store.url, "HF_ENDPOINT": store.url,
            "AWS_EC2_METADATA_DISABLED": "true", **more}


def fetched(uri: str, folder: Path, env: dict[str, str], patterns: Patterns | None = None) -> dict[str, bytes]:
    download(uri, str(folder), patterns, None, env, io.StringIO())
    return tree(folder)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


IRIS = {"1/meta.json": b"{}", "model.bst": b"bst" * 100}
SCHEMES = [("s3://bucket/", ""), ("gs://bucket/", ""), ("https://account.blob.core.windows.net/bucket/", "")]


@pytest.mark.parametrize("base", ["s3://bucket/", "gs://bucket/", "https://account.blob.core.windows.net/bucket/"])
@pytest.mark.parametrize(("path", "expected"), [
    ("models/iris", IRIS), ("models/iris/", IRIS), ("models/single.pkl", {"single.pkl": b"one"}), ("models/iris/1", {"meta.json": b"{}"})])
def test_a_prefix_is_a_folder_and_nothing_beside_it(store: Store, tmp_path: Path, base: str, path: str, expected: dict[str, bytes]) -> None:
    assert fetched(base + path, tmp_path, environment(store)) == expected


@pytest.mark.parametrize("base", ["s3://bucket/", "gs://bucket/", "https://account.blob.core.windows.net/bucket/"])
def test_nothing_there_is_said(store: Store, tmp_path: Path, base: str) -> None:
    with pytest.raises(NotFound, match="no model found"):
        fetched(base + "models/none", tmp_path, environment(store))
    assert list(tmp_path.iterdir()) == []


def test_patterns_choose_files(store: Store, tmp_path: Path) -> None:
    assert fetched("s3://bucket/models/iris", tmp_path, environment(store), Patterns(allow=("*.bst",))) == {"model.bst": IRIS["model.bst"]}
    assert fetched("s3://bucket/models/iris", tmp_path / "b", environment(store), Patterns(ignore=("*.bst",))) == {"1/meta.json": b"{}"}
    with pytest.raises(NotFound, match="patterns"):
        fetched("s3://bucket/models/iris", tmp_path / "c", environment(store), Patterns(allow=("*.onnx",)))
    assert patterns_from({"STORAGE_ALLOW_PATTERNS": "a, b", "STORAGE_IGNORE_PATTERNS": '["c"]'}) == Patterns(("a", "b"), ("c",))


def test_long_listings_come_in_pages(store: Store, tmp_path: Path) -> None:
    store.page = 7
    store.objects = {f"/bucket/many/f{number:03}": str(number).encode() for number in range(50)}
    assert len(fetched("s3://bucket/many", tmp_path, environment(store))) == 50


def test_a_single_archive_is_unpacked(store: Store, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(info := tarfile.TarInfo("sub/model.joblib"), io.BytesIO(b""))
        assert info.size == 0
    store.objects = {"/bucket/a/model.tar.gz": packed.getvalue()}
    for number, uri in enumerate(("s3://bucket/a", "gs://bucket/a/model.tar.gz", f"{store.url}/bucket/a/model.tar.gz")):
        assert fetched(uri, tmp_path / str(number), environment(store)) == {"sub/model.joblib": b""}


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/passwd", "a//b", "a/./b", "a\\b", "x" * 300])
def test_a_listing_cannot_leave_the_folder(store: Store, tmp_path: Path, name: str) -> None:
    store.objects = {f"/bucket/m/{name}": b"x"}
    with pytest.raises(Unsafe):
        fetched("gs://bucket/m", tmp_path / "in", environment(store))
    assert tree(tmp_path) == {}


def test_s3_requests_are_signed(store: Store, tmp_path: Path) -> None:
    fetched(
        "s3://bucket/models/iris",
        tmp_path,
        environment(store, AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="hidden", AWS_DEFAULT_REGION="eu-west-1"),
    )
    for _, _, headers in store.asked:
        assert headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=key/")
        assert "/eu-west-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=" in headers["Authorization"]
        assert "hidden" not in str(headers)


def test_a_bucket_of_another_region_is_asked_there(store: Store, tmp_path: Path) -> None:
    store.region = "eu-west-1"
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden"}
    assert fetched("s3://bucket/models/iris", tmp_path, environment(store, **keys)) == IRIS
    store.region = "../elsewhere"
    with pytest.raises(StorageError, match="answered 301"):
        fetched("s3://bucket/models/iris", tmp_path / "2", environment(store, **keys))


def test_storage_spec_wins(store: Store, tmp_path: Path) -> None:
    spec = json.dumps({"type": "s3", "endpoint_url": store.url, "access_key_id": "from-spec", "secret_access_key": "s"})
    fetched("s3://bucket/models/iris", tmp_path, {"STORAGE_CONFIG": spec, "STORAGE_OVERRIDE_CONFIG": '{"region": "r-1"}'})
    assert "Credential=from-spec/" in store.asked[0][2]["Authorization"]
    assert "/r-1/s3/" in store.asked[0][2]["Authorization"]


class Noon(SystemClock):
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def test_the_signature_is_the_one_that_botocore_makes() -> None:
    """Computed once with botocore 1.44 (S3SigV4Auth, unsigned payload) for the same request and moment."""
    signer = Signer(lambda: Credentials("AKID", "SECRET", "TOKEN"), "eu-central-1", clock=Noon())
    url = "https://s3.example.com/bucket/a%20b/c%2Bd~e?list-type=2&prefix=a%20b%2Fc&continuation-token=x%3D%3D"
    signed = signer("GET", url, {"Range": "bytes=0-9"})
    assert signed["x-amz-date"] == "20260102T120000Z"
    assert signed["Authorization"].rpartition("Signature=")[2] == BOTOCORE


BOTOCORE = "e5dc61cd09861d83940d37a52ddc967e20b405db8926b460951fcd7eb18b9c84"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "https://b.s3.us-east-1.amazonaws.com"),
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, "https://b.s3.eu-west-1.amazonaws.com"),
        ({"AWS_ENDPOINT_URL": "http://minio:9000"}, "http://minio:9000/b"),
        ({"S3_ENDPOINT": "minio:9000", "S3_USE_HTTPS": "0"}, "http://minio:9000/b"),
        ({"AWS_ENDPOINT_URL": "https://x.com", "S3_USER_VIRTUAL_BUCKET": "true"}, "https://b.x.com"),
        ({"S3_USE_ACCELERATE": "true"}, "https://b.s3-accelerate.amazonaws.com"),
    ],
)
def test_where_a_bucket_is(given: dict[str, str], expected: str) -> None:
    assert base_url("b", given) == expected


def test_web_identity_is_exchanged_for_keys(store: Store, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("jwt")
    keys = {"AccessKeyId": "temporary", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": 4102444800.0}
    answer = {"AssumeRoleWithWebIdentityResponse": {"AssumeRoleWithWebIdentityResult": {"Credentials": keys}}}
    store.answers["/"] = (200, {"Content-Type": "application/json"}, json.dumps(answer).encode())
    fetched("s3://bucket/models/iris", tmp_path / "d", environment(
        store, AWS_WEB_IDENTITY_TOKEN_FILE=str(tmp_path / "token"), AWS_ROLE_ARN="arn", AWS_ENDPOINT_URL_STS=store.url + "/"))
    assert "Credential=temporary/" in store.asked[-1][2]["Authorization"]
    assert store.asked[-1][2]["x-amz-security-token"] == "t"


def test_google_service_accounts_sign_themselves_in(store: Store, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    secret = {"type": "service_account", "client_email": "me@x", "private_key": key, "token_uri": store.url + "/token"}
    (tmp_path / "key.json").write_text(json.dumps(secret))
    store.answers["/token"] = (200, {"Content-Type": "application/json"}, b'{"access_token": "abc", "expires_in": 3600}')
    fetched("gs://bucket/models/iris", tmp_path / "d", environment(store, GOOGLE_APPLICATION_CREDENTIALS=str(tmp_path / "key.json")))
    assert {headers.get("Authorization") for _, path, headers in store.asked if path != "/token"} == {"Bearer abc"}
    assert sum(path == "/token" for _, path, _ in store.asked) == 1


def test_azure_by_key_token_and_signature(store: Store, tmp_path: Path) -> None:
    uri = "https://account.blob.core.windows.net/bucket/models/iris"
    fetched(uri, tmp_path / "a", environment(store, AZURE_STORAGE_ACCESS_KEY="c2VjcmV0"))
    assert store.asked[-1][2]["Authorization"].startswith("SharedKey account:")
    fetched(uri, tmp_path / "b", environment(store, AZURE_ACCESS_TOKEN="tok"))
    assert store.asked[-1][2]["Authorization"] == "Bearer tok"
    fetched(uri + "?sv=1&sig=hidden", tmp_path / "c", environment(store))
    assert "Authorization" not in store.asked[-1][2]
    assert store.asked[-1][1].endswith("?sv=1&sig=hidden")


def test_hugging_face_pins_a_commit_and_verifies(store: Store, tmp_path: Path) -> None:
    commit, files = "c" * 40, {"config.json": b"{}", "sub/w.bin": b"weights" * 1000}
    hub(store, "me/m", commit, files, {"sub/w.bin"})
    assert fetched("hf://me/m", tmp_path / "a", environment(store, HF_TOKEN="tok")) == files
    assert {path.startswith("/cdn/"): headers.get("Authorization") for _, path, headers in store.asked} == {False: "Bearer tok", True: None}
    store.objects = {path: bytes(len(content)) for path, content in store.objects.items()}
    with pytest.raises(Corrupt, match="sha256 is"):
        fetched("hf://me/m", tmp_path / "b", environment(store))


def image(store: Store, layers: list[dict[str, bytes]], gz: bool = True) -> None:
    entries = []
    for layer in layers:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, content in layer.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        raw = gzip.compress(packed.getvalue()) if gz else packed.getvalue()
        digest = "sha256:" + hashlib.sha256(raw).hexdigest()
        store.objects[f"/v2/me/m/blobs/{digest}"] = raw
        entries.append({"mediaType": f"application/vnd.oci.image.layer.v1.tar{'+gzip' if gz else ''}", "digest": digest, "size": len(raw)})
    manifest = json.dumps({"mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": entries}).encode()
    index = {"mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
        {"digest": f"sha256:{arch}", "platform": {"os": "linux", "architecture": arch}} for arch in ("amd64", "arm64", "unknown")]}
    store.answers["/v2/me/m/manifests/v1"] = (200, {}, json.dumps(index).encode())
    for arch in ("amd64", "arm64"):
        store.answers[f"/v2/me/m/manifests/sha256:{arch}"] = (200, {}, manifest)


@pytest.mark.parametrize("gz", [True, False])
def test_models_in_images(store: Store, tmp_path: Path, gz: bool) -> None:
    image(store, [{"etc/passwd": b"x", "models/a.bin": b"old"}, {"models/a.bin": b"new", "models/sub/b.bin": b"b"}], gz)
    uri = f"oci+fetch://{store.url.removeprefix('http://')}/me/m:v1"
    assert fetched(uri, tmp_path, environment(store, KSERVE_OCI_INSECURE_REGISTRY="true")) == {"a.bin": b"new", "sub/b.bin": b"b"}


def test_an_image_without_a_model_says_so(store: Store, tmp_path: Path) -> None:
    image(store, [{"etc/passwd": b"x"}])
    with pytest.raises(StorageError, match="no folder /models"):
        fetched(f"oci://{store.url.removeprefix('http://')}/me/m:v1", tmp_path, environment(store, KSERVE_OCI_INSECURE_REGISTRY="true"))


def test_local_files_are_linked(tmp_path: Path) -> None:
    source = tmp_path / "src"
    (source / "sub").mkdir(parents=True)
    (source / "m.bst").write_bytes(b"1")
    for _ in range(2):   # a second run changes nothing
        download(f"file://{source}", str(tmp_path / "dst"))
        assert os.readlink(tmp_path / "dst" / "m.bst") == str(source / "m.bst")
    assert sorted(os.listdir(tmp_path / "dst")) == ["m.bst", "sub"]
    with pytest.raises(NotFound):
        download(str(tmp_path / "none"), str(tmp_path / "dst"))


@pytest.mark.parametrize(
    ("uri", "part"),
    [
        ("hdfs://a/b", "ClusterStorageContainer"),
        ("webhdfs://a/b", "ClusterStorageContainer"),
        ("modelscope://a/b", "mirror"),
        ("ftp://a/b", "no storage has the scheme"),
        ("https://x.com/a.git", "git"),
        ("https://a.file.core.windows.net/share/m", "file shares"),
        ("hf://only", "hf://owner/model"),
        ("s3://", "no bucket"),
        ("oci://nothing", "oci://registry"),
    ],
)
def test_refusals_say_what_to_do(uri: str, part: str, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=part):
        fetched(uri, tmp_path / "d", {})


def test_of_an_error_only_code_and_message_are_told(store: Store, tmp_path: Path) -> None:
    body = b"<Error><Code>InvalidAccessKeyId</Code><Message>No such key.</Message><AWSAccessKeyId>AKIAHIDDEN</AWSAccessKeyId></Error>"
    store.answers["/bucket"] = (403, {"Content-Type": "application/xml"}, body)
    with pytest.raises(Forbidden, match="answered 403: InvalidAccessKeyId: No such key") as error:
        fetched("s3://bucket/m", tmp_path, environment(store, AWS_ACCESS_KEY_ID="AKIAHIDDEN", AWS_SECRET_ACCESS_KEY="s"))
    assert "AKIAHIDDEN" not in str(error.value)


def test_forbidden_is_told_apart(store: Store, tmp_path: Path) -> None:
    store.answers["/bucket"] = (403, {"Content-Type": "application/xml"}, b"<Error><Code>AccessDenied</Code></Error>")
    with pytest.raises(Forbidden, match=r"AccessDenied.*credentials"):
        fetched("s3://bucket/models/iris", tmp_path, environment(store))


def test_readers() -> None:
    assert [
        reader(uri)
        for uri in ("oci+fetch://a.b/c", "webhdfs://x", "https://a.z12.blob.storage.azure.net/c/d", "http://a/b")
    ] == ["oci", "hdfs", "azure", "web"]
