"""Downloads over TLS: which certificates are believed, and by what the environment says so."""
import datetime
import io
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from serveplane.dataplane.storage.download import download
from serveplane.dataplane.storage.errors import StorageError
from tests.unit.dataplane.store import Handler, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    certificate(tmp_path)
    store = Store({"/b/model.bin": b"x" * 1000})
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"store": store}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cabundle.crt", tmp_path / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    store.url = f"https://127.0.0.1:{server.server_address[1]}"
    yield store
    server.shutdown()
    server.server_close()
    thread.join()


def certificate(folder: Path) -> None:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256()))
    (folder / "cabundle.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))


def fetch(uri: str, folder: Path, environment: dict[str, str]) -> bytes:
    download(uri, str(folder), None, None, environment, io.StringIO())
    return (folder / "model.bin").read_bytes()


def test_a_stranger_is_not_believed(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="certificate is not trusted"):
        fetch(f"{store.url}/b/model.bin", tmp_path / "d", {})


def test_the_central_bundle_is_believed(store: Store, tmp_path: Path) -> None:
    environment = {"CA_BUNDLE_CONFIGMAP_NAME": "ca", "CA_BUNDLE_VOLUME_MOUNT_POINT": str(tmp_path)}
    assert len(fetch(f"{store.url}/b/model.bin", tmp_path / "d", environment)) == 1000


@pytest.mark.parametrize("how", ["AWS_CA_BUNDLE", "S3_VERIFY_SSL"])
def test_s3_has_its_own_bundle_or_none(store: Store, tmp_path: Path, how: str) -> None:
    environment = {"AWS_ENDPOINT_URL": store.url, "awsAnonymousCredential": "true"}
    environment[how] = str(tmp_path / "cabundle.crt") if how == "AWS_CA_BUNDLE" else "0"
    assert len(fetch("s3://b/model.bin", tmp_path / "d", environment)) == 1000


def test_a_bundle_that_is_not_there_is_said(store: Store, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="CA bundle /none/x does not exist"):
        fetch("s3://b/model.bin", tmp_path / "d", {"AWS_ENDPOINT_URL": store.url, "AWS_CA_BUNDLE": "/none/x"})


def test_a_redirect_to_plain_http_is_refused(store: Store, tmp_path: Path) -> None:
    store.answers["/moved/model.bin"] = (302, {"Location": "http://127.0.0.1:1/model.bin"}, b"")
    environment = {"CA_BUNDLE_CONFIGMAP_NAME": "ca", "CA_BUNDLE_VOLUME_MOUNT_POINT": str(tmp_path)}
    with pytest.raises(StorageError, match="unencrypted"):
        fetch(f"{store.url}/moved/model.bin", tmp_path / "d", environment)
